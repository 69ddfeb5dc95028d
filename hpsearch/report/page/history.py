"""How the search went: each trial's value as it ended, and the best so far."""

from collections.abc import Iterator, Sequence

from hpsearch.report.colours import BLUE, GREEN, VERMILLION
from hpsearch.report.objectives import finished
from hpsearch.report.page.charts import Chart, axis, chart, intervals
from hpsearch.report.page.html import Html, Section, figure, join
from hpsearch.report.page.material import Material
from hpsearch.report.page.strengths import strength_chart
from hpsearch.report.view import StudyView
from hpsearch.study.records import FAIL, PRUNED
from hpsearch.study.spec import Objective


def history_section(material: Material) -> Section | None:
    """Return the section on how the search went; None where nothing has finished."""
    parts = list(_parts(material.view))
    return Section("history", "How the search went", join(parts)) if parts else None


def _parts(view: StudyView) -> Iterator[Html]:
    if view.study.spec.population is not None and any(
        match.is_over for match in view.state.population.matches.values()
    ):
        yield figure(
            strength_chart(view),
            "strengths",
            "Strength of the members in each match: the mean logarithm of rho over all opponents, "
            "who change from match to match; 95 % intervals, the champion's place bold.",
        )
    if not finished(view):
        return
    for place, objective in enumerate(view.study.spec.objectives):
        yield figure(
            history_chart(view, objective),
            f"history-{place}",
            f"{objective.metric} of each finished trial with its 95 % interval, in the order of "
            f"asking; the line is the best so far{_by_value(view)}. Marks below: pruned and failed "
            "trials.",
        )


def _by_value(view: StudyView) -> str:
    """Return what sets the best apart from a champion, where there is one."""
    if not view.state.population.archive:
        return ""
    return " by value, while the champion is chosen by strength"


def history_chart(view: StudyView, objective: Objective) -> Chart:
    """Return the values of one objective by trial."""
    trials = finished(view)
    numbers = [trial.number for trial in trials]
    found = [trial.metrics[objective.metric] for trial in trials]
    values = [one["value"] for one in found]
    measured = {
        "type": "scatter",
        "mode": "markers",
        "name": "finished",
        "x": numbers,
        "y": values,
        "text": [f"trial {number}" for number in numbers],
        "error_y": {
            **intervals(values, [one["low"] for one in found], [one["high"] for one in found]),
            "color": "rgba(128,128,128,0.5)",
        },
        "marker": {"color": BLUE, "size": 6},
    }
    best = {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": numbers,
        "y": best_so_far(values, objective.goal),
        "line": {"color": VERMILLION, "width": 2, "shape": "hv"},
    }
    return chart(
        [measured, best, *_marks(view)],
        {
            "xaxis": axis("trial", {}),
            "yaxis": axis(objective.metric, {}),
            "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False},
        },
    )


def best_so_far(values: Sequence[float], goal: str) -> list[float]:
    """Return the best of the values up to each one."""
    choose = max if goal == "maximize" else min
    found: list[float] = []
    for value in values:
        found.append(value if not found else choose(found[-1], value))
    return found


def _marks(view: StudyView) -> Iterator[dict[str, object]]:
    """Yield where trials ended without a value, along the lower edge."""
    kinds = ((PRUNED, GREEN, "line-ns-open", 0.02), (FAIL, VERMILLION, "x-thin-open", 0.05))
    for how, colour, symbol, height in kinds:
        numbers = [trial.number for trial in view.state.told(how)]
        if numbers:
            yield {
                "type": "scatter",
                "mode": "markers",
                "name": how,
                "x": numbers,
                "y": [height] * len(numbers),
                "yaxis": "y2",
                "text": [f"trial {number}" for number in numbers],
                "hovertemplate": "trial %{x}<extra></extra>",
                "marker": {"color": colour, "symbol": symbol, "size": 8},
            }
