"""Parallel coordinates: a line a trial, an upright axis a parameter.

Drawn with plain lines, which print and need no WebGL; lines of similar value share a trace.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from hpsearch.parameters import CategoricalParameter, Parameter, label_of
from hpsearch.report.colours import BLUE, VERMILLION
from hpsearch.report.objectives import finished
from hpsearch.report.page.charts import (
    QUIET,
    Chart,
    Trace,
    axis,
    chart,
    shared_lines,
    thinner,
    words,
)
from hpsearch.report.trial_list import setting_text
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial

GROUPS: Final = (
    ("lower half", QUIET, 1.0),
    ("upper half", BLUE, 1.4),
    ("best tenth", VERMILLION, 2.0),
)
"""name, colour and width of the lines of trials, the worst first"""
SPREAD: Final = 0.03
"""of the range, by which lines through one category are drawn apart"""


def coordinates_chart(view: StudyView) -> Chart:
    """Return the finished trials; the last axis is the first objective."""
    objective = view.study.spec.objectives[0]
    trials = finished(view)
    values = [trial.metrics[objective.metric]["value"] for trial in trials]
    low, high = min(values), max(values)
    data: list[Trace] = []
    groups = shared_out(values, worst_first=objective.goal == "maximize")
    for (name, colour, width), group in zip(GROUPS, groups, strict=True):
        lines = [
            [*_line(view, trials[n]), (len(view.study.space.order), _share(values[n], low, high))]
            for n in group
        ]
        x, y = shared_lines(lines)
        look = {"color": colour, "width": thinner(width, len(trials))}
        trace = {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": look}
        data.append({**trace, "hoverinfo": "skip", "opacity": 0.85})
    return chart(data, _layout(view, objective.metric, low, high))


def shared_out(values: Sequence[float], *, worst_first: bool) -> list[list[int]]:
    """Return the places of the values in the groups of GROUPS, ranked.

    Args:
        values: at least one.
        worst_first: whether low values are bad.
    """
    sign = 1.0 if worst_first else -1.0
    ranked = sorted(range(len(values)), key=lambda place: sign * values[place])
    top = len(values) - math.ceil(len(values) / 10)
    middle = min(len(values) // 2, top)
    return [ranked[:middle], ranked[middle:top], ranked[top:]]


def _line(view: StudyView, trial: Trial) -> list[tuple[int, float]]:
    """Return where a trial's line crosses the axes of the parameters that exist for it."""
    return [
        (at, height(view.study.space.parameters[name], trial.last_params[name], trial.number))
        for at, name in enumerate(view.study.space.order)
        if name in trial.last_params
    ]


def height(parameter: Parameter, stored: Any, number: int) -> float:
    """Return where in its range a value lies, 0 to 1, as Optuna stores it.

    Lines through one category lie a little apart, by the trial's ``number``.
    """
    if isinstance(parameter, CategoricalParameter):
        labels = [str(label) for label in parameter.labels()]
        middle = _share(labels.index(str(stored)), 0, len(labels) - 1)
        return middle + SPREAD * ((number * 0.618) % 1 - 0.5)
    if parameter.log:
        return _share(math.log(stored), math.log(parameter.low), math.log(parameter.high))
    return _share(stored, parameter.low, parameter.high)


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high == low else (value - low) / (high - low)


def _layout(view: StudyView, metric: str, low: float, high: float) -> dict[str, Any]:
    names = view.study.space.order
    marks = [
        _mark(at, share, label)
        for at, name in enumerate(names)
        for share, label in _labels(view.study.space.parameters[name])
    ]
    marks += [_mark(len(names), 0.0, f"{low:.3g}"), _mark(len(names), 1.0, f"{high:.3g}")]
    lines = [
        {
            "type": "line",
            "x0": at,
            "x1": at,
            "y0": 0,
            "y1": 1,
            "line": {"color": "gray", "width": 1},
        }
        for at in range(len(names) + 1)
    ]
    titles = [*(name.replace(".", ".<br>") for name in names), metric.replace("/", "/<br>")]
    ticks = {"tickvals": list(range(len(titles))), "ticktext": titles, "showgrid": False}
    return {
        "height": 420,
        "xaxis": axis("", {**ticks, "range": [-0.3, len(names) + 0.3]}),
        "yaxis": {"visible": False, "range": [-0.12, 1.12]},
        "annotations": marks,
        "shapes": lines,
    }


def _labels(parameter: Parameter) -> list[tuple[float, str]]:
    """Return what is written along an axis: its ends, or its categories."""
    if isinstance(parameter, CategoricalParameter):
        last = len(parameter.choices) - 1
        return [
            (_share(at, 0, last), words(label_of(choice)))
            for at, choice in enumerate(parameter.choices)
        ]
    return [(0.0, setting_text(parameter.low)), (1.0, setting_text(parameter.high))]


def _mark(at: int, share: float, label: str) -> dict[str, Any]:
    """Return what is written at an axis: beyond its ends, or beside it."""
    anchors = {0.0: "top", 1.0: "bottom"}
    beside = {} if share in anchors else {"xanchor": "left", "xshift": 5}
    return {
        "x": at,
        "y": share,
        "text": label,
        "showarrow": False,
        "yanchor": anchors.get(share, "middle"),
        "font": {"size": 10},
        **beside,
    }
