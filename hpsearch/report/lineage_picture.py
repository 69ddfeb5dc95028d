"""Descent as a picture: members from left to right, their places one below the other."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpsearch.report.colours import BLACK, COLOURS
from hpsearch.report.lineage import Descent, Relative
from hpsearch.report.picture_files import drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ON_PAPER: Final = (*COLOURS, BLACK)
QUIET: Final = "#BBBBBB"
CELL: Final = (0.55, 0.42)
"""inches of a generation, of a member"""
MARGIN: Final = (2.6, 1.4)
MIN_SIZE: Final = (6.0, 3.0)


def write_lineage(found: Descent, path: Path) -> None:
    """Draw who descends from whom and replace the file at ``path``, whose suffix is in PICTURES.

    Raises:
        OSError: if the file cannot be written; the old one stays.
    """
    relatives = list(found.relatives.values())
    generations = max((one.generation for one in relatives), default=0) + 1
    members = max((one.member for one in relatives), default=0) + 1
    size = (
        max(MIN_SIZE[0], generations * CELL[0] + MARGIN[0]),
        max(MIN_SIZE[1], members * CELL[1] + MARGIN[1]),
    )
    line = set() if found.champion is None else {one.trial for one in found.line(found.champion)}
    with drawing(path, size) as figure:
        axes = figure.add_subplot()
        _draw_edges(axes, found, line)
        _draw_trials(axes, relatives, line)
        axes.set(xlabel="matches before", ylabel="member")
        axes.set_yticks(range(members))
        axes.invert_yaxis()
        axes.set_title("descent; the champion's line is bold", fontsize=9)
        if any(one.is_child for one in relatives):
            figure.legend(loc="outside right upper", fontsize=8, title="children by")


def _draw_edges(axes: "Axes", found: Descent, line: set[int]) -> None:
    operators = sorted({one.operator for one in found.relatives.values() if one.is_child})
    colours = {name: ON_PAPER[at % len(ON_PAPER)] for at, name in enumerate(operators)}
    named: set[str] = set()
    for one in found.relatives.values():
        for position, number in enumerate(one.parents):
            parent = found.relatives.get(number)
            if parent is None:
                continue
            is_first = one.is_child and one.operator not in named
            named |= {one.operator} if one.is_child else set()
            is_in_line = position == 0 and {one.trial, number} <= line
            axes.plot(
                [parent.generation, one.generation],
                [parent.member, one.member],
                color=colours[one.operator] if one.is_child else QUIET,
                linestyle="-" if position == 0 else ":",
                linewidth=2.6 if is_in_line else 1.0,
                zorder=2 if is_in_line else 1,
                label=one.operator if is_first else None,
            )


def _draw_trials(axes: "Axes", relatives: list[Relative], line: set[int]) -> None:
    for one in relatives:
        axes.plot(
            one.generation,
            one.member,
            marker="o",
            markersize=13,
            color="white",
            markeredgecolor="black" if one.trial in line else QUIET,
            zorder=3,
        )
        axes.text(
            one.generation,
            one.member,
            str(one.trial),
            ha="center",
            va="center",
            fontsize=6,
            zorder=4,
        )
