"""The work of a study: training steps made and to come, and what they have cost."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hpsearch.cluster.messages import Heartbeat
from hpsearch.report.view import StudyView
from hpsearch.study.driver_note import read_note
from hpsearch.study.observe import signs
from hpsearch.study.state import BUSY, PAUSED

SHARE_TO_JUDGE_BY = 0.01
"""of all steps: before so many are made, starting up would pass for training"""


@dataclass(frozen=True)
class Cost:
    """What a study has cost and will cost, as far as one can tell."""

    gpu_hours_spent: float
    gpu_hours_left: float | None
    """that the work to come will take at the price so far; None while there is too little of it"""
    seconds_left: float | None
    """at the speed of the running jobs; None while none runs, or not for long"""


@dataclass(frozen=True)
class Pace:
    """What has been trained, and how fast."""

    steps: int
    """training steps made, by trials that ended as far as they came"""
    steps_per_second: float
    """of all running members together"""


@dataclass(frozen=True)
class Waste:
    """Training of attempts that ended in one way, and that nobody uses."""

    attempts: int
    hours: float
    """of training, of all trials together"""
    gpu_hours: float


def cost(view: StudyView) -> Cost:
    """Return what the study has cost, and what it will.

    What jobs do while no driver looks is not known, and not counted before one has looked.
    """
    spent = view.state.gpu_seconds(known_until(view)) / 3600
    made, total = steps_made(view), steps_in_all(view)
    if view.state.status not in (*BUSY, PAUSED) or made < SHARE_TO_JUDGE_BY * total:
        return Cost(spent, None, None)
    speed, left = steps_per_second(view), max(0, total - made)
    if view.state.population.closing:  # whose children take no steps
        return Cost(spent, None, None)
    hours, cap = spent * left / made, view.study.spec.budget.gpu_hours
    return Cost(
        gpu_hours_spent=spent,
        gpu_hours_left=hours if cap is None else min(hours, max(0.0, cap - spent)),
        seconds_left=left / speed if speed else None,
    )


def known_until(view: StudyView) -> float:
    """Return until when one knows what the jobs did, in seconds since the epoch.

    Until now while a driver looks, else until the last one looked; 0 where that is not known.
    """
    if view.is_driven:
        return time.time()
    note = read_note(view.folder)
    return 0.0 if note is None else note.at


def waste(view: StudyView) -> dict[str, Waste]:
    """Return what was lost, by kind of failure."""
    return {
        kind: Waste(lost.attempts, lost.seconds / 3600, lost.gpu_seconds / 3600)
        for kind, lost in sorted(view.state.tally.lost.items())
    }


def failures(view: StudyView) -> dict[str, int]:
    """Return how many trials failed, by kind."""
    return dict(view.state.tally.failed)


def pace(view: StudyView, beats: Mapping[int, Heartbeat]) -> Pace:
    """Return what has been trained, where ``beats`` are signs of life by trial."""
    running = {trial.number for trial, _ in view.state.live_attempts()}
    heard = {number: beat for number, beat in beats.items() if number in running}
    steps = sum(
        max(0, max(trial.step, heard[number].step if number in heard else 0) - trial.first_step)
        for number, trial in view.state.trials.items()
    )
    return Pace(steps, sum(beat.steps_per_second for beat in heard.values()))


def steps_per_second(view: StudyView) -> float:
    """Return the training steps of all running members together."""
    return sum(beat.steps_per_second for beat in _heartbeats(view).values())


def steps_in_all(view: StudyView) -> int:
    """Return the training steps of the whole budget; trials to come count as the base."""
    asked = view.steps_told() + sum(view.steps(trial) for trial in view.state.unfinished())
    to_come = max(0, view.study.spec.budget.trials - view.state.num_asked)
    population, base = view.study.spec.population, next(iter(view.study.bases.values()))
    each = int(base["steps"]) if population is None else population.interval
    return max(1, asked + to_come * each)


def steps_made(view: StudyView) -> int:
    """Return the training steps made; a trial that has ended counts in full."""
    waiting = sum(max(0, trial.step - trial.first_step) for trial in view.state.waiting())
    return view.steps_told() + waiting + sum(_steps_of(view))


def running_steps(view: StudyView, now: float) -> Iterator[tuple[int, float]]:
    """Yield what each running attempt has gained, and the seconds since it began."""
    for number, beat in _heartbeats(view).items():
        trial = view.state.trials[number]
        if trial.began_at is not None:
            yield max(0, beat.step - max(trial.step, trial.first_step)), now - trial.began_at


def _steps_of(view: StudyView) -> Iterator[int]:
    """Yield the steps that each running trial has made itself, not its ancestors."""
    for number, beat in _heartbeats(view).items():
        yield max(0, beat.step - view.state.trials[number].first_step)


def _heartbeats(view: StudyView) -> dict[int, Heartbeat]:
    """Return the last signs of life of the trials that run, by trial."""
    heard = signs(view.folder, list(view.state.live_attempts()), now=time.time())
    return {number: sign.beat for number, sign in heard.items()}
