"""A population: its ancestry, and the games of its last match."""

from collections.abc import Iterator
from typing import Final

from hpsearch.analysis.candidates import Played
from hpsearch.analysis.lineage import Ancestry, Relative, changed_names, changes_text, operator_text
from hpsearch.analysis.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from hpsearch.report.page.html import (
    MAX_TICKS,
    QUIET,
    SCALE,
    Chart,
    Html,
    Section,
    Trace,
    axis,
    chart,
    folded,
    heading,
    join,
    missing,
    paragraph,
    shared_lines,
    table,
    wide_figure,
)
from hpsearch.report.page.material import Material
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
    yield heading("Ancestry")
    descent = material.descent
    if isinstance(descent, str) or not descent.relatives:
        yield missing(descent if isinstance(descent, str) else "No trial has finished yet.")
    else:
        generations = 1 + max(relative.generation for relative in descent.relatives.values())
        yield wide_figure(
            descent_chart(descent),
            "descent",
            "Trials by how many matches came before them; lines of children by operator, first "
            "parents solid, others dotted; the champion's line thick.",
            90 + COLUMN * generations,
        )
        yield from _line(descent)
    yield heading("The last match")
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


def _line(descent: Ancestry) -> Iterator[Html]:
    line = _champions(descent)
    if not line:
        return
    names = changed_names(line)
    rows = [
        (
            str(relative.trial),
            str(relative.generation),
            operator_text(relative),
            _strength(relative),
            changes_text(relative.changes, names),
        )
        for relative in line
    ]
    header = ("trial", "matches before", "made by", "strength", "changes")
    yield folded("The champion's line", table(header, rows, strong=None), is_open=False)


def _champions(descent: Ancestry) -> list[Relative]:
    """Return the line that led to the champion, empty where there is none yet."""
    if descent.champion is None or descent.champion not in descent.relatives:
        return []
    return descent.line(descent.champion)


def _strength(relative: Relative) -> str:
    return "" if relative.strength is None else f"{relative.strength:+.3f}"


def descent_chart(descent: Ancestry) -> Chart:
    """Return members from left to right, their places one below the other."""
    relatives = list(descent.relatives.values())
    line = [champion.trial for champion in _champions(descent)]
    data = [*_edges(descent), _champion_line(descent, line), _trials(relatives, set(line))]
    members = 1 + max(relative.member for relative in relatives)
    has_room = max(relative.generation for relative in relatives) <= MAX_TICKS
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


def _edges(descent: Ancestry) -> Iterator[Trace]:
    """Yield the lines from parents to children, one trace for each way in which they are made."""
    groups: dict[tuple[str, bool], list[list[tuple[int, int]]]] = {}
    for relative in descent.relatives.values():
        for position, number in enumerate(relative.parents):
            parent = descent.relatives.get(number)
            if parent is not None:
                name = relative.operator if relative.is_child else "goes on"
                ends = [(parent.generation, parent.member), (relative.generation, relative.member)]
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


def _champion_line(descent: Ancestry, line: list[int]) -> Trace:
    own = [descent.relatives[trial] for trial in line if trial in descent.relatives]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "the champion's line",
        "x": [relative.generation for relative in own],
        "y": [relative.member for relative in own],
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
        "x": [relative.generation for relative in relatives],
        "y": [relative.member for relative in relatives],
        "text": [str(relative.trial) for relative in relatives],
        "textfont": {"size": 9, "color": "#ffffff"},
        "customdata": [[operator_text(relative), _strength(relative)] for relative in relatives],
        "hovertemplate": (
            "trial %{text}<br>%{customdata[0]}<br>strength %{customdata[1]}<extra></extra>"
        ),
        "marker": {
            "size": 18,
            "color": [VERMILLION if relative.trial in line else BLUE for relative in relatives],
            "symbol": ["square" if relative.trial in line else "circle" for relative in relatives],
        },
    }


def crossplay_chart(played: Played) -> Chart:
    rows = len(played.hosts)
    heat = {
        "type": "heatmap",
        "x": [f"agent {name}" for name in played.agents],
        "y": [f"host {name}" for name in played.hosts],
        "z": played.rho.tolist(),
        "colorscale": SCALE,
        "colorbar": {"title": {"text": "rho"}, "thickness": 12},
        "hovertemplate": "%{y}, %{x}: rho %{z:.4f}<extra></extra>",
    }
    if _is_numbered(played):
        heat |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 9}}
    layout = {
        "height": 170 + max(MIN_CELL, min(COLUMN, 600 // rows)) * rows,
        "xaxis": axis("", {"type": "category", "tickangle": -60}),
        "yaxis": axis("", {"type": "category", "autorange": "reversed"}),
    }
    return chart([heat], layout)


def _is_numbered(played: Played) -> bool:
    return max(len(played.hosts), len(played.agents)) <= MAX_NUMBERED
