"""The events of a study, walked through once: what each trial, job and match came to.

On the way every event is held to what must have happened before it. This repeats what the driver's
own fold knows, on purpose: a fault that both made would stay hidden if one used the other.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hpsearch.audit.books import UNREADABLE, EventInBooks
from hpsearch.audit.finding import MALFORMED, Fault, is_same, shown

CHECK = "events"
FINISHED, PRUNED, FAILED, CANCELLED = "finished", "pruned", "failed", "cancelled"
RUNNING = "running"
VERBS = {"pause": "paused", "stop": "stopping", "cancel": CANCELLED, "resume": RUNNING}
ENDINGS = (FINISHED, "stopped", FAILED)


@dataclass
class Attempt:
    """One attempt at a trial."""

    number: int
    token: str
    job: str
    announced: int
    """id of the event"""
    place: int
    """how many groups its job had been given before"""
    ended: EventInBooks | None = None


@dataclass
class TrialEntry:
    """One trial."""

    number: int
    params: Mapping[str, Any]
    retry_of: int | None
    origin: Mapping[str, Any] | None
    """whose interval it is, where there is a population"""
    attempts: list[Attempt] = field(default_factory=list)
    reports: dict[int, EventInBooks] = field(default_factory=dict)
    """by step"""
    told: EventInBooks | None = None
    teller: Attempt | None = None
    """the attempt that held the token when the trial was told, None where none did"""

    @property
    def live(self) -> Attempt | None:
        """Return the attempt that has not ended."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.ended is None else None

    @property
    def state(self) -> str | None:
        """Return how it was told."""
        return None if self.told is None else str(self.told.data["state"])

    @property
    def steps(self) -> int | None:
        """Return where the interval of a member ends."""
        return None if self.origin is None else int(self.origin["steps"])


@dataclass
class JobEntry:
    """One job."""

    name: str
    groups: list[list[Any]] = field(default_factory=list)
    matches: dict[int, int] = field(default_factory=dict)
    """by place among the groups"""
    id: str | None = None
    began: bool = False
    closed: bool = False
    ended: bool = False
    interrupted: bool = False
    silent: bool = False


@dataclass
class MatchEntry:
    """One match of a population."""

    number: int
    members: Mapping[str, int]
    archive: list[int]
    ended: list[int]
    given: bool = False
    """whether a job has been told to play it"""
    decision: Mapping[str, Any] | None = None


@dataclass
class Ledger:
    """What the events of a study add up to."""

    trials: dict[int, TrialEntry] = field(default_factory=dict)
    jobs: dict[str, JobEntry] = field(default_factory=dict)
    matches: dict[int, MatchEntry] = field(default_factory=dict)
    planned: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """origins of trials to come, by key"""
    requests: set[str] = field(default_factory=set)
    retries: list[int] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    """of the origins of all trials"""
    status: str | None = None
    faults: list[Fault] = field(default_factory=list)

    @property
    def rests(self) -> bool:
        """Return whether the study has ended and nothing of it runs."""
        lives = any(not job.ended for job in self.jobs.values())
        return self.status in (*ENDINGS, CANCELLED) and not lives

    def told(self, number: Any, state: str) -> bool:
        """Return whether a trial was told so."""
        return number in self.trials and self.trials[number].state == state

    def blame(self, event: EventInBooks, trial: int | None, message: str) -> None:
        """Note that an event cannot be."""
        self.faults.append(Fault(CHECK, trial, f"event {event.id} ({event.kind}) {message}"))


Rule = Callable[[Ledger, EventInBooks], None]


def read_ledger(events: tuple[EventInBooks, ...]) -> Ledger:
    """Return what events add up to, with the faults of their order and form."""
    ledger = Ledger()
    for event in events:
        rule = _RULES.get(event.kind)
        if rule is None:
            ledger.blame(event, event.trial, f"is of an unknown kind, {shown(event.kind)}")
            continue
        if not isinstance(event.data, dict) or UNREADABLE in event.data:
            held = event.data[UNREADABLE] if isinstance(event.data, dict) else event.data
            ledger.blame(event, event.trial, f"holds no JSON object, but {shown(held)}")
            continue
        columns, apply = rule
        named = {"trial": event.trial, "attempt": event.attempt, "job": event.job}
        for name, value in named.items():
            if (value is not None) != (name in columns):
                should = "must name a" if name in columns else "must name no"
                ledger.blame(event, event.trial, f"{should} {name}")
        try:
            apply(ledger, event)
        # What was tampered with may have any form; the rules name keys as if it had the right one.
        except MALFORMED as error:
            problem = f"{type(error).__name__} at {shown(str(error))}"
            ledger.blame(event, event.trial, f"cannot be: {problem}")
    return ledger


