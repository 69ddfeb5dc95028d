"""Learning curves: of the best trials, of all others behind them, and over seeds."""

from collections.abc import Iterator, Sequence
from typing import Final

from hpsearch.report.page.charts import (
    QUIET,
    Chart,
    Trace,
    axis,
    band,
    chart,
    colour,
    dash,
    shared_lines,
    thinner,
)
from hpsearch.report.page.html import Html, Section, figure, join
from hpsearch.report.page.learning import Curve, Seeds
from hpsearch.report.page.material import Material
from hpsearch.report.view import StudyView

MAX_OTHERS: Final = 1000
"""curves behind the best, of the newest trials: more would be one grey area"""


def curves_section(material: Material) -> Section | None:
    """Return the section on learning; None where nothing was measured while it trained."""
    parts = list(_parts(material))
    return Section("learning", "How they learned", join(parts)) if parts else None


def _parts(material: Material) -> Iterator[Html]:
    view, learning = material.view, material.learning
    metric = view.study.spec.objectives[0].metric
    if learning.best or any(trial.reported for trial in view.state.trials.values()):
        yield figure(curves_chart(view, learning.best), "curves", _caption(material, metric))
    if isinstance(learning.seeds, str):
        return
    yield figure(
        seeds_chart(learning.seeds, metric),
        "curves-seeds",
        f"{metric} of the confirmed configurations, each trained on several seeds that the search "
        "never used: the mean over seeds, and a band from the lowest to the highest of them.",
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


def curves_chart(view: StudyView, best: Sequence[Curve]) -> Chart:
    """Return the best curves with bands, and all others as one quiet trace."""
    shown = {curve.trial for curve in best}
    others = [
        sorted(trial.reported.items())
        for trial in view.state.trials.values()
        if trial.number not in shown and trial.reported
    ][-MAX_OTHERS:]
    data: list[Trace] = []
    if others:
        x, y = shared_lines(others)
        quiet = {"type": "scatter", "mode": "lines", "name": "all others", "x": x, "y": y}
        data.append(
            {
                **quiet,
                "line": {"color": QUIET, "width": thinner(1.0, len(others))},
                "hoverinfo": "skip",
            }
        )
    for place, curve in enumerate(best):
        data.append(band(curve.steps, curve.low, curve.high, colour(place)))
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"trial {curve.trial}",
                "x": list(curve.steps),
                "y": list(curve.values),
                "line": {"color": colour(place), "dash": dash(place), "width": 2},
                "marker": {"size": 4},
            }
        )
    metric = view.study.spec.objectives[0].metric
    return chart(data, {"xaxis": axis("step", {}), "yaxis": axis(metric, {})})


def seeds_chart(seeds: Sequence[Seeds], metric: str) -> Chart:
    """Return the mean over seeds of each configuration, with a band from lowest to highest."""
    data: list[Trace] = []
    for place, one in enumerate(seeds):
        steps, low, mean, high = over_seeds(one.curves)
        data.append(band(steps, low, high, colour(place)))
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"trial {one.trial}, {len(one.curves)} seeds",
                "x": steps,
                "y": mean,
                "line": {"color": colour(place), "dash": dash(place), "width": 2},
            }
        )
    return chart(data, {"xaxis": axis("step", {}), "yaxis": axis(metric, {})})


def over_seeds(
    curves: Sequence[Curve],
) -> tuple[list[int], list[float], list[float], list[float]]:
    """Return steps, lowest, mean and highest value, at the steps that all curves have."""
    of_each = [dict(zip(curve.steps, curve.values, strict=True)) for curve in curves]
    steps = sorted(set.intersection(*(set(one) for one in of_each)))
    at_steps = [[one[step] for one in of_each] for step in steps]
    means = [sum(values) / len(values) for values in at_steps]
    return steps, [min(values) for values in at_steps], means, [max(values) for values in at_steps]
