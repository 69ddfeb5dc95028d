"""The events of a study, read once: what happened to each trial, job and match.

Each event is compared with what must have happened before it. The driver's fold is
not used, since it would hide its own faults; `folded` is for where its result itself is compared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpsearch.audit.books import UNREADABLE
from hpsearch.audit.finding import MALFORMED, Fault, is_same, shown
from hpsearch.study.events import Event
from hpsearch.study.state import StudyState

CHECK = "events"
FINISHED, PRUNED, FAILED, CANCELLED = "finished", "pruned", "failed", "cancelled"
RUNNING = "running"
VERBS = {"pause": "paused", "stop": "stopping", "cancel": CANCELLED, "resume": RUNNING}
ENDINGS = (FINISHED, "stopped", FAILED)


@dataclass
class Attempt:
    number: int
    token: str
    job: str
    announced: int  # id of the event
    place: int  # how many groups its job had been given before
    ended: Event | None = None


@dataclass
class TrialEntry:
    number: int
    params: Mapping[str, Any]
    retry_of: int | None
    origin: Mapping[str, Any] | None  # whose interval it is, where there is a population
    attempts: list[Attempt] = field(default_factory=list)
    reports: dict[int, Event] = field(default_factory=dict)  # by step
    told: Event | None = None
    teller: Attempt | None = None  # that held the token when the trial was told

    @property
    def live(self) -> Attempt | None:
        """The attempt that has not ended."""
        newest = self.attempts[-1] if self.attempts else None
        return newest if newest is not None and newest.ended is None else None

    @property
    def state(self) -> str | None:
        """How it was told."""
        return None if self.told is None else str(self.told.data["state"])

    @property
    def steps(self) -> int | None:
        """Where the interval of a member ends."""
        return None if self.origin is None else int(self.origin["steps"])


@dataclass
class JobEntry:
    name: str
    groups: list[list[Any]] = field(default_factory=list)
    matches: dict[int, int] = field(default_factory=dict)  # by place among the groups
    id: str | None = None
    kinds: set[str] = field(default_factory=set)  # of its events after its announcement

    @property
    def ended(self) -> bool:
        return "job_ended" in self.kinds


@dataclass
class MatchEntry:
    number: int
    members: Mapping[str, int]
    archive: list[int]
    ended: list[int]
    given: bool = False  # whether a job has been told to play it
    decision: Mapping[str, Any] | None = None


@dataclass
class Ledger:
    """What the events of a study add up to."""

    trials: dict[int, TrialEntry] = field(default_factory=dict)
    jobs: dict[str, JobEntry] = field(default_factory=dict)
    matches: dict[int, MatchEntry] = field(default_factory=dict)
    planned: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # trials to come, by key
    requests: set[str] = field(default_factory=set)
    retries: list[int] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)  # of the origins of all trials
    status: str | None = None
    faults: list[Fault] = field(default_factory=list)

    @property
    def rests(self) -> bool:
        """Whether the study has ended and nothing of it runs."""
        lives = any(not job.ended for job in self.jobs.values())
        return self.status in (*ENDINGS, CANCELLED) and not lives

    def told(self, number: Any, state: str) -> bool:
        return number in self.trials and self.trials[number].state == state


Blames = Iterator[str | tuple[Any, str]]  # what an event cannot say, and of which trial
Rule = Callable[[Ledger, Event], Blames]


def read_ledger(events: Iterable[Event]) -> Ledger:
    """Return what events add up to, with the faults of their order and form."""
    ledger = Ledger()
    for event in events:
        try:
            for blame in _enter(ledger, event):
                _note(ledger, event, blame)
        # What was tampered with may have any form; the rules name keys as if it had the right one.
        except MALFORMED as error:
            _note(ledger, event, f"cannot be: {type(error).__name__} at {shown(str(error))}")
    return ledger


def _note(ledger: Ledger, event: Event, blame: str | tuple[Any, str]) -> None:
    trial, message = (event.trial, blame) if isinstance(blame, str) else blame
    ledger.faults.append(Fault(CHECK, trial, f"event {event.id} ({event.kind}) {message}"))


def _enter(ledger: Ledger, event: Event) -> Blames:
    if event.kind not in _RULES:
        yield f"is of an unknown kind, {shown(event.kind)}"
        return
    if not isinstance(event.data, dict) or UNREADABLE in event.data:
        held = event.data[UNREADABLE] if isinstance(event.data, dict) else event.data
        yield f"holds no JSON object, but {shown(held)}"
        return
    columns, rule = _RULES[event.kind]
    named = {"trial": event.trial, "attempt": event.attempt, "job": event.job}
    for name, value in named.items():
        if (value is not None) != (name in columns):
            yield f"must name {'a' if name in columns else 'no'} {name}"
    yield from rule(ledger, event)


def folded(events: Iterable[Event]) -> StudyState | None:
    """Return what readers and the driver make of events; None of some that they cannot read."""
    state = StudyState()
    try:
        state.apply(events)
    except MALFORMED:  # the rules say what is wrong with them
        return None
    return state


# The study.


def _started_or_ended(ledger: Ledger, event: Event) -> Blames:
    ledger.status = RUNNING if event.kind == "started" else event.data["status"]
    if event.kind == "ended" and ledger.status not in ENDINGS:
        yield f"says that the study is {shown(ledger.status)}"


def _requested(ledger: Ledger, event: Event) -> Blames:
    verb, again = event.data["verb"], event.data["trials"]
    if event.data["id"] in ledger.requests:
        yield f"repeats the request {shown(event.data['id'])}"
    if verb not in (*VERBS, "retry", "enqueue"):
        yield f"asks for {shown(verb)}, which is unknown"
    ledger.requests.add(event.data["id"])
    ledger.status = VERBS.get(verb, ledger.status)
    if verb == "retry" and again:
        ledger.status = RUNNING
        for number in again:
            if not ledger.told(number, FAILED):
                yield number, f"tries trial {shown(number)} again, which has not failed"
        ledger.retries += again


# Trials.


def _asked(ledger: Ledger, event: Event) -> Blames:
    number, data = _trial_number(event), event.data
    if ledger.status != RUNNING:
        yield f"asks for a trial of a study that is {ledger.status}"
    if number in ledger.trials:
        yield f"asks for trial {number} a second time"
        return
    trial = TrialEntry(number, data["params"], data.get("retry_of"), data.get("origin"))
    trial.params.items()  # of the right form, or it is a fault
    ledger.trials[number] = trial
    if trial.retry_of is not None:
        if trial.retry_of not in ledger.retries:
            yield f"tries {shown(trial.retry_of)} again, unasked"
        else:
            ledger.retries.remove(trial.retry_of)
            if not is_same(ledger.trials[trial.retry_of].params, trial.params):
                yield f"has other params than trial {trial.retry_of}"
    if trial.origin is not None:
        yield from _asked_as_planned(ledger, trial, trial.origin)


def _asked_as_planned(ledger: Ledger, trial: TrialEntry, origin: Mapping[str, Any]) -> Blames:
    key, params = origin["key"], origin["params"]
    planned = ledger.planned.pop(key, None)
    if key in ledger.keys or planned is None:
        yield f"asks for the origin {shown(key)}, which is not planned"
    elif not is_same(planned, origin):
        yield f"has the origin {shown(origin)}, but planned was {shown(planned)}"
    if params is not None and not is_same(params, trial.params):
        yield f"has params {shown(trial.params)}, but its origin says {shown(params)}"
    ledger.keys.add(key)


def _reported(ledger: Ledger, event: Event) -> Blames:
    trial, step = _trial(ledger, event), event.data["step"]
    if step in trial.reports:
        yield f"reports step {step} of it a second time"
        return
    if trial.live is None or trial.told is not None:
        yield f"reports step {step} of trial {trial.number} at rest"
    if not isinstance(event.data["value"], float) or not isinstance(event.data["prune"], bool):
        yield f"reports {shown(event.data)}"
    trial.reports[step] = event


def _attempt_ended(ledger: Ledger, event: Event) -> Blames:
    trial = _trial(ledger, event)
    if trial.live is not None and trial.live.number == event.attempt:
        trial.live.ended = event
        return
    lives = "none" if trial.live is None else str(trial.live.number)
    yield f"ends attempt {shown(event.attempt)} of trial {trial.number}, of which {lives} lives"


def _told(ledger: Ledger, event: Event) -> Blames:
    trial, state = _trial(ledger, event), event.data["state"]
    if trial.told is not None:
        yield f"tells trial {trial.number} a second time"
        return
    if state not in (FINISHED, PRUNED, FAILED):
        yield f"tells that trial {trial.number} is {shown(state)}"
    last = next(reversed(trial.reports.values()), None)
    if state == PRUNED and (last is None or last.data["prune"] is not True):
        yield f"prunes trial {trial.number}, unlike its last report"
    if trial.live is None and event.data["failure"] != CANCELLED:
        yield f"tells trial {trial.number}, of which no attempt held a token"
    trial.told, trial.teller = event, trial.live


# Jobs.


def _announced(ledger: Ledger, event: Event) -> Blames:
    name, group = _job_name(event), list(event.data["trials"])
    if ledger.status not in (RUNNING, "stopping"):
        yield f"announces a job of a study that is {ledger.status}"
    if name not in ledger.jobs:
        if name != f"{len(ledger.jobs) + 1:05d}":
            yield f"announces job {shown(name)}, out of turn"
        ledger.jobs[name] = JobEntry(name)
    job = ledger.jobs[name]
    if job.ended or "job_closed" in job.kinds or (job.groups and "job_began" not in job.kinds):
        yield f"gives more to job {name}, which takes no more"
    if "match" in event.data:
        ledger.matches[event.data["match"]].given = True
        job.matches[len(job.groups)] = event.data["match"]
    elif not group:
        yield f"gives nothing to job {name}"
    job.groups.append(group)
    for assignment in group:
        for message in _assign(ledger, event, job, assignment):
            yield assignment["trial"], message


def _assign(
    ledger: Ledger, event: Event, job: JobEntry, assignment: Mapping[str, Any]
) -> Iterator[str]:
    number, attempt, token = (assignment[key] for key in ("trial", "attempt", "token"))
    if number not in ledger.trials:
        yield f"gives trial {shown(number)}, which was never asked for"
        return
    trial = ledger.trials[number]
    if trial.told is not None:
        yield f"gives trial {number}, which was told before"
    if trial.live is not None:
        lives = f"attempt {trial.live.number} lives in job {trial.live.job}"
        yield f"gives trial {number} to job {job.name}, while {lives}"
    if attempt != len(trial.attempts) + 1:
        before = f"{len(trial.attempts)} attempts"
        yield f"announces attempt {shown(attempt)} of trial {number} after {before}"
    if token in ledger.tokens:
        yield f"uses the token {shown(token)} a second time"
    ledger.tokens.add(token)
    trial.attempts.append(Attempt(attempt, token, job.name, event.id, len(job.groups) - 1))


def _of_job(ledger: Ledger, event: Event) -> Blames:
    """Enter an event that a job has once, and after it was announced; some after its submission."""
    job, kind = ledger.jobs[_job_name(event)], event.kind
    is_repeated = kind in job.kinds and kind != "match_silent"
    is_early = kind in ("job_began", "interrupting") and job.id is None
    if job.ended or is_repeated or is_early:
        before = ", ".join(sorted(job.kinds)) or "its announcement alone"
        yield f"cannot be of job {job.name} after {before}"
    match kind:
        case "submitted":
            job.id = str(event.data["id"])
        case "match_silent" if not job.matches:
            yield f"misses a match in job {job.name}, which plays none"
        case "job_ended":
            yield from _end_job(ledger, event, job)
    job.kinds.add(kind)


def _end_job(ledger: Ledger, event: Event, job: JobEntry) -> Blames:
    if event.data.get("seen") and job.id is None:
        yield f"ends job {job.name}, which ran and was never submitted"
    for assignment in (assignment for group in job.groups for assignment in group):
        trial = ledger.trials.get(assignment["trial"])
        if trial is not None and trial.live is not None and trial.live.job == job.name:
            lives = f"attempt {trial.live.number} of trial {trial.number} lives"
            yield trial.number, f"ends job {job.name}, in which {lives}"


# Matches.


def _match_called(ledger: Ledger, event: Event) -> Blames:
    data, number = event.data, event.data["match"]
    if number != len(ledger.matches) + 1:
        yield f"calls match {shown(number)} after {len(ledger.matches)}"
    if any(match.decision is None for match in ledger.matches.values()):
        yield f"calls match {number}, while another one is open"
    for trial in (*data["members"].values(), *data["archive"]):
        if not ledger.told(trial, FINISHED):
            yield trial, f"lets trial {shown(trial)} play, which has not finished"
    archive, ended = list(data["archive"]), list(data["ended"])
    ledger.matches[number] = MatchEntry(number, data["members"], archive, ended)


def _bred(ledger: Ledger, event: Event) -> Blames:
    number = event.data["match"]
    if number is not None:
        match = ledger.matches[number]
        if match.decision is not None:
            yield f"decides match {number} a second time"
        match.decision = event.data
        yield from _check_decision(match, event.data)
    for child in event.data["children"]:
        yield from _plan(ledger, child)


def _check_decision(match: MatchEntry, decision: Mapping[str, Any]) -> Blames:
    strengths, champion = decision["strengths"], decision["champion"]
    if {int(trial) for trial in strengths} != {*match.members.values()} and match.ended:
        yield f"judges others than those who played match {match.number}"
    if str(champion) not in strengths:
        yield champion, f"names {shown(champion)} champion, who did not play"
    elif strengths[str(champion)] < max(strengths.values()):
        yield champion, f"names {shown(champion)} champion, who is not the strongest"
    if strengths.keys() != decision["intervals"].keys():
        yield f"has intervals of others than those in match {match.number}"


def _closing(ledger: Ledger, event: Event) -> Blames:
    if event.data["children"]:
        origins = (trial.origin for trial in ledger.trials.values())
        born = {int(origin["member"]) for origin in origins if origin is not None}
        planned = ledger.planned.items()
        ledger.planned = {key: origin for key, origin in planned if origin["member"] not in born}
    for child in event.data["children"]:
        yield from _plan(ledger, child)


def _plan(ledger: Ledger, child: Mapping[str, Any]) -> Blames:
    """Note a trial to come, each of whose parents must have finished where it begins."""
    for parent, step in zip(child["parents"], child["parent_steps"], strict=False):
        known = ledger.trials.get(parent)
        if not ledger.told(parent, FINISHED) or known is None or known.steps != step:
            yield parent, f"plans a child of trial {shown(parent)} at step {shown(step)}"
    if child["key"] in ledger.keys:
        yield f"plans {shown(child['key'])}, which was asked for before"
    ledger.planned[child["key"]] = child


def _trial_number(event: Event) -> int:
    if type(event.trial) is not int:  # SQLite keeps a text, too
        raise ValueError("its trial, which is missing or no number")
    return event.trial


def _trial(ledger: Ledger, event: Event) -> TrialEntry:
    return ledger.trials[_trial_number(event)]


def _job_name(event: Event) -> str:
    if not isinstance(event.job, str):
        raise ValueError("its job, which is missing or no name")
    return event.job


_RULES: Mapping[str, tuple[tuple[str, ...], Rule]] = {
    "started": ((), _started_or_ended),
    "ended": ((), _started_or_ended),
    "requested": ((), _requested),
    "asked": (("trial",), _asked),
    "reported": (("trial",), _reported),
    "attempt_ended": (("trial", "attempt"), _attempt_ended),
    "told": (("trial",), _told),
    "announced": (("job",), _announced),
    "submitted": (("job",), _of_job),
    "job_began": (("job",), _of_job),
    "job_closed": (("job",), _of_job),
    "interrupting": (("job",), _of_job),
    "match_silent": (("job",), _of_job),
    "job_ended": (("job",), _of_job),
    "match_called": ((), _match_called),
    "bred": ((), _bred),
    "closing": ((), _closing),
}
"""columns that an event of a kind names, and what it changes"""
