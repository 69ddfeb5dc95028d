"""Which parameters mattered, and how: importances and slices."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from hpsearch.parameters import CategoricalParameter, Parameter, label_of
from hpsearch.report.colours import BLUE, VERMILLION
from hpsearch.report.importances import Importances, importances
from hpsearch.report.objectives import finished
from hpsearch.report.page.charts import Chart, axis, chart, words
from hpsearch.report.page.coordinates import coordinates_chart
from hpsearch.report.page.html import (
    Html,
    Section,
    figure,
    grid,
    heading,
    join,
    missing,
    paragraph,
    wide_figure,
)
from hpsearch.report.page.importance_chart import (
    importance_bars,
    importance_layout,
    importance_sentence,
    reading,
)
from hpsearch.report.page.material import Material
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial

AXIS: Final = 70
"""pixels between two axes of parallel coordinates at least"""
FEW_TICKS: Final = 3
"""from which on an axis needs none between them"""
DIGITS: Final = ((1,), (1, 2, 5), (1, 2, 3, 5, 7), tuple(range(1, 10)))
"""of ticks on a logarithmic axis, from few ticks to many"""


def parameters_section(material: Material) -> Section | None:
    """Return the section on the parameters; None where nothing has finished."""
    if not finished(material.view):
        return None
    return Section("parameters", "Which parameters mattered", join(_parts(material)))


def _parts(material: Material) -> Iterator[Html]:
    view = material.view
    for place, objective in enumerate(view.study.spec.objectives):
        measured = importances(view, place)
        if isinstance(measured, str):
            yield missing(f"{measured[0].upper()}{measured[1:]}.")
            continue
        yield paragraph(importance_sentence(measured, objective.metric))
        yield figure(importance_chart(measured), f"importances-{place}", reading(measured))
    if view.study.spec.population is not None:
        yield paragraph(
            "A trial of a population goes on from its parents, so its value says as much of them "
            "as of its own parameters."
        )
    metric = view.study.spec.objectives[0].metric
    yield heading("All parameters at once")
    yield wide_figure(
        coordinates_chart(view),
        "coordinates",
        f"A line a finished trial, from the lower to the upper end of each range, and last "
        f"{metric}.",
        AXIS * (1 + len(view.study.space.order)),
    )
    yield heading("One parameter at a time")
    yield paragraph(f"The star is {_star_text(material)}.")
    yield grid(
        figure(slice_chart(view, name, material.best), f"slice-{place}", f"{metric} by {name}")
        for place, name in enumerate(view.study.space.order)
    )


def _star_text(material: Material) -> str:
    """Return what the star in the slices stands for."""
    if material.is_confirmed:
        return "the best of the confirmation, which need not have the best value in the search"
    if material.view.state.population.archive:
        return "the champion, by its strength in the last match, so others may have better values"
    return "the best trial"


def importance_chart(measured: Importances) -> Chart:
    """Return a bar a parameter, the most important one above."""
    height = 136 + 28 * len(measured.by_name)
    return chart(importance_bars(measured), {"height": height, **importance_layout(measured)})


def slice_chart(view: StudyView, name: str, best: Trial | None) -> Chart:
    """Return the first objective by the value of one parameter; the best trial is a star."""
    metric, parameter = view.study.spec.objectives[0].metric, view.study.space.parameters[name]
    trials = [trial for trial in finished(view) if name in trial.last_params]
    is_text = isinstance(parameter, CategoricalParameter)

    def place(trial: Trial) -> object:
        value = view.study.space.decode(trial.last_params)[name]
        return words(label_of(value)) if is_text else value

    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "finished",
        "x": [place(trial) for trial in trials],
        "y": [trial.metrics[metric]["value"] for trial in trials],
        "text": [f"trial {trial.number}" for trial in trials],
        "marker": {"color": BLUE, "size": 6, "opacity": 0.85},
    }
    star = [trial for trial in trials if best is not None and trial.number == best.number]
    chosen = {
        "type": "scatter",
        "mode": "markers",
        "name": "best",
        "x": [place(trial) for trial in star],
        "y": [trial.metrics[metric]["value"] for trial in star],
        "marker": {"color": VERMILLION, "symbol": "star", "size": 15},
    }
    layout = {
        "height": 260,
        "showlegend": False,
        "xaxis": axis(name, _scale(parameter, [place(trial) for trial in trials])),
        "yaxis": axis("", {}),
    }
    return chart([points, chosen], layout)


def _scale(parameter: Parameter, drawn: Sequence[Any]) -> dict[str, Any]:
    """Return the kind of an axis, as the parameter is searched."""
    if isinstance(parameter, CategoricalParameter):
        return {"type": "category"}
    if not parameter.log:
        return {"type": "linear", "nticks": 5}
    ticks = log_ticks(min(drawn), max(drawn)) if drawn else []
    # Written out: between powers of ten plotly.js writes the first digit alone.
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{one:.3g}" for one in ticks]}


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis between two positive numbers, as round as there are."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in DIGITS:
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= FEW_TICKS:
            return inside
    return sorted({low, *inside, high})