def _started(ledger: Ledger, event: EventInBooks) -> None:
    ledger.status = RUNNING


def _ended(ledger: Ledger, event: EventInBooks) -> None:
    status = event.data["status"]
    if status not in ENDINGS:
        ledger.blame(event, None, f"says that the study is {shown(status)}")
    ledger.status = status


def _requested(ledger: Ledger, event: EventInBooks) -> None:
    verb, again = event.data["verb"], event.data["trials"]
    if event.data["id"] in ledger.requests:
        ledger.blame(event, None, f"repeats the request {shown(event.data['id'])}")
    if verb != "retry" and verb not in VERBS:
        ledger.blame(event, None, f"asks for {shown(verb)}, which is unknown")
    ledger.requests.add(event.data["id"])
    ledger.status = VERBS.get(verb, ledger.status)
    if verb != "retry" or not again:
        return
    ledger.status = RUNNING
    for number in again:
        if not ledger.told(number, FAILED):
            ledger.blame(event, number, f"tries trial {shown(number)} again, which has not failed")
    ledger.retries += again


def _asked(ledger: Ledger, event: EventInBooks) -> None:
    number, data = _trial_number(event), event.data
    if ledger.status != RUNNING:
        ledger.blame(event, number, f"asks for a trial of a study that is {ledger.status}")
    if number in ledger.trials:
        ledger.blame(event, number, f"asks for trial {number} a second time")
        return
    trial = TrialEntry(number, data["params"], data.get("retry_of"), data.get("origin"))
    trial.params.items()  # of the right form, or it is a fault
    ledger.trials[number] = trial
    if trial.retry_of is not None:
        if trial.retry_of not in ledger.retries:
            ledger.blame(event, number, f"tries {shown(trial.retry_of)} again, unasked")
        else:
            ledger.retries.remove(trial.retry_of)
            first = ledger.trials[trial.retry_of]
            if not is_same(first.params, trial.params):
                ledger.blame(event, number, f"has other params than trial {first.number}")
    if trial.origin is not None:
        _asked_as_planned(ledger, event, trial, trial.origin)


def _asked_as_planned(
    ledger: Ledger, event: EventInBooks, trial: TrialEntry, origin: Mapping[str, Any]
) -> None:
    key = origin["key"]
    planned = ledger.planned.pop(key, None)
    if key in ledger.keys or planned is None:
        ledger.blame(event, trial.number, f"asks for the origin {shown(key)}, which is not planned")
    elif not is_same(planned, origin):
        ledger.blame(
            event, trial.number, f"has the origin {shown(origin)}, but planned was {shown(planned)}"
        )
    params = origin["params"]
    if params is not None and not is_same(params, trial.params):
        ledger.blame(
            event,
            trial.number,
            f"has params {shown(trial.params)}, but its origin says {shown(params)}",
        )
    ledger.keys.add(key)


def _announced(ledger: Ledger, event: EventInBooks) -> None:
    name, group = _job_name(event), list(event.data["trials"])
    if ledger.status not in (RUNNING, "stopping"):
        ledger.blame(event, None, f"announces a job of a study that is {ledger.status}")
    if name not in ledger.jobs:
        if name != f"{len(ledger.jobs) + 1:05d}":
            ledger.blame(event, None, f"announces job {shown(name)}, out of turn")
        ledger.jobs[name] = JobEntry(name)
    job = ledger.jobs[name]
    if job.ended or job.closed or (job.groups and not job.began):
        ledger.blame(event, None, f"gives more to job {name}, which takes no more")
    if "match" in event.data:
        ledger.matches[event.data["match"]].given = True
        job.matches[len(job.groups)] = event.data["match"]
    elif not group:
        ledger.blame(event, None, f"gives nothing to job {name}")
    job.groups.append(group)
    for given in group:
        _give(ledger, event, job, given)


