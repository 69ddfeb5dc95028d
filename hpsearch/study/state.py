"""The state of a study: a fold over its events, and nothing that is not in them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hpsearch.study.events import Event

RUNNING, FINISHED, FAILED = "running", "finished", "failed"
COMPLETE, PRUNED, FAIL = "finished", "pruned", "failed"


@dataclass
class Trial:
    """One trial, as far as the events tell."""

    number: int
    params: dict[str, Any]
    """as Optuna stores them"""
    attempts: int = 0
    """attempts begun; the newest has this number"""
    token: str | None = None
    """of the running attempt, None while the trial waits"""
    job: str | None = None
    """that trains it, or that last did"""
    reported: dict[int, float] = field(default_factory=dict)
    """values told to Optuna, by step"""
    prune: bool = False
    """whether the newest of them was so bad that the trial is given up"""
    rungs: int = 0
    """rungs that the pruner noted for the trial up to then"""
    lost: int = 0
    """attempts in a row that vanished without getting further"""
    step: int = 0
    """the furthest that an ended attempt got"""
    told: str | None = None
    """how the trial ended: finished, pruned or failed; None while it has not"""
    value: float | None = None
    """of the first objective"""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """by name: value, low, high, capped, games"""
    failure: str | None = None
    """kind of the failure"""
    message: str = ""
    """of the failure"""

    @property
    def is_over(self) -> bool:
        """Whether its curve no longer counts."""
        return self.prune or self.told is not None

    @property
    def waits(self) -> bool:
        """Whether the trial should run and does not."""
        return self.told is None and self.token is None


@dataclass
class Job:
    """One job, as far as the events tell."""

    name: str
    trials: tuple[tuple[int, int, str], ...]
    """number, attempt and token of each"""
    id: str | None = None
    """the executor's, None between the announcement and the submission"""
    interrupted: bool = False
    """whether it was asked to leave"""
    ended: bool = False


@dataclass
class StudyState:
    """Everything that the driver decides from."""

    trials: dict[int, Trial] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    status: str = RUNNING
    started_at: float | None = None
    last_event: int = 0

    def apply(self, events: Iterable[Event]) -> None:
        """Take events into account, oldest first."""
        for event in events:
            _APPLY[event.kind](self, event)
            self.last_event = event.id

    def live_jobs(self) -> list[Job]:
        """Return the jobs that have been announced and have not ended."""
        return [job for job in self.jobs.values() if not job.ended]

    def waiting(self) -> list[Trial]:
        """Return the trials that should run and do not, oldest first."""
        return [trial for trial in self.trials.values() if trial.waits]

    def unfinished(self) -> list[Trial]:
        """Return the trials that have not been told."""
        return [trial for trial in self.trials.values() if trial.told is None]

    def told(self, how: str) -> list[Trial]:
        """Return the trials that ended in one way."""
        return [trial for trial in self.trials.values() if trial.told == how]

    def live_attempts(self) -> Iterator[tuple[Trial, Job]]:
        """Yield the trials that have a running attempt, each with its job."""
        for trial in self.trials.values():
            if trial.token is not None and trial.job is not None:
                yield trial, self.jobs[trial.job]

    def counts(self) -> dict[str, int]:
        """Return the number of trials by state."""
        running = sum(1 for trial in self.unfinished() if not trial.waits)
        return {
            "finished": len(self.told(COMPLETE)),
            "running": running,
            "waiting": len(self.waiting()),
            "pruned": len(self.told(PRUNED)),
            "failed": len(self.told(FAIL)),
        }


def _started(state: StudyState, event: Event) -> None:
    state.status = RUNNING
    if state.started_at is None:
        state.started_at = event.at


def _ended(state: StudyState, event: Event) -> None:
    state.status = event.data["status"]


def _asked(state: StudyState, event: Event) -> None:
    number = _trial(event)
    state.trials[number] = Trial(number, event.data["params"])


def _announced(state: StudyState, event: Event) -> None:
    assert event.job is not None
    job = Job(
        event.job, tuple((t["trial"], t["attempt"], t["token"]) for t in event.data["trials"])
    )
    state.jobs[job.name] = job
    for number, attempt, token in job.trials:
        trial = state.trials[number]
        trial.attempts, trial.token, trial.job = attempt, token, job.name


def _submitted(state: StudyState, event: Event) -> None:
    assert event.job is not None
    state.jobs[event.job].id = event.data["id"]


def _interrupting(state: StudyState, event: Event) -> None:
    assert event.job is not None
    state.jobs[event.job].interrupted = True


def _job_ended(state: StudyState, event: Event) -> None:
    assert event.job is not None
    state.jobs[event.job].ended = True


def _reported(state: StudyState, event: Event) -> None:
    trial = state.trials[_trial(event)]
    trial.reported[event.data["step"]] = event.data["value"]
    trial.prune, trial.rungs = event.data["prune"], event.data["rungs"]


def _attempt_ended(state: StudyState, event: Event) -> None:
    trial = state.trials[_trial(event)]
    trial.token = None
    progressed = event.data["step"] > trial.step
    trial.step = max(trial.step, event.data["step"])
    trial.lost = 0 if progressed or event.data["status"] == "interrupted" else trial.lost + 1


def _told(state: StudyState, event: Event) -> None:
    trial = state.trials[_trial(event)]
    trial.told, trial.value = event.data["state"], event.data["value"]
    trial.metrics = event.data["metrics"]
    trial.failure, trial.message = event.data["failure"], event.data["message"]


def _trial(event: Event) -> int:
    assert event.trial is not None
    return event.trial


_APPLY = {
    "started": _started,
    "asked": _asked,
    "announced": _announced,
    "submitted": _submitted,
    "reported": _reported,
    "attempt_ended": _attempt_ended,
    "told": _told,
    "interrupting": _interrupting,
    "job_ended": _job_ended,
    "ended": _ended,
}
