"""What our figures in the dashboard have in common."""

from collections.abc import Iterable, Mapping
from typing import Any

Figure = dict[str, Any]


def figure(data: Iterable[Mapping[str, Any]], title: str, x: str, y: str) -> Figure:
    """Return a figure of traces, with titles of its own and of its axes."""
    layout = {
        "title": {"text": title, "font": {"size": 13}, "x": 0.0},
        "xaxis": {"title": {"text": x}, "automargin": True},
        "yaxis": {"title": {"text": y}, "automargin": True},
        "margin": {"t": 64, "r": 16},
        "hovermode": "closest",
    }
    return {"data": list(data), "layout": layout}


def short(value: float) -> float:
    """Return a number in four digits, which is all that can be seen."""
    return float(f"{value:.4g}")