def _give(ledger: Ledger, event: EventInBooks, job: JobEntry, given: Mapping[str, Any]) -> None:
    number, attempt, token = given["trial"], given["attempt"], given["token"]
    if number not in ledger.trials:
        ledger.blame(event, number, f"gives trial {shown(number)}, which was never asked for")
        return
    trial = ledger.trials[number]
    if trial.told is not None:
        ledger.blame(event, number, f"gives trial {number}, which was told before")
    if trial.live is not None:
        ledger.blame(
            event,
            number,
            f"gives trial {number} to job {job.name}, while attempt {trial.live.number} lives "
            f"in job {trial.live.job}",
        )
    if attempt != len(trial.attempts) + 1:
        ledger.blame(
            event,
            number,
            f"announces attempt {shown(attempt)} of trial {number} after "
            f"{len(trial.attempts)} attempts",
        )
    if token in ledger.tokens:
        ledger.blame(event, number, f"uses the token {shown(token)} a second time")
    ledger.tokens.add(token)
    trial.attempts.append(Attempt(attempt, token, job.name, event.id, len(job.groups) - 1))


def _submitted(ledger: Ledger, event: EventInBooks) -> None:
    job = _job(ledger, event)
    if job.id is not None:
        ledger.blame(event, None, f"submits job {job.name} a second time")
    job.id = str(event.data["id"])


def _job_began(ledger: Ledger, event: EventInBooks) -> None:
    job = _job(ledger, event)
    if job.id is None or job.began:
        ledger.blame(event, None, f"says so of job {job.name}, which was not waiting to begin")
    job.began = True


def _job_closed(ledger: Ledger, event: EventInBooks) -> None:
    job = _job(ledger, event)
    if job.closed:
        ledger.blame(event, None, f"closes job {job.name} a second time")
    job.closed = True


def _interrupting(ledger: Ledger, event: EventInBooks) -> None:
    job = _job(ledger, event)
    if job.id is None or job.interrupted:
        ledger.blame(event, None, f"interrupts job {job.name}, which was not to be interrupted")
    job.interrupted = True


def _match_silent(ledger: Ledger, event: EventInBooks) -> None:
    job = _job(ledger, event)
    if not job.matches:
        ledger.blame(event, None, f"misses a match in job {job.name}, which plays none")
    job.silent = True


def _job_ended(ledger: Ledger, event: EventInBooks) -> None:
    job = _job(ledger, event)
    if event.data.get("seen") and job.id is None:
        ledger.blame(event, None, f"ends job {job.name}, which ran and was never submitted")
    for group in job.groups:
        for given in group:
            trial = ledger.trials.get(given["trial"])
            if trial is not None and trial.live is not None and trial.live.job == job.name:
                ledger.blame(
                    event,
                    trial.number,
                    f"ends job {job.name}, in which attempt {trial.live.number} of trial "
                    f"{trial.number} lives",
                )
    job.ended = True


def _reported(ledger: Ledger, event: EventInBooks) -> None:
    trial = _trial(ledger, event)
    step = event.data["step"]
    if step in trial.reports:
        ledger.blame(event, trial.number, f"reports step {step} of it a second time")
        return
    if trial.live is None or trial.told is not None:
        ledger.blame(event, trial.number, f"reports step {step} of trial {trial.number} at rest")
    if not isinstance(event.data["value"], float) or not isinstance(event.data["prune"], bool):
        ledger.blame(event, trial.number, f"reports {shown(event.data)}")
    trial.reports[step] = event


def _attempt_ended(ledger: Ledger, event: EventInBooks) -> None:
    trial = _trial(ledger, event)
    if trial.live is None or trial.live.number != event.attempt:
        lives = "none" if trial.live is None else str(trial.live.number)
        ledger.blame(
            event,
            trial.number,
            f"ends attempt {shown(event.attempt)} of trial {trial.number}, of which {lives} lives",
        )
        return
    trial.live.ended = event


def _told(ledger: Ledger, event: EventInBooks) -> None:
    trial, state = _trial(ledger, event), event.data["state"]
    if trial.told is not None:
        ledger.blame(event, trial.number, f"tells trial {trial.number} a second time")
        return
    if state not in (FINISHED, PRUNED, FAILED):
        ledger.blame(event, trial.number, f"tells that trial {trial.number} is {shown(state)}")
    last = next(reversed(trial.reports.values()), None)
    if state == PRUNED and (last is None or last.data["prune"] is not True):
        ledger.blame(event, trial.number, f"prunes trial {trial.number}, unlike its last report")
    if trial.live is None and event.data["failure"] != CANCELLED:
        ledger.blame(
            event, trial.number, f"tells trial {trial.number}, of which no attempt held a token"
        )
    trial.told, trial.teller = event, trial.live


