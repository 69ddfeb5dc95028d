"""The state of a study: a fold over its events, and nothing that is not in them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Final

from hpsearch.cluster.failures import DIVERGED, FREE, NAN, OOM_GPU, SILENT
from hpsearch.cluster.records import Exploit
from hpsearch.study.events import Event
from hpsearch.study.records import (
    COMPLETE,
    FAIL,
    PRUNED,
    Ended,
    Job,
    Loss,
    PlannedTrial,
    PopulationRecord,
    Tally,
    Trial,
)

RUNNING, FINISHED, FAILED = "running", "finished", "failed"
PAUSED, STOPPING, STOPPED, CANCELLED = "paused", "stopping", "stopped", "cancelled"
STATUSES = (RUNNING, PAUSED, STOPPING, STOPPED, CANCELLED, FINISHED, FAILED)
BUSY = (RUNNING, STOPPING)  # statuses in which a driver has something to decide


@dataclass
class StudyState:
    trials: MutableMapping[int, Trial] = field(default_factory=dict)  # by number
    jobs: MutableMapping[str, Job] = field(default_factory=dict)
    untold: dict[int, Trial] = field(default_factory=dict)  # trials that have not ended
    live: dict[str, Job] = field(default_factory=dict)  # jobs that have not ended
    num_told: Counter[str] = field(default_factory=Counter)  # trials by how they ended
    gpu_seconds_of_ended: float = 0.0  # that the jobs which have ended occupied
    num_retries: int = 0  # trials that try a failed one again
    num_untrained: int = 0  # children of a population's closing
    num_excused: int = 0  # failures that don't count: cancelled by a user, or tried again
    status: str = RUNNING
    message: str = ""  # why the study failed, where that does not stand in its trials
    started_at: float | None = None
    last_event: int = 0
    requests: set[str] = field(default_factory=set)  # those that have been heard
    retries: list[int] = field(default_factory=list)  # failed trials to try again, as new ones
    population: PopulationRecord = field(default_factory=PopulationRecord)  # empty for a search
    tally: Tally = field(default_factory=Tally)  # what the trials add up to

    def apply(self, events: Iterable[Event]) -> None:
        for event in events:
            _APPLY[event.kind](self, event)
            self.last_event = event.id

    def live_jobs(self) -> list[Job]:
        return list(self.live.values())

    def waiting(self) -> list[Trial]:
        return [trial for trial in self.untold.values() if trial.waits]

    def unfinished(self) -> list[Trial]:
        return list(self.untold.values())

    @property
    def is_undecided(self) -> bool:
        population = self.population
        is_to_be_judged = population.match or population.open or population.untrained
        return bool(self.untold or self.retries or is_to_be_judged)

    @property
    def goes_on(self) -> bool:
        """Whether a job lives, or a trial has begun and not ended: a study stops after these."""
        return bool(self.live) or any(trial.attempts for trial in self.untold.values())

    def gpu_seconds(self, now: float) -> float:
        live = sum(job.gpus * job.seconds(now) for job in self.live.values())
        return self.gpu_seconds_of_ended + live

    @property
    def num_asked(self) -> int:
        """Return how many trials count against the budget: no retries, none of a closing."""
        return len(self.trials) - self.num_retries - self.num_untrained

    @property
    def num_done(self) -> int:
        """Return how many trials of the budget have ended; one that is tried again has not."""
        return self.num_asked - sum(trial.trains for trial in self.untold.values())

    def num_failures(self) -> int:
        """Return how many trials have failed, of those that count against `max_failures`."""
        return self.num_told[FAIL] - self.num_excused

    def told(self, how: str) -> list[Trial]:
        """Return the trials that ended so, by number; a snapshot may hold them in another order."""
        ended = (trial for trial in self.trials.values() if trial.told == how)
        return sorted(ended, key=lambda trial: trial.number)

    def failed_for_good(self) -> list[Trial]:
        """Return the failed trials, by number, that no other one tries again, or will."""
        again = {trial.retry_of for trial in self.trials.values()} | {*self.retries}
        return [trial for trial in self.told(FAIL) if trial.number not in again]

    def live_attempts(self) -> Iterator[tuple[Trial, Job]]:
        for job in self.live.values():
            for number in sorted(job.running):
                yield self.trials[number], job

    def is_shared(self, trial: Trial) -> bool:
        """Return whether a trial trains, or last did, on a GPU with room for others."""
        return trial.job is not None and self.jobs[trial.job].slots > 1

    def counts(self) -> dict[str, int]:
        waiting = len(self.waiting())
        return {
            "finished": self.num_told[COMPLETE],
            "running": len(self.untold) - waiting,
            "waiting": waiting,
            "pruned": self.num_told[PRUNED],
            "failed": self.num_told[FAIL],
        }


def _requested(state: StudyState, event: Event) -> None:
    state.requests.add(event.data["id"])
    verb = event.data["verb"]
    asked = {"pause": PAUSED, "stop": STOPPING, "cancel": CANCELLED, "resume": RUNNING}
    state.status = asked.get(verb, state.status)
    if verb == "retry" and event.data["trials"]:
        state.status = RUNNING
        again = event.data["trials"]
        state.retries += again
        state.num_excused += sum(state.trials[n].failure != CANCELLED for n in again)


def _started(state: StudyState, event: Event) -> None:
    state.status = RUNNING
    if state.population.match is not None:  # what failed before may have been mended meanwhile
        state.population.match.failures = 0
    if state.started_at is None:
        state.started_at = event.at


def _ended(state: StudyState, event: Event) -> None:
    state.status = event.data["status"]
    state.message = event.data.get("message", "")


def _asked(state: StudyState, event: Event) -> None:
    number = _trial(event)
    retry_of = event.data.get("retry_of")
    origin = PlannedTrial.of(event.data["origin"]) if "origin" in event.data else None
    params = event.data["params"]
    trial = Trial(number, params, asked_at=event.at, retry_of=retry_of, origin=origin)
    state.trials[number] = state.untold[number] = trial
    state.tally.ask(trial)
    if origin is not None:
        state.population.asked(number, origin)
        state.num_untrained += not origin.trains
    if retry_of is not None:
        state.retries.remove(retry_of)
        state.num_retries += 1


def _announced(state: StudyState, event: Event) -> None:
    assert event.job is not None
    group = tuple((t["trial"], t["attempt"], t["token"]) for t in event.data["trials"])
    if event.job in state.live:
        job = state.live[event.job]
        job.groups.append(group)
    else:
        gpus, is_pilot = event.data.get("gpus", 0.0), event.data.get("pilot", False)
        job = Job(event.job, [group], announced_at=event.at, gpus=gpus, is_pilot=is_pilot)
        state.jobs[job.name] = state.live[job.name] = job
    if "match" in event.data:
        job.match = event.data["match"]
        match = state.population.matches[event.data["match"]]
        match.job, match.given_at = job.name, event.at
    for number, attempt, token in group:
        trial = state.trials[number]
        trial.attempts, trial.token, trial.job = attempt, token, job.name
        trial.announced_at = event.at
        trial.began_at = None if job.began_at is None else event.at
        job.running.add(number)


def _job_began(state: StudyState, event: Event) -> None:
    job = _job(state, event)
    job.began_at = event.at
    job.gpus = event.data.get("gpus", job.gpus)  # fewer than it was announced with
    for number in job.running:
        state.trials[number].began_at = event.at


def _job_changed(state: StudyState, event: Event) -> None:
    job = _job(state, event)
    match event.kind:
        case "submitted":
            job.id = event.data["id"]
        case "job_closed":
            job.closed = True
        case "interrupting":
            job.interrupted = True
        case "match_silent":
            job.is_silent = True


def _job_ended(state: StudyState, event: Event) -> None:
    job = _job(state, event)
    # A driver may look long after a job ended, and clocks differ.
    ended_at = min(event.data.get("ended_at", event.at), event.at)
    job.ended, job.ended_at = True, max(ended_at, job.began_at or 0.0)
    state.live.pop(job.name, None)
    state.gpu_seconds_of_ended += job.gpus * job.seconds(event.at)
    if job.match is not None:
        has_run = event.data.get("seen", False) and event.data.get("kind") not in FREE
        match = state.population.matches[job.match]
        if not match.is_over:  # else a pilot that played it has gone on training
            match.job = None
            match.failures += job.is_silent or (has_run and not job.interrupted)


def _reported(state: StudyState, event: Event) -> None:
    trial = state.trials[_trial(event)]
    trial.reported[event.data["step"]] = event.data["value"]
    trial.prune, trial.rungs = event.data["prune"], event.data["rungs"]


def _attempt_ended(state: StudyState, event: Event) -> None:
    trial = state.trials[_trial(event)]
    job = state.jobs[trial.job or ""]
    job.running.remove(trial.number)
    trial.token = None
    trial.seconds, trial.began_at = trial.seconds_trained(event.at), None
    status, kind = event.data["status"], event.data["kind"]
    progressed = event.data["step"] > trial.step
    # An attempt that went further may have been lost, and the next one ended sooner by its seconds.
    furthest = 0 if status == "finished" else trial.step
    trial.step = max(furthest, event.data["step"])
    repeated, kept = event.data.get("repeated_seconds", 0.0), event.data.get("kept")
    if repeated and trial.losses:  # what this attempt had to make again, the one before it lost
        before = trial.losses[-1]
        trial.losses[-1] = replace(before, seconds=before.seconds + repeated)
        state.tally.lose(before, repeated, num_attempts=0)
    trial.kept = trial.kept if kept is None else kept
    began = event.data.get("began", True)
    if progressed:
        trial.lost = 0
    elif began and status != "interrupted" and kind not in FREE:
        trial.lost += 1
    if status not in ("finished", "pruned") and began:
        trial.is_alone = trial.is_alone or (kind == OOM_GPU and job.slots > 1)
        job.is_silent = job.is_silent or kind == SILENT
        ends_job = kind not in (NAN, DIVERGED) and not event.data.get("others_go_on", False)
        job.is_leaving = job.is_leaving or ends_job
        lost, log = event.data.get("lost_seconds", 0.0), event.data.get("log", ())
        gpus = job.gpus / job.slots
        trial.losses.append(Loss(trial.attempts, kind or status, lost, gpus, tuple(log)))
        state.tally.lose(trial.losses[-1], lost)


def _told(state: StudyState, event: Event) -> None:
    trial = state.trials[_trial(event)]
    trial.told, trial.value = event.data["state"], event.data["value"]
    trial.metrics = event.data["metrics"]
    trial.failure, trial.message = event.data["failure"], event.data["message"]
    trial.ended_by = event.data.get("ended_by")
    del state.untold[trial.number]
    state.num_told[trial.told] += 1
    is_untrained = trial.origin is not None and not trial.origin.trains
    state.num_excused += trial.told == FAIL and (trial.failure == CANCELLED or is_untrained)
    if trial.origin is not None:
        node, birth = event.data.get("node"), event.data.get("birth")
        trial.sha256 = None if node is None else node["sha256"]
        trial.is_adopted = birth is not None and bool(birth.get("adopted"))
        trial.takeovers = tuple(Exploit(**exploit) for exploit in event.data.get("takeovers", ()))
        seconds = trial.seconds_trained(event.at)
        if trial.token is not None and trial.began_at is None:  # not known: since it was given
            seconds += max(0.0, event.at - trial.announced_at)
        state.population.told(trial, Ended(seconds, event.at), birth)
    state.tally.tell(trial)


def _match_called(state: StudyState, event: Event) -> None:
    state.population.called(event.data, {trial.member for trial in state.untold.values()})


def _job(state: StudyState, event: Event) -> Job:
    assert event.job is not None
    return state.jobs[event.job]


def _trial(event: Event) -> int:
    assert event.trial is not None
    return event.trial


_APPLY: Final[Mapping[str, Callable[[StudyState, Event], None]]] = {
    "started": _started,
    "asked": _asked,
    "announced": _announced,
    **dict.fromkeys(("submitted", "job_closed", "interrupting", "match_silent"), _job_changed),
    "job_began": _job_began,
    "requested": _requested,
    "reported": _reported,
    "attempt_ended": _attempt_ended,
    "told": _told,
    "job_ended": _job_ended,
    "ended": _ended,
    "match_called": _match_called,
    "bred": lambda state, event: state.population.bred(event.data),
    "closing": lambda state, event: state.population.closed(event.data),
}
