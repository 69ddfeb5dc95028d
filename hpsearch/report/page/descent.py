"""A population: its ancestry, and the games of its last match."""

from collections.abc import Iterator, Sequence
from typing import Final

from hpsearch.analysis.candidates import Played
from hpsearch.analysis.lineage import (
    MAX_RELATIVES,
    Ancestry,
    Relative,
    made_texts,
    operator_text,
    strength_text,
)
from hpsearch.analysis.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart, Trace
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.report.text import population_lines, population_summary

MAX_NUMBERED: Final = 16  # players of a side up to which the cells of the matrix hold numbers
COLUMN: Final = 30  # pixels of a generation, or of a cell with a number
MIN_CELL: Final = 12  # pixels of a cell without one
OPERATORS: Final = (BLUE, GREEN, PURPLE, ORANGE, SKY)  # of children beside the champion's line


def population_section(material: Material) -> Iterator[Html]:
    if material.view.study.spec.population is None:
        return
    for line in population_lines(population_summary(material.view)):
        yield html.paragraph(f"{line[0].upper()}{line[1:]}.")
    yield html.heading("Ancestry")
    descent = material.descent
    if isinstance(descent, str) or not descent.relatives:
        yield html.missing(descent if isinstance(descent, str) else "No trial has finished yet.")
    else:
        newest, count = descent.newest(), len(descent.relatives)
        shown = (
            "Trials" if len(newest) == count else f"The newest {len(newest):,} of {count:,} trials"
        )
        yield html.figure(
            descent_chart(descent, newest),
            "descent",
            f"{shown} by how many matches came before them; lines of children by operator, first "
            "parents solid, others dotted; the champion's line thick.",
            width=90 + COLUMN * (1 + newest[-1].generation - newest[0].generation),
        )
        yield from _line(descent)
    yield html.heading("The last match")
    played = material.played
    if isinstance(played, str):
        yield html.missing(played)
        return
    yield html.figure(
        crossplay_chart(played),
        "crossplay",
        f"Rho of every host against every agent in match {played.match}, "
        f"{played.games:,} games per pair; high is a strong host, low a strong agent.",
        width=160 + (COLUMN if _is_numbered(played) else MIN_CELL) * len(played.agents),
    )


def _line(descent: Ancestry) -> Iterator[Html]:
    line = descent.champions_line()[-MAX_RELATIVES:]
    if not line:
        return
    made = zip(line, made_texts(line), strict=True)
    rows = ((str(relative.trial), str(relative.generation), *how) for relative, how in made)
    header = ("trial", "matches before", "made by", "strength", "changes")
    yield html.folded("The champion's line", html.table(header, rows))


def descent_chart(descent: Ancestry, relatives: Sequence[Relative]) -> Chart:
    """Return some of the trials, by generation, from left to right, members one below the other."""
    first = relatives[0].generation
    line = [relative for relative in descent.champions_line() if relative.generation >= first]
    look = {"hoverinfo": "skip", "line": {"color": VERMILLION, "width": 4}, "opacity": 0.6}
    champions = charts.scatter("lines", "the champion's line", *_places(line), look)
    data = [*_edges(descent, relatives), champions, _trials(relatives, line)]
    members = 1 + max(relative.member for relative in relatives)
    has_room = max(relative.generation for relative in relatives) <= charts.MAX_TICKS
    across = {"showgrid": False, **({"dtick": 1} if has_room else {})}
    upright = {"autorange": "reversed", "dtick": 1, "showgrid": False}
    axes = charts.axes(charts.axis("matches before", across), charts.axis("member", upright))
    return charts.chart(data, {"height": max(260, 130 + 38 * members), **axes})


def _edges(descent: Ancestry, relatives: Sequence[Relative]) -> Iterator[Trace]:
    groups: dict[tuple[str, bool], list[list[tuple[int, int]]]] = {}
    for relative, parent, position in descent.edges(relatives):
        name = relative.operator if relative.is_child else "goes on"
        ends = [(parent.generation, parent.member), (relative.generation, relative.member)]
        groups.setdefault((name, position == 0), []).append(ends)
    operators = sorted({name for name, _ in groups} - {"goes on"})
    for (name, is_first), lines in sorted(groups.items()):
        colour = charts.QUIET
        if name != "goes on":
            colour = OPERATORS[operators.index(name) % len(OPERATORS)]
        look = {"color": colour, "width": 1.4, "dash": "solid" if is_first else "dot"}
        title = name if is_first else f"{name}, other parent"
        more = {"hoverinfo": "skip", "line": look}
        yield charts.scatter("lines", title, *charts.shared_lines(lines), more)


def _trials(relatives: Sequence[Relative], line: Sequence[Relative]) -> Trace:
    in_line = {relative.trial for relative in line}
    marked = [relative.trial in in_line for relative in relatives]
    more = {
        "showlegend": False,
        "text": [str(relative.trial) for relative in relatives],
        "textfont": {"size": 9, "color": "#ffffff"},
        "customdata": [[operator_text(trial), strength_text(trial)] for trial in relatives],
        "hovertemplate": (
            "trial %{text}<br>%{customdata[0]}<br>strength %{customdata[1]}<extra></extra>"
        ),
        "marker": {
            "size": 18,
            "color": [VERMILLION if is_marked else BLUE for is_marked in marked],
            "symbol": ["square" if is_marked else "circle" for is_marked in marked],
        },
    }
    return charts.scatter("markers+text", "trials", *_places(relatives), more)


def _places(relatives: Sequence[Relative]) -> tuple[list[int], list[int]]:
    return [relative.generation for relative in relatives], [r.member for r in relatives]


def crossplay_chart(played: Played) -> Chart:
    """Return rho as a matrix: a row a host, a column an agent."""
    rows = len(played.hosts)
    heat = {
        "type": "heatmap",
        "x": [f"agent {name}" for name in played.agents],
        "y": [f"host {name}" for name in played.hosts],
        "z": played.rho.tolist(),
        "colorscale": charts.SCALE,
        "colorbar": {"title": {"text": "rho"}, "thickness": 12},
        "hovertemplate": "%{y}, %{x}: rho %{z:.4f}<extra></extra>",
    }
    if _is_numbered(played):
        heat |= {"texttemplate": "%{z:.2f}", "textfont": {"size": 9}}
    across = charts.axis("", {"type": "category", "tickangle": -60})
    upright = charts.axis("", {"type": "category", "autorange": "reversed"})
    height = 170 + max(MIN_CELL, min(COLUMN, 600 // rows)) * rows
    return charts.chart([heat], {"height": height, **charts.axes(across, upright)})


def _is_numbered(played: Played) -> bool:
    return max(len(played.hosts), len(played.agents)) <= MAX_NUMBERED
