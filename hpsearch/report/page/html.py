"""The pieces that a page is made of. Whatever comes from outside is escaped here.

What all charts have in common: colours that the colour-blind can tell apart, axes, legends.

A chart is what plotly.js draws: `data`, a list of traces, and `layout`. Colours of text are left to
the page, which knows whether its background is light or dark.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final, NewType

from hpsearch.analysis.pictures import COLOURS

Chart = dict[str, Any]
Trace = dict[str, Any]

SYMBOLS: Final = ("circle", "diamond", "square", "triangle-up", "x", "cross")
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""so that nothing is told by colour alone"""
QUIET: Final = "rgba(128,128,128,0.45)"
GRID: Final = "rgba(128,128,128,0.25)"
SCALE: Final = "Cividis"
"""from dark to bright, told apart also without red or green and in grey"""
STANDOFF: Final = 6
"""pixels between an axis's title and the labels of its ticks"""
HEIGHT: Final = 380
"""pixels"""
OVER: Final = {"fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.8)", "size": 6}
"""how a pattern lies on its colour"""
MAX_TICKS: Final = 20
"""matches up to which each has a tick"""
MANY: Final = 200
"""lines of one chart from which on they are drawn thinner"""


def chart(data: Sequence[Trace], layout: Mapping[str, Any]) -> Chart:
    has_legend = sum(trace.get("showlegend", True) for trace in data) > 1
    has_legend = bool(layout.get("showlegend", has_legend))
    common = {
        "height": HEIGHT,
        "margin": {"l": 52, "r": 14, "t": 34 if has_legend else 10, "b": 54},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "font": {"size": 12},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "showlegend": has_legend,
    }
    return {"data": list(data), "layout": {**common, **layout}}


def axis(title: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return an axis; ``more`` are further keys of it."""
    return {
        "title": {"text": title, "standoff": STANDOFF},
        "automargin": True,
        "gridcolor": GRID,
        "zeroline": False,
        "exponentformat": "e",
        **more,
    }


def thinner(width: float, num_lines: int) -> float:
    """Return the width of a line among many, so that they leave room for one another."""
    return width * max(0.3, min(1.0, MANY / max(1, num_lines)))


def colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def symbol(place: int) -> str:
    return SYMBOLS[place % len(SYMBOLS)]


def dash(place: int) -> str:
    return DASHES[place // len(COLOURS) % len(DASHES)]


def band(x: Sequence[float], low: Sequence[float], high: Sequence[float], fill: str) -> Trace:
    """Return the area between two curves over ``x``, in a colour of `COLOURS`."""
    return {
        "type": "scatter",
        "x": [*x, *reversed(x)],
        "y": [*low, *reversed(high)],
        "fill": "toself",
        "fillcolor": transparent(fill),
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def transparent(hexadecimal: str) -> str:
    red, green, blue = (int(hexadecimal[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def intervals(
    values: Sequence[float], low: Sequence[float], high: Sequence[float]
) -> dict[str, Any]:
    """Return the error bars of ``values`` whose intervals end at ``low`` and ``high``."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [end - value for value, end in zip(values, high, strict=True)],
        "arrayminus": [value - end for value, end in zip(values, low, strict=True)],
        "thickness": 1.2,
        "width": 3,
    }


def shared_lines(lines: Sequence[Sequence[tuple[Any, Any]]]) -> tuple[list[Any], list[Any]]:
    """Return x and y of one trace that draws many lines, with a gap after each."""
    x: list[Any] = []
    y: list[Any] = []
    for line in lines:
        x += [*(point[0] for point in line), None]
        y += [*(point[1] for point in line), None]
    return x, y


def words(content: object) -> str:
    """Return plain text for a chart, where plotly.js would read tags."""
    return str(content).replace("&", "&amp;").replace("<", "&lt;")


Html = NewType("Html", str)
"""text in which nothing is left to escape"""


@dataclass(frozen=True)
class Section:
    anchor: str
    """unique on the page"""
    title: str
    body: Html


def text(content: object) -> Html:
    return Html(escape(str(content)))


def join(parts: Iterable[Html]) -> Html:
    return Html("\n".join(parts))


def paragraph(content: str) -> Html:
    return Html(f"<p>{text(content)}</p>")


def missing(content: str) -> Html:
    """Return the sentence that stands where something could have stood."""
    return Html(f'<p class="missing">{text(content)}</p>')


def heading(content: str) -> Html:
    """Return a heading below that of a section."""
    return Html(f"<h3>{text(content)}</h3>")


def code(content: str) -> Html:
    return Html(f"<pre>{text(content)}</pre>")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, strong: int | None) -> Html:
    """Return a table of plain text, numbers to the right.

    Args:
        header: names of the columns; the first one holds names.
        rows: cells as many as columns.
        strong: the row to bring out, counted from 0; None for none.
    """
    names = "".join(f'<th scope="col">{text(name)}</th>' for name in header)
    lines = (_row(cells, is_strong=at == strong) for at, cells in enumerate(rows))
    return Html(
        '<div class="scroll"><table>\n'
        f"<thead><tr>{names}</tr></thead>\n<tbody>\n{join(lines)}\n</tbody></table></div>"
    )


def _row(cells: Sequence[str], *, is_strong: bool) -> Html:
    first, *others = cells
    mark = ' class="strong"' if is_strong else ""
    inside = "".join(f"<td>{text(cell)}</td>" for cell in others)
    return Html(f'<tr{mark}><th scope="row">{text(first)}</th>{inside}</tr>')


def folded(title: str, body: Html, *, is_open: bool) -> Html:
    how = " open" if is_open else ""
    return Html(f"<details{how}><summary>{text(title)}</summary>\n{body}\n</details>")


def grid(parts: Iterable[Html]) -> Html:
    return Html(f'<div class="grid">\n{join(parts)}\n</div>')


def beside(parts: Iterable[Html]) -> Html:
    """Return pieces beside one another, each as wide as it is, where there is room for that."""
    boxes = join(Html(f"<div>{part}</div>") for part in parts)
    return Html(f'<div class="beside">\n{boxes}\n</div>')


def figure(chart: Chart, anchor: str, caption: str) -> Html:
    """Return a chart with what it shows below it; ``anchor`` is unique on the page."""
    return wide_figure(chart, anchor, caption, 0)


def wide_figure(chart: Chart, anchor: str, caption: str, width: int) -> Html:
    """Return the same of a chart that is at least ``width`` pixels wide, and moves where it must.

    On paper it is as wide as the paper.
    """
    # Within a script only "<" could end it, and JSON may write it otherwise.
    data = json.dumps(chart, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return Html(
        f'<figure class="chart"><div class="scroll"><div class="plot" id="{text(anchor)}" '
        f'role="img" aria-label="{text(caption)}" '
        f'style="height:{chart["layout"]["height"]}px;min-width:{width}px"></div></div>\n'
        f'<script type="application/json" data-for="{text(anchor)}">{data}</script>\n'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )
