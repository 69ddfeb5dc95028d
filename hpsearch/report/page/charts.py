"""What all charts have in common: colours that the colour-blind can tell apart, axes, legends.

A chart is what plotly.js draws: `data`, a list of traces, and `layout`. Colours of text are left to
the page, which knows whether its background is light or dark.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hpsearch.analysis.pictures import COLOURS
from hpsearch.study.records import Trial

Chart = dict[str, Any]
Trace = dict[str, Any]
Axis = dict[str, Any]
Look = Mapping[str, Any]
Numbers = Sequence[float]

SYMBOLS: Final = ("circle", "diamond", "square", "triangle-up", "x", "cross")
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""so that nothing is told by colour alone"""
QUIET: Final = "rgba(128,128,128,0.45)"
GRID: Final = "rgba(128,128,128,0.25)"
SCALE: Final = "Cividis"  # from dark to bright, told apart also without red or green and in grey
OVER: Final = {"fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.8)", "size": 6}
"""how a pattern lies on its colour"""
MAX_TICKS: Final = 20  # matches up to which each has a tick
MANY: Final = 200  # lines of one chart from which on they are drawn thinner


def chart(data: Sequence[Trace], layout: Look) -> Chart:
    has_several = sum(trace.get("showlegend", True) for trace in data) > 1
    has_legend = layout.get("showlegend", has_several)
    common = {
        "height": 380,
        "margin": {"l": 52, "r": 14, "t": 34 if has_legend else 10, "b": 54},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "font": {"size": 12},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "showlegend": has_legend,
    }
    return {"data": list(data), "layout": {**common, **layout}}


def axis(title: str, more: Look) -> Axis:
    return {
        "title": {"text": title, "standoff": 6},
        "automargin": True,
        "gridcolor": GRID,
        "zeroline": False,
        "exponentformat": "e",
        **more,
    }


def axes(x: str | Axis, y: str | Axis) -> dict[str, Axis]:
    """Return both axes, each of which is given as a whole or by its title."""
    return {
        "xaxis": axis(x, {}) if isinstance(x, str) else x,
        "yaxis": axis(y, {}) if isinstance(y, str) else y,
    }


def category_axis(names: Sequence[str]) -> Axis:
    return axis("", {"categoryorder": "array", "categoryarray": list(names)[::-1]})


def scatter(mode: str, name: str, x: Iterable[Any], y: Iterable[Any], more: Look) -> Trace:
    return {"type": "scatter", "mode": mode, "name": name, "x": list(x), "y": list(y), **more}


def trial_points(
    name: str, trials: Iterable[Trial], x: Iterable[Any], y: Iterable[float], marker: Look
) -> Trace:
    """Return a point a trial; a click on it leads to the trial's row."""
    return scatter("markers", name, x, y, trial_texts(trials) | {"marker": marker})


def flat_bars(name: str, x: Iterable[float], y: Iterable[str], more: Look) -> Trace:
    return {"type": "bar", "orientation": "h", "name": name, "x": list(x), "y": list(y), **more}


def trial_texts(trials: Iterable[Trial]) -> dict[str, list[str]]:
    """Return what a trace says of each point: its trial, by which the page finds the row."""
    return {"text": [f"trial {trial.number}" for trial in trials]}


def colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def symbol(place: int) -> str:
    return SYMBOLS[place % len(SYMBOLS)]


def line(place: int, width: float) -> dict[str, Any]:
    """Return the style of line number ``place``; others have another colour or other dashes."""
    dash = DASHES[place // len(COLOURS) % len(DASHES)]
    return {"color": colour(place), "dash": dash, "width": width}


def thinner(width: float, num_lines: int) -> float:
    """Return the width of a line among many, so that they leave room for one another."""
    return width * max(0.3, min(1.0, MANY / max(1, num_lines)))


def band(x: Numbers, low: Numbers, high: Numbers, fill: str) -> Trace:
    """Return the area between two curves over ``x``, in a colour of `COLOURS`."""
    red, green, blue = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return {
        "type": "scatter",
        "x": [*x, *reversed(x)],
        "y": [*low, *reversed(high)],
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},0.2)",
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def intervals(values: Numbers, low: Numbers, high: Numbers) -> dict[str, Any]:
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
    points = [point for line in lines for point in (*line, (None, None))]
    return [x for x, _ in points], [y for _, y in points]


def words(content: object) -> str:
    """Return plain text for a chart, where plotly.js would read tags."""
    return str(content).replace("&", "&amp;").replace("<", "&lt;")
