"""A population: who descends from whom, and who beat whom in the last match."""

from collections.abc import Iterator
from typing import Final

from hpsearch.report.colours import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from hpsearch.report.lineage import Descent, Relative
from hpsearch.report.lineage_text import changed_names, changes_text, operator_text
from hpsearch.report.page.charts import (
    MAX_TICKS,
    QUIET,
    SCALE,
    Chart,
    Trace,
    axis,
    chart,
    shared_lines,
)
from hpsearch.report.page.html import (
    Html,
    Section,
    folded,
    heading,
    join,
    missing,
    paragraph,
    table,
    wide_figure,
)
from hpsearch.report.page.material import Material
from hpsearch.report.played import Played
from hpsearch.report.summary import population_summary
from hpsearch.report.text import population_lines

MAX_NUMBERED: Final = 16
"""players of a side up to which the cells of the matrix hold numbers"""
COLUMN: Final = 30
"""pixels of a generation, or of a cell with a number"""
MIN_CELL: Final = 12
"""pixels of a cell without one"""
OPERATORS: Final = (BLUE, GREEN, PURPLE, ORANGE, SKY)
"""colours of children, all but the one of the champion's line"""


def descent_section(material: Material) -> Section | None:
    """Return the section on the population; None for a search."""
    if material.view.study.spec.population is None:
        return None
    return Section("population", "Descent and cross-play", join(_parts(material)))


def _parts(material: Material) -> Iterator[Html]:
    for line in population_lines(population_summary(material.view)):
        yield paragraph(f"{line[0].upper()}{line[1:]}.")
    yield heading("Who descends from whom")
    found = material.descent
    if isinstance(found, str) or not found.relatives:
        yield missing(found if isinstance(found, str) else "No trial has finished yet.")
    else:
        generations = 1 + max(one.generation for one in found.relatives.values())
        yield wide_figure(
            descent_chart(found),
            "descent",
            "Trials by how many matches came before them; lines of children by operator, first "
            "parents solid, others dotted; the champion's line thick.",
            90 + COLUMN * generations,
        )
        yield from _line(found)
    yield heading("Who beat whom")
    if isinstance(material.played, str):
        yield missing(material.played)
    else:
        yield wide_figure(
            crossplay_chart(material.played),
            "crossplay",
            f"Rho of every host against every agent in match {material.played.match}, "
            f"{material.played.games:,} games a pair; high is a strong host, low a strong agent.",
            160
            + (COLUMN if _is_numbered(material.played) else MIN_CELL) * len(material.played.agents),
        )


def _line(found: Descent) -> Iterator[Html]:
    line = _champions(found)
    if not line:
        return
    names = changed_names(line)
    rows = [
        (
            str(one.trial),
            str(one.generation),
            operator_text(one),
            _strength(one),
            changes_text(one.changes, names),
        )
        for one in line
    ]
    header = ("trial", "matches before", "made by", "strength", "changes")
    yield folded("The champion's line", table(header, rows, strong=None), is_open=False)


def _champions(found: Descent) -> list[Relative]:
    """Return the line that led to the champion, nobody where there is none yet."""
    if found.champion is None or found.champion not in found.relatives:
        return []
    return found.line(found.champion)


def _strength(one: Relative) -> str:
    return "" if one.strength is None else f"{one.strength:+.3f}"


def descent_chart(found: Descent) -> Chart:
    """Return members from left to right, their places one below the other."""
    relatives = list(found.relatives.values())
    line = [one.trial for one in _champions(found)]
    data = [*_edges(found), _champion_line(found, line), _trials(relatives, set(line))]
    members = 1 + max(one.member for one in relatives)
    has_room = max(one.generation for one in relatives) <= MAX_TICKS
    across = {"showgrid": False, **({"dtick": 1} if has_room else {})}
    upright = {"autorange": "reversed", "dtick": 1, "showgrid": False}
    return chart(
        data,
        {
            "height": max(260, 130 + 38 * members),
            "xaxis": axis("matches before", across),
            "yaxis": axis("member", upright),
        },
    )


def _edges(found: Descent) -> Iterator[Trace]:
    """Yield the lines from parents to children, one trace for each way in which they are made."""
    groups: dict[tuple[str, bool], list[list[tuple[int, int]]]] = {}
    for one in found.relatives.values():
        for position, number in enumerate(one.parents):
            parent = found.relatives.get(number)
            if parent is not None:
                name = one.operator if one.is_child else "goes on"
                ends = [(parent.generation, parent.member), (one.generation, one.member)]
                groups.setdefault((name, position == 0), []).append(ends)
    operators = sorted({name for name, _ in groups} - {"goes on"})
    for (name, is_first), lines in sorted(groups.items()):
        x, y = shared_lines(lines)
        drawn = QUIET if name == "goes on" else _colour(operators.index(name))
        yield {
            "type": "scatter",
            "mode": "lines",
            "name": name if is_first else f"{name}, other parent",
            "x": x,
            "y": y,
            "hoverinfo": "skip",
            "line": {"color": drawn, "width": 1.4, "dash": "solid" if is_first else "dot"},
        }


def _colour(place: int) -> str:
    return OPERATORS[place % len(OPERATORS)]


def _champion_line(found: Descent, line: list[int]) -> Trace:
    own = [found.relatives[trial] for trial in line if trial in found.relatives]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "the champion's line",
        "x": [one.generation for one in own],
        "y": [one.member for one in own],
        "hoverinfo": "skip",
        "line": {"color": VERMILLION, "width": 4},
        "opacity": 0.6,
    }


def _trials(relatives: list[Relative], line: set[int]) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "trials",
        "showlegend": False,
        "x": [one.generation for one in relatives],
        "y": [one.member for one in relatives],
        "text": [str(one.trial) for one in relatives],
        "textfont": {"size": 9, "color": "#ffffff"},
        "customdata": [[operator_text(one), _strength(one)] for one in relatives],
        "hovertemplate": (
            "trial %{text}<br>%{customdata[0]}<br>strength %{customdata[1]}<extra></extra>"
        ),
        "marker": {
            "size": 18,
            "color": [VERMILLION if one.trial in line else BLUE for one in relatives],
            "symbol": ["square" if one.trial in line else "circle" for one in relatives],
        },
    }


def crossplay_chart(found: Played) -> Chart:
    """Return the matrix of rho: a row a host, a column an agent."""
    rows = len(found.hosts)
    heat = {
        "type": "heatmap",
        "x": [f"agent {name}" for name in found.agents],
        "y": [f"host {name}" for name in found.hosts],
        "z": found.rho.tolist(),
        "colorscale": SCALE,
        "colorbar": {"title": {"text": "rho"}, "thickness": 12},
        "hovertemplate": "%{y}, %{x}: rho %{z:.4f}<extra></extra>",
    }
    if _is_numbered(found):
        heat |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 9}}
    layout = {
        "height": 170 + max(MIN_CELL, min(COLUMN, 600 // rows)) * rows,
        "xaxis": axis("", {"type": "category", "tickangle": -60}),
        "yaxis": axis("", {"type": "category", "autorange": "reversed"}),
    }
    return chart([heat], layout)


def _is_numbered(found: Played) -> bool:
    """Return whether there is room for a number in every cell."""
    return max(len(found.hosts), len(found.agents)) <= MAX_NUMBERED