def _match_called(ledger: Ledger, event: EventInBooks) -> None:
    data = event.data
    number = data["match"]
    if number != len(ledger.matches) + 1:
        ledger.blame(event, None, f"calls match {shown(number)} after {len(ledger.matches)}")
    if any(match.decision is None for match in ledger.matches.values()):
        ledger.blame(event, None, f"calls match {number}, while another one is open")
    for trial in (*data["members"].values(), *data["archive"]):
        if not ledger.told(trial, FINISHED):
            ledger.blame(event, trial, f"lets trial {shown(trial)} play, which has not finished")
    ledger.matches[number] = MatchEntry(
        number, data["members"], list(data["archive"]), list(data["ended"])
    )


def _bred(ledger: Ledger, event: EventInBooks) -> None:
    number = event.data["match"]
    if number is not None:
        match = ledger.matches[number]
        if match.decision is not None:
            ledger.blame(event, None, f"decides match {number} a second time")
        match.decision = event.data
        _check_decision(ledger, event, match, event.data)
    for child in event.data["children"]:
        _plan(ledger, event, child)


def _check_decision(
    ledger: Ledger, event: EventInBooks, match: MatchEntry, decision: Mapping[str, Any]
) -> None:
    strengths, champion = decision["strengths"], decision["champion"]
    if {int(trial) for trial in strengths} != {*match.members.values()} and match.ended:
        ledger.blame(event, None, f"judges others than those who played match {match.number}")
    if str(champion) not in strengths:
        ledger.blame(event, champion, f"names {shown(champion)} champion, who did not play")
    elif strengths[str(champion)] < max(strengths.values()):
        ledger.blame(event, champion, f"names {shown(champion)} champion, who is not the strongest")
    if strengths.keys() != decision["intervals"].keys():
        ledger.blame(event, None, f"has intervals of others than those in match {match.number}")


def _closing(ledger: Ledger, event: EventInBooks) -> None:
    if event.data["children"]:
        born = {int(trial.origin["member"]) for trial in _members(ledger)}
        kept = {
            key: origin for key, origin in ledger.planned.items() if origin["member"] not in born
        }
        ledger.planned = kept
    for child in event.data["children"]:
        _plan(ledger, event, child)


def _members(ledger: Ledger) -> Iterator[Any]:
    return (trial for trial in ledger.trials.values() if trial.origin is not None)


def _plan(ledger: Ledger, event: EventInBooks, child: Mapping[str, Any]) -> None:
    """Note a trial to come, each of whose parents must have finished where it begins."""
    for parent, step in zip(child["parents"], child["parent_steps"], strict=False):
        known = ledger.trials.get(parent)
        if not ledger.told(parent, FINISHED) or known is None or known.steps != step:
            ledger.blame(
                event, parent, f"plans a child of trial {shown(parent)} at step {shown(step)}"
            )
    if child["key"] in ledger.keys:
        ledger.blame(event, None, f"plans {shown(child['key'])}, which was asked for before")
    ledger.planned[child["key"]] = child


def _trial_number(event: EventInBooks) -> int:
    if type(event.trial) is not int:  # SQLite keeps a text, too
        raise ValueError("its trial, which is missing or no number")
    return event.trial


def _trial(ledger: Ledger, event: EventInBooks) -> TrialEntry:
    return ledger.trials[_trial_number(event)]


def _job_name(event: EventInBooks) -> str:
    if not isinstance(event.job, str):
        raise ValueError("its job, which is missing or no name")
    return event.job


def _job(ledger: Ledger, event: EventInBooks) -> JobEntry:
    job = ledger.jobs[_job_name(event)]
    if job.ended:
        ledger.blame(event, None, f"comes after the end of job {job.name}")
    return job


_RULES: Mapping[str, tuple[tuple[str, ...], Rule]] = {
    "started": ((), _started),
    "ended": ((), _ended),
    "requested": ((), _requested),
    "asked": (("trial",), _asked),
    "announced": (("job",), _announced),
    "submitted": (("job",), _submitted),
    "job_began": (("job",), _job_began),
    "job_closed": (("job",), _job_closed),
    "interrupting": (("job",), _interrupting),
    "match_silent": (("job",), _match_silent),
    "job_ended": (("job",), _job_ended),
    "reported": (("trial",), _reported),
    "attempt_ended": (("trial", "attempt"), _attempt_ended),
    "told": (("trial",), _told),
    "match_called": ((), _match_called),
    "bred": ((), _bred),
    "closing": ((), _closing),
}
"""columns that an event of a kind names, and what it changes"""
