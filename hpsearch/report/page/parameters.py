"""Which parameters mattered, and how: importances, parallel coordinates, slices."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from hpsearch.analysis import importances as ped_anova
from hpsearch.analysis.candidates import finished
from hpsearch.analysis.importances import Importances
from hpsearch.analysis.pictures import BLUE, VERMILLION
from hpsearch.parameters import CategoricalParameter, Parameter, label_of
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart, Trace
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView, setting_text


def importance_sentence(importances: Importances, metric: str) -> str:
    """Return which parameters mattered as far as chance lets that be told."""
    above, number = importances.above_noise, importances.num_trials
    if not above:
        return (
            f"Too few trials to tell which parameters mattered for {metric}: of {number} trials, "
            "no parameter stands above the noise."
        )
    names = " and ".join([", ".join(above[:-1]), above[-1]] if len(above) > 1 else above)
    others = len(importances.by_name) - len(above)
    rest = f" Of the others {number} trials are too few to tell." if others else ""
    return f"{names} mattered for {metric} more than chance explains.{rest}"


def reading(importances: Importances) -> str:
    share, some = f"{100 * ped_anova.CONFIDENCE:.0f} %", ""
    if importances.num_finished > importances.num_trials:
        number = f"{importances.num_finished:,}"
        some = f" Of {number} finished trials, {ped_anova.MAX_TRIALS} were drawn."
    return (
        "Importances by Optuna's PED-ANOVA, less what chance gives: how unlike a parameter's "
        f"values in the best {100 * importances.best_share:.0f} % of the {importances.num_trials} "
        "trials are to those in all, in shares that add up to 1. Lines are "
        f"{share} intervals by {ped_anova.NUM_RESAMPLES} resamples of the trials. Grey is the "
        f"noise: in {share} of {ped_anova.NUM_SHUFFLES} shuffles of the values among the trials, "
        f"no parameter comes above its grey bar; one longer than 1 is cut at the edge.{some}"
    )


def importance_chart(importances: Importances) -> Chart:
    names = list(importances.by_name)[::-1]
    drawn = [importances.by_name[name] for name in names]
    shares, noise = [bar.share for bar in drawn], [bar.noise for bar in drawn]
    ends = charts.intervals(shares, [bar.low for bar in drawn], [bar.high for bar in drawn])
    look = {"width": 0.4, "marker": {"color": BLUE}, "error_x": ends}
    quiet = {"width": 0.85, "marker": {"color": charts.QUIET}}
    data = [
        charts.flat_bars("noise", noise, names, quiet),
        charts.flat_bars("importance, 95 % interval", shares, names, look),
    ]
    labels = [f"{name}  {share:.2f}" for name, share in zip(names, shares, strict=True)]
    upright = {"tickmode": "array", "tickvals": names, "ticktext": labels}
    across = charts.axis("share of what the parameters explain", {"range": [0, 1]})
    axes = charts.axes(across, charts.axis("", upright))
    layout = {"height": 136 + 28 * len(names), "barmode": "overlay", **axes}
    return charts.chart(data, layout)


GROUPS: Final = (
    ("lower half", charts.QUIET, 1.0),
    ("upper half", BLUE, 1.4),
    ("best tenth", VERMILLION, 2.0),
)
"""name, colour and width of the lines of trials, the worst first"""
SPREAD: Final = 0.03  # of the range, by which lines through one category are drawn apart


def coordinates_chart(view: StudyView, drawn: StudyView) -> Chart:
    """Return the ``drawn`` trials that finished; the last axis is the first objective."""
    objective, trials = view.study.spec.objectives[0], finished(view)
    values = [trial.metrics[objective.metric]["value"] for trial in trials]
    low, high = min(values), max(values)
    data: list[Trace] = []
    groups = shared_out(values, worst_first=objective.goal == "maximize")
    shown = {trial.number for trial in finished(drawn)}
    for (name, colour, width), group in zip(GROUPS, groups, strict=True):
        last = len(view.study.space.order)
        lines = [
            [*_line(view, trials[place]), (last, _share(values[place], low, high))]
            for place in group
            if trials[place].number in shown
        ]
        look = {"color": colour, "width": charts.thinner(width, len(shown))}
        more = {"line": look, "hoverinfo": "skip", "opacity": 0.85}
        data.append(charts.scatter("lines", name, *charts.shared_lines(lines), more))
    return charts.chart(data, _layout(view, objective.metric, low, high))


def shared_out(values: Sequence[float], *, worst_first: bool) -> list[list[int]]:
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
    """Return where in its range a value lies, 0 to 1; within a category a little apart."""
    if isinstance(parameter, CategoricalParameter):
        labels = parameter.labels()
        middle = _share(labels.index(stored), 0, len(labels) - 1)
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
    look = {"type": "line", "y0": 0, "y1": 1, "line": {"color": "gray", "width": 1}}
    lines = [{**look, "x0": at, "x1": at} for at in range(len(names) + 1)]
    titles = [*(name.replace(".", ".<br>") for name in names), metric.replace("/", "/<br>")]
    ticks = {"tickvals": list(range(len(titles))), "ticktext": titles, "showgrid": False}
    return {
        "height": 420,
        "xaxis": charts.axis("", {**ticks, "range": [-0.3, len(names) + 0.3]}),
        "yaxis": {"visible": False, "range": [-0.12, 1.12]},
        "annotations": marks,
        "shapes": lines,
    }


def _labels(parameter: Parameter) -> list[tuple[float, str]]:
    if isinstance(parameter, CategoricalParameter):
        labels = [charts.words(label_of(choice)) for choice in parameter.choices]
        return [(_share(at, 0, len(labels) - 1), label) for at, label in enumerate(labels)]
    return [(0.0, setting_text(parameter.low)), (1.0, setting_text(parameter.high))]


def _mark(at: int, share: float, label: str) -> dict[str, Any]:
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


AXIS: Final = 70  # pixels between two axes of parallel coordinates at least
FEW_TICKS: Final = 3  # from which on an axis needs none between them
DIGITS: Final = ((1,), (1, 2, 5), (1, 2, 3, 5, 7), tuple(range(1, 10)))
"""of ticks on a logarithmic axis, from few ticks to many"""


def parameters_section(material: Material) -> Iterator[Html]:
    view, space, metric = material.view, material.view.study.space, material.view.metric
    if not finished(view):
        return
    for place, objective in enumerate(view.study.spec.objectives):
        measured = ped_anova.importances(view, place)
        if isinstance(measured, str):
            yield html.missing(f"{measured[0].upper()}{measured[1:]}.")
            continue
        yield html.paragraph(importance_sentence(measured, objective.metric))
        caption = reading(measured)
        yield html.figure(importance_chart(measured), f"importances-{place}", caption)
    if view.study.spec.population is not None:
        yield html.paragraph(
            "A trial of a population goes on from its parents, so its value says as much of them "
            "as of its own parameters."
        )
    yield html.heading("All parameters at once")
    yield html.figure(
        coordinates_chart(view, material.drawn),
        "coordinates",
        f"A line a finished trial, from end to end of each range, and last {metric}."
        f"{material.drawn_text}",
        width=AXIS * (1 + len(space.order)),
    )
    yield html.heading("One parameter at a time")
    yield html.paragraph(f"The star is {_star_text(material)}.{material.drawn_text}")
    drawn, best = material.drawn, material.best
    yield html.grid(
        html.figure(slice_chart(drawn, name, best), f"slice-{place}", f"{metric} by {name}")
        for place, name in enumerate(space.order)
    )


def _star_text(material: Material) -> str:
    if material.is_confirmed:
        return "the best of the confirmation, which need not have the best value in the search"
    if material.view.state.population.archive:
        return "the champion, by its strength in the last match, so others may have better values"
    return "the best trial"


def slice_chart(view: StudyView, name: str, best: Trial | None) -> Chart:
    metric, parameter = view.metric, view.study.space.parameters[name]
    trials = [trial for trial in finished(view) if name in trial.last_params]
    values = [trial.metrics[metric]["value"] for trial in trials]
    across: list[Any] = [view.settings(trial)[name] for trial in trials]
    if isinstance(parameter, CategoricalParameter):
        across = [charts.words(label_of(value)) for value in across]
    marker: dict[str, Any] = {"color": BLUE, "size": 6, "opacity": 0.85}
    points = charts.trial_points("finished", trials, across, values, marker)
    star = [at for at, trial in enumerate(trials) if best and trial.number == best.number]
    x, y = [across[at] for at in star], [values[at] for at in star]
    look = {"marker": {"color": VERMILLION, "symbol": "star", "size": 15}}
    axes = charts.axes(charts.axis(name, _scale(parameter, across)), "")
    layout = {"height": 260, "showlegend": False, **axes}
    return charts.chart([points, charts.scatter("markers", "best", x, y, look)], layout)


def _scale(parameter: Parameter, drawn: Sequence[Any]) -> dict[str, Any]:
    if isinstance(parameter, CategoricalParameter):
        return {"type": "category"}
    if not parameter.log:
        return {"type": "linear", "nticks": 5}
    ticks = log_ticks(min(drawn), max(drawn)) if drawn else []
    # Written out: between powers of ten plotly.js writes the first digit alone.
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:.3g}" for tick in ticks]}


def log_ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis between two positive numbers, as round as there are."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in DIGITS:
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= FEW_TICKS:
            return inside
    return sorted({low, *inside, high})
