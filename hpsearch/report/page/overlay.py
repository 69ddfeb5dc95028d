"""A second study laid over the first: by the same objective, in the same charts."""

import time
from collections.abc import Iterator, Sequence

from hpsearch.analysis.candidates import finished
from hpsearch.analysis.lineage import read_lineage
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.printable import interval_text
from hpsearch.report.page.html import (
    Chart,
    Html,
    Section,
    Trace,
    axis,
    band,
    chart,
    colour,
    dash,
    figure,
    join,
    paragraph,
    table,
)
from hpsearch.report.page.learning import MeasuredCurve, read_learning
from hpsearch.report.page.material import Material
from hpsearch.report.page.search import best_so_far
from hpsearch.report.progress import seconds_at_work
from hpsearch.report.text import duration_text
from hpsearch.study.view import StudyView
from hpsearch.study.work import cost, steps_made


def check_comparable(view: StudyView, other: StudyView) -> None:
    """Refuse studies whose first objectives differ.

    Raises:
        UsageError: if they do.
    """
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


def overlay_section(material: Material) -> Section | None:
    """Return the section on both studies; None where there is one alone."""
    if material.other is None:
        return None
    views = (material.view, material.other)
    return Section("overlay", f"Beside {views[1].study.spec.name}", join(_parts(views)))


def _parts(views: Sequence[StudyView]) -> Iterator[Html]:
    names = [view.study.spec.name for view in views]
    metric = views[0].study.spec.objectives[0].metric
    yield paragraph(f"{' and '.join(names)}, both by {metric}.")
    header = ("study", "best trial", metric, "trials", "steps", "GPU-hours", "time passed")
    yield table(header, [_row(view) for view in views], strong=None)
    yield figure(best_chart(views), "overlay-best", f"The best {metric} so far, by finished trial.")
    curves = [(view.study.spec.name, curve) for view in views for curve in _best_curve(view)]
    if curves:
        yield figure(
            overlaid_curves(curves, metric),
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


def _best_curve(view: StudyView) -> tuple[MeasuredCurve, ...]:
    """Return the curve of the best trial, or of the line to the strongest member, if there is."""
    try:
        descent = read_lineage(view)
    except HpsearchError as error:
        return read_learning(view, view.best(), "not drawn here", str(error)).best[:1]
    return read_learning(view, view.best(), "not drawn here", descent).best[:1]


def best_chart(views: Sequence[StudyView]) -> Chart:
    data: list[Trace] = []
    for place, view in enumerate(views):
        trials, objective = finished(view), view.study.spec.objectives[0]
        values = [trial.metrics[objective.metric]["value"] for trial in trials]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": view.study.spec.name,
                "x": list(range(1, len(trials) + 1)),
                "y": best_so_far(values, objective.goal),
                "text": [f"trial {trial.number}" for trial in trials],
                "line": {"color": colour(place), "dash": dash(place), "shape": "hv", "width": 2},
                "marker": {"size": 4},
            }
        )
    metric = views[0].study.spec.objectives[0].metric
    return chart(data, {"xaxis": axis("finished trials", {}), "yaxis": axis(metric, {})})


def overlaid_curves(curves: Sequence[tuple[str, MeasuredCurve]], metric: str) -> Chart:
    """Return curves of several studies with their bands, each named by study and trial."""
    data: list[Trace] = []
    for place, (name, curve) in enumerate(curves):
        data.append(band(curve.steps, curve.low, curve.high, colour(place)))
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"{name}, trial {curve.trial}",
                "x": list(curve.steps),
                "y": list(curve.values),
                "line": {"color": colour(place), "dash": dash(place), "width": 2},
                "marker": {"size": 4},
            }
        )
    return chart(data, {"xaxis": axis("step", {}), "yaxis": axis(metric, {})})
