"""Learning curves of a study, and a second study laid over the first, by the same objective."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpsearch.analysis.candidates import finished
from hpsearch.analysis.lineage import lineage_or_why
from hpsearch.errors import UsageError
from hpsearch.printable import interval_text
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart, Trace
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material, MeasuredCurve, read_learning
from hpsearch.report.page.search import best_so_far
from hpsearch.report.progress import seconds_at_work
from hpsearch.report.text import duration_text
from hpsearch.study.view import StudyView
from hpsearch.study.work import cost, steps_made

MAX_OTHERS: Final = 1000
"""curves behind the best, of the newest trials: more would be one grey area"""


def learning_section(material: Material) -> Iterator[Html]:
    view, learning = material.view, material.learning
    metric = view.study.spec.objectives[0].metric
    if learning.best or any(trial.reported for trial in view.state.trials.values()):
        yield html.figure(curves_chart(view, learning.best), "curves", _caption(material, metric))
    if not isinstance(learning.seeds, str):
        yield html.figure(
            seeds_chart(learning.seeds, metric),
            "curves-seeds",
            f"{metric} of the confirmed configurations, each trained on several seeds that the "
            "search never used: the mean over seeds, and a band from the lowest to the highest of "
            "them.",
        )


def _caption(material: Material, metric: str) -> str:
    what = "the best trials"
    newest = f", the newest {MAX_OTHERS:,}" if len(material.view.state.trials) > MAX_OTHERS else ""
    if not isinstance(material.descent, str):
        what = "the lines that led to the strongest of the last match"
    return (
        f"{metric} while training. In colour {what}, with 95 % intervals over games; behind them "
        f"what all others reported{newest}."
    )


def curves_chart(view: StudyView, best: Sequence[MeasuredCurve]) -> Chart:
    shown = {curve.trial for curve in best}
    others = [
        sorted(trial.reported.items())
        for trial in view.state.trials.values()
        if trial.number not in shown and trial.reported
    ][-MAX_OTHERS:]
    data: list[Trace] = []
    if others:
        look = {"color": charts.QUIET, "width": charts.thinner(1.0, len(others))}
        more = {"line": look, "hoverinfo": "skip"}
        data.append(charts.scatter("lines", "all others", *charts.shared_lines(others), more))
    for place, curve in enumerate(best):
        data += _with_band(f"trial {curve.trial}", curve, place)
    return charts.chart(data, charts.axes("step", view.study.spec.objectives[0].metric))


def _with_band(name: str, curve: MeasuredCurve, place: int) -> list[Trace]:
    more = {"line": charts.line(place, 2), "marker": {"size": 4}}
    return [
        charts.band(curve.steps, curve.column(1), curve.column(2), charts.colour(place)),
        charts.scatter("lines+markers", name, curve.steps, curve.column(0), more),
    ]


def seeds_chart(seeds: Mapping[int, Sequence[MeasuredCurve]], metric: str) -> Chart:
    """Return the mean over seeds of each configuration, with a band from lowest to highest."""
    data: list[Trace] = []
    for place, (trial, curves) in enumerate(seeds.items()):
        steps, low, mean, high = over_seeds(curves)
        name = f"trial {trial}, {len(curves)} seeds"
        data.append(charts.band(steps, low, high, charts.colour(place)))
        data.append(charts.scatter("lines", name, steps, mean, {"line": charts.line(place, 2)}))
    return charts.chart(data, charts.axes("step", metric))


def over_seeds(
    curves: Sequence[MeasuredCurve],
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Return steps, lowest, mean and highest value, at the steps that all curves have."""
    steps = sorted(set.intersection(*(set(curve.points) for curve in curves)))
    at_steps = [[curve.points[step][0] for curve in curves] for step in steps]
    means = [sum(values) / len(values) for values in at_steps]
    return steps, [min(values) for values in at_steps], means, [max(values) for values in at_steps]


def check_comparable(view: StudyView, other: StudyView) -> None:
    """Refuse studies whose first objectives differ; raises UsageError if they do."""
    studies = [view.study.spec, other.study.spec]
    goals = [spec.objectives[0] for spec in studies]
    if goals[0] != goals[1]:
        told = " and ".join(
            f"{spec.name} ({goal.goal} {goal.metric})"
            for spec, goal in zip(studies, goals, strict=True)
        )
        raise UsageError(
            f"two studies are laid over each other by their first objective, but {told} have "
            "different ones; name studies of one objective, or write a page of each"
        )


def overlay_section(material: Material) -> Iterator[Html]:
    if material.other is None:
        return
    views = (material.view, material.other)
    names = [view.study.spec.name for view in views]
    metric = views[0].study.spec.objectives[0].metric
    yield html.paragraph(f"{' and '.join(names)}, both by {metric}.")
    header = ("study", "best trial", metric, "trials", "steps", "GPU-hours", "time passed")
    yield html.table(header, map(_row, views))
    caption = f"The best {metric} so far, by finished trial."
    yield html.figure(best_chart(views), "overlay-best", caption)
    # Of the best trial, or where there is descent of the line to the strongest member.
    learned = [read_learning(v, v.best(), "not drawn here", lineage_or_why(v)) for v in views]
    best = [(view, of.best[0]) for view, of in zip(views, learned, strict=True) if of.best]
    data: list[Trace] = []
    for place, (view, curve) in enumerate(best):
        data += _with_band(f"{view.study.spec.name}, trial {curve.trial}", curve, place)
    if best:
        yield html.figure(
            charts.chart(data, charts.axes("step", metric)),
            "overlay-curves",
            f"{metric} of each best trial while it trained, with 95 % intervals over games.",
        )


def _row(view: StudyView) -> tuple[str, ...]:
    best, metric = view.best(), view.study.spec.objectives[0].metric
    return (
        view.study.spec.name,
        "" if best is None else str(best.number),
        "" if best is None or metric not in best.metrics else interval_text(best.metrics[metric]),
        f"{view.state.num_done} of {view.study.spec.budget.trials}",
        f"{steps_made(view):,}",
        f"{cost(view).gpu_hours_spent:.2f}",
        duration_text(seconds_at_work(view, time.time())),
    )


def best_chart(views: Sequence[StudyView]) -> Chart:
    data: list[Trace] = []
    for place, view in enumerate(views):
        trials, objective = finished(view), view.study.spec.objectives[0]
        values = [trial.metrics[objective.metric]["value"] for trial in trials]
        best = best_so_far(values, objective.goal)
        look = {"line": charts.line(place, 2) | {"shape": "hv"}, "marker": {"size": 4}}
        more = charts.trial_texts(trials) | look
        count = range(1, len(trials) + 1)
        data.append(charts.scatter("lines+markers", view.study.spec.name, count, best, more))
    metric = views[0].study.spec.objectives[0].metric
    return charts.chart(data, charts.axes("finished trials", metric))
