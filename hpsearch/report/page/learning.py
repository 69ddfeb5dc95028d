"""Learning curves as files hold them: of the best trials, and of configurations on many seeds."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from sys import float_info
from typing import Any, Final, TypeVar

from hpsearch.analysis.lineage import Ancestry, Relative
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.trial_dir import TrialDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView

T = TypeVar("T")

NUM_CURVES: Final = 5
"""of the best trials, drawn with their intervals"""


@dataclass(frozen=True)
class MeasuredCurve:
    """What a trial measured while it trained; all lists are of one length."""

    trial: int
    steps: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """ends of the 95 % interval over games"""


@dataclass(frozen=True)
class SeedCurves:
    """One configuration, trained on several seeds that the search never used."""

    trial: int
    """of the search"""
    curves: tuple[MeasuredCurve, ...]
    """of the trials that trained it again"""


@dataclass(frozen=True)
class Learning:
    best: tuple[MeasuredCurve, ...]
    """of the search, the best trial first; where there is descent, of the lines to these trials"""
    seeds: tuple[SeedCurves, ...] | str
    """of a confirmation, its best first; or why there are none"""


def read_learning(
    view: StudyView,
    best: Trial | None,
    confirmation: Mapping[str, Any] | str,
    descent: Ancestry | str,
) -> Learning:
    """Return the curves of the best trials, or of lines, and of what confirmed the best.

    Where there is descent, a curve is that of a whole line: of each that played the last match.
    """
    metric = view.study.spec.objectives[0].metric
    if isinstance(descent, str):
        trials = [trial.number for trial in _top(view, best)]
        curves = [read_curve(view.folder.trial(number), number, metric) for number in trials]
    else:
        curves = [_line(view, descent, trial, metric) for trial in strongest(view, descent)]
    return Learning(
        tuple(curve for curve in curves if curve.steps), _seeds(view, confirmation, metric)
    )


def strongest(view: StudyView, descent: Ancestry) -> list[int]:
    """Return the trials that played the last match, the strongest first."""
    judged = [match for match in view.state.population.matches.values() if match.is_over]
    strengths = judged[-1].strengths if judged else {}
    ranked = sorted(strengths, key=lambda trial: -strengths[trial])
    return [trial for trial in ranked if trial in descent.relatives][:NUM_CURVES]


def _line(view: StudyView, descent: Ancestry, trial: int, metric: str) -> MeasuredCurve:
    """Return what the first parents of a trial measured, each in its own steps, and it itself."""
    points = along(
        descent.line(trial),
        lambda number: _by_step(read_curve(view.folder.trial(number), number, metric)),
    )
    values, low, high = zip(*points.values(), strict=True) if points else ((), (), ())
    return MeasuredCurve(trial, tuple(points), values, low, high)


def along(line: Sequence[Relative], measured: Callable[[int], Mapping[int, T]]) -> dict[int, T]:
    """Return what was measured along a line, by step: of each trial what it trained itself.

    Args:
        line: the oldest first.
        measured: returns what was measured of a trial, by step.
    """
    return {
        step: value
        for relative in line
        for step, value in sorted(measured(relative.trial).items())
        if relative.begin < step <= relative.step
    }


def _by_step(curve: MeasuredCurve) -> dict[int, tuple[float, float, float]]:
    return dict(
        zip(curve.steps, zip(curve.values, curve.low, curve.high, strict=True), strict=True)
    )


def read_curve(files: TrialDir, trial: int, metric: str) -> MeasuredCurve:
    """Return a trial's curve, the last of several lines of one step; empty if there is none."""
    by_step: dict[int, Any] = {}
    with suppress(CorruptError, DiskError):
        for row in files.read_metrics():
            match row:
                case {"step": step, "metrics": {**metrics}}:
                    if _is_measured(metrics.get(metric)):
                        by_step[step] = metrics[metric]
    points = [by_step[step] for step in sorted(by_step)]
    return MeasuredCurve(
        trial,
        tuple(sorted(by_step)),
        tuple(point["value"] for point in points),
        tuple(point["low"] for point in points),
        tuple(point["high"] for point in points),
    )


def _is_measured(value: Any) -> bool:
    ends = [value.get(key) for key in ("value", "low", "high")] if isinstance(value, dict) else [""]
    # Which neither infinities nor NaN pass, nor whole numbers too large for a chart.
    return all(isinstance(end, float | int) and abs(end) <= float_info.max for end in ends)


def _top(view: StudyView, best: Trial | None) -> Sequence[Trial]:
    """Return the best trials, the one that the page is about first; running ones follow."""
    ended = view.ranked(view.state.trials.values())
    first = [] if best is None else [best]
    others = [trial for trial in (*ended, *view.state.unfinished()) if trial is not best]
    return [*first, *others][:NUM_CURVES]


def _seeds(
    view: StudyView, confirmation: Mapping[str, Any] | str, metric: str
) -> tuple[SeedCurves, ...] | str:
    if isinstance(confirmation, str):
        return confirmation
    if confirmation["trained_by"] is None:
        return "a population is confirmed by playing again, not by training on other seeds"
    folder = StudyDir(view.folder.root.parent / confirmation["trained_by"])
    of_trials = []
    for entry in confirmation["trials"]:
        numbers = [seed["trial"] for seed in entry["seeds"]]
        curves = [read_curve(folder.trial(number), number, metric) for number in numbers]
        kept = tuple(curve for curve in curves if curve.steps)
        if kept:
            of_trials.append(SeedCurves(entry["trial"], kept))
    return tuple(of_trials) or f"the learning curves of {confirmation['trained_by']} are gone"
