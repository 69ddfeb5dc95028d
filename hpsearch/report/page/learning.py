"""Learning curves as files hold them: of the best trials, and of configurations on many seeds."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from sys import float_info
from typing import Any, Final, TypeVar

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.trial_dir import TrialDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.report.lineage import Descent, Relative
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial

T = TypeVar("T")

NUM_CURVES: Final = 5
"""of the best trials, drawn with their intervals"""


@dataclass(frozen=True)
class Curve:
    """What a trial measured while it trained; all lists are of one length."""

    trial: int
    steps: tuple[int, ...]
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """ends of the 95 % interval over games"""


@dataclass(frozen=True)
class Seeds:
    """One configuration, trained on several seeds that the search never used."""

    trial: int
    """of the search"""
    curves: tuple[Curve, ...]
    """of the trials that trained it again"""


@dataclass(frozen=True)
class Learning:
    """The curves of the first objective."""

    best: tuple[Curve, ...]
    """of the search, the best trial first; where there is descent, of the lines to these trials"""
    seeds: tuple[Seeds, ...] | str
    """of a confirmation, its best first; or why there are none"""


def read_learning(
    view: StudyView,
    best: Trial | None,
    confirmation: Mapping[str, Any] | str,
    descent: Descent | str,
) -> Learning:
    """Return the curves of the best trials, or of lines, and of what confirmed the best.

    Where there is descent, a curve is that of a whole line: of each that played the last match.
    """
    metric = view.study.spec.objectives[0].metric
    if isinstance(descent, str):
        trials = [one.number for one in _top(view, best)]
        curves = [read_curve(view.folder.trial(number), number, metric) for number in trials]
    else:
        curves = [_line(view, descent, trial, metric) for trial in strongest(view, descent)]
    return Learning(
        tuple(curve for curve in curves if curve.steps), _seeds(view, confirmation, metric)
    )


def strongest(view: StudyView, descent: Descent) -> list[int]:
    """Return the trials that played the last match, the strongest first."""
    judged = [one for one in view.state.population.matches.values() if one.is_over]
    strengths = judged[-1].strengths if judged else {}
    ranked = sorted(strengths, key=lambda trial: -strengths[trial])
    return [trial for trial in ranked if trial in descent.relatives][:NUM_CURVES]


def _line(view: StudyView, descent: Descent, trial: int, metric: str) -> Curve:
    """Return what the first parents of a trial measured, each in its own steps, and it itself."""
    found = along(
        descent.line(trial),
        lambda number: _by_step(read_curve(view.folder.trial(number), number, metric)),
    )
    values, low, high = zip(*found.values(), strict=True) if found else ((), (), ())
    return Curve(trial, tuple(found), values, low, high)


def along(line: Sequence[Relative], measured: Callable[[int], Mapping[int, T]]) -> dict[int, T]:
    """Return what was measured along a line, by step: of each trial what it trained itself.

    Args:
        line: the oldest first.
        measured: returns what was measured of a trial, by step.
    """
    return {
        step: found
        for one in line
        for step, found in sorted(measured(one.trial).items())
        if one.begin < step <= one.step
    }


def _by_step(curve: Curve) -> dict[int, tuple[float, float, float]]:
    return dict(
        zip(curve.steps, zip(curve.values, curve.low, curve.high, strict=True), strict=True)
    )


def read_curve(files: TrialDir, trial: int, metric: str) -> Curve:
    """Return a trial's curve, the last of several lines of one step; empty if there is none."""
    by_step: dict[int, Any] = {}
    with suppress(CorruptError, DiskError):
        for row in files.read_metrics():
            match row:
                case {"step": step, "metrics": {**metrics}}:
                    if _is_measured(metrics.get(metric)):
                        by_step[step] = metrics[metric]
    found = [by_step[step] for step in sorted(by_step)]
    return Curve(
        trial,
        tuple(sorted(by_step)),
        tuple(one["value"] for one in found),
        tuple(one["low"] for one in found),
        tuple(one["high"] for one in found),
    )


def _is_measured(found: Any) -> bool:
    """Return whether there is a value with its interval."""
    ends = [found.get(key) for key in ("value", "low", "high")] if isinstance(found, dict) else [""]
    # Which neither infinities nor NaN pass, nor whole numbers too large for a chart.
    return all(isinstance(end, float | int) and abs(end) <= float_info.max for end in ends)


def _top(view: StudyView, best: Trial | None) -> Sequence[Trial]:
    """Return the best trials, the one that the page is about first; running ones follow."""
    ended = view.ranked(view.state.trials.values())
    first = [] if best is None else [best]
    others = [one for one in (*ended, *view.state.unfinished()) if one is not best]
    return [*first, *others][:NUM_CURVES]


def _seeds(
    view: StudyView, confirmation: Mapping[str, Any] | str, metric: str
) -> tuple[Seeds, ...] | str:
    if isinstance(confirmation, str):
        return confirmation
    if confirmation["trained_by"] is None:
        return "a population is confirmed by playing again, not by training on other seeds"
    folder = StudyDir(view.folder.root.parent / confirmation["trained_by"])
    found = []
    for entry in confirmation["trials"]:
        numbers = [one["trial"] for one in entry["seeds"]]
        curves = [read_curve(folder.trial(number), number, metric) for number in numbers]
        kept = tuple(curve for curve in curves if curve.steps)
        if kept:
            found.append(Seeds(entry["trial"], kept))
    return tuple(found) or f"the learning curves of {confirmation['trained_by']} are gone"
