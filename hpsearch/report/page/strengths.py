"""How the members of a population stood in each match."""

from hpsearch.report.page.charts import (
    MAX_TICKS,
    Chart,
    Trace,
    axis,
    chart,
    colour,
    dash,
    intervals,
    symbol,
)
from hpsearch.report.view import StudyView


def strength_chart(view: StudyView) -> Chart:
    """Return the strength of each member by match, with intervals."""
    judged = [match for match in view.state.population.matches.values() if match.is_over]
    members = sorted({member for match in judged for member in match.members})
    last = judged[-1]
    champion = next((m for m, trial in last.members.items() if trial == last.champion), None)
    data: list[Trace] = []
    for place, member in enumerate(members):
        played = [match for match in judged if member in match.members]
        trials = [match.members[member] for match in played]
        values = [match.strengths[t] for match, t in zip(played, trials, strict=True)]
        ends = [match.intervals[t] for match, t in zip(played, trials, strict=True)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"member {member}",
                "x": [match.number for match in played],
                "y": values,
                "text": [f"trial {trial}" for trial in trials],
                "error_y": intervals(values, [e[0] for e in ends], [e[1] for e in ends]),
                "line": {
                    "color": colour(place),
                    "dash": dash(place),
                    "width": 3.5 if member == champion else 1.2,
                },
                "marker": {"symbol": symbol(place), "size": 6},
            }
        )
    return chart(
        data,
        {
            "xaxis": axis("match", {"dtick": 1} if len(judged) <= MAX_TICKS else {}),
            "yaxis": axis("strength", {}),
        },
    )
