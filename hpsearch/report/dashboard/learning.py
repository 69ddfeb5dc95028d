"""Learning curves in the dashboard: of trials, or of the lines of a population."""

from collections.abc import Iterator, Mapping
from typing import Final

from hpsearch.report.colours import COLOURS
from hpsearch.report.dashboard.drawn import Figure, figure, short
from hpsearch.report.lineage import read_lineage
from hpsearch.report.page.learning import along, strongest
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial

MAX_CURVES: Final = 20


def learning_curves(view: StudyView) -> Figure | None:
    """Return the curves of the best trials and of those that run, as far as they were reported.

    Of a population, whose trials are short, they are those of the lines to the strongest of the
    last match, once there is one.
    """
    goal = view.study.spec.objectives[0]
    sign = -1.0 if goal.goal == "maximize" else 1.0
    reported = [one for one in view.state.trials.values() if one.reported]
    reported.sort(key=lambda one: sign * one.reported[max(one.reported)])
    if not reported:
        return None
    running = [one for one in reported if one.told is None][: MAX_CURVES // 2]
    best = [one for one in reported if one.told is not None][: MAX_CURVES - len(running)]
    lines = dict(_lines(view))
    ended = lines or {one.number: one.reported for one in best}
    drawn = [(f"trial {number}", points, "solid") for number, points in ended.items()]
    drawn += [(f"trial {one.number}", _with_parent(view, one), "dot") for one in running]
    what = "the lines to the strongest" if lines else "the best trials"
    data = [_curve(*one, at) for at, one in enumerate(drawn)]
    return figure(data, f"learning curves: {what}, dotted what runs", "step", goal.metric)


def _lines(view: StudyView) -> Iterator[tuple[int, Mapping[int, float]]]:
    """Yield what was reported along the lines to the strongest, by trial; nothing of a search."""
    if view.study.spec.population is None:
        return
    descent, trials = read_lineage(view), view.state.trials
    for trial in strongest(view, descent):
        points = along(descent.line(trial), lambda number: trials[number].reported)
        if points:
            yield trial, points


def _with_parent(view: StudyView, trial: Trial) -> Mapping[int, float]:
    """Return what a trial reported, after the last that its first parent did before it."""
    if trial.origin is None:
        return trial.reported
    parent, begin = next(iter(trial.origin.parents), None), trial.origin.first_step
    if trial.takeovers:
        parent, begin = trial.takeovers[-1].source, trial.takeovers[-1].step
    before = {} if parent is None else view.state.trials[parent].reported
    last = max((step for step in before if step <= begin), default=None)
    joined = {} if last is None else {last: before[last]}
    return joined | {step: value for step, value in trial.reported.items() if step > begin}


def _curve(name: str, points: Mapping[int, float], dash: str, at: int) -> Figure:
    steps = sorted(points)
    return {
        "name": name,
        "mode": "lines+markers",
        "x": steps,
        "y": [short(points[step]) for step in steps],
        "line": {"color": COLOURS[at % len(COLOURS)], "dash": dash},
    }
