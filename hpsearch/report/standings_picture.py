"""The matrix of a cross-play as a picture, in colours that the colour-blind can tell apart."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpsearch.report.picture_files import drawing
from hpsearch.report.standings import Standings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE: Final = "rho, high (bright) is a strong host, low (dark) a strong agent"
COLOURS: Final = "cividis"
"""from dark to bright, told apart also without red or green and in grey"""
MAX_NUMBERED: Final = 20
"""players of a side up to which the cells hold numbers too"""
CELL: Final = (0.62, 0.42)
"""inches of a cell with a number: width, height"""
SMALL_CELL: Final = 0.16
"""inches of one without"""
MARGIN: Final = (2.6, 2.2)
"""inches for names and the bar of colours: width, height"""
MIN_SIZE: Final = (7.0, 3.6)
"""inches, so that the title fits"""


def write_matrix(found: Standings, path: Path) -> None:
    """Draw rho of all pairs and replace the file at ``path``, whose suffix is one of PICTURES.

    Raises:
        OSError: if the file cannot be written; the old one stays.
    """
    rows, columns = found.rho.shape
    is_numbered = max(rows, columns) <= MAX_NUMBERED
    cell = CELL if is_numbered else (SMALL_CELL, SMALL_CELL)
    size = (
        max(MIN_SIZE[0], columns * cell[0] + MARGIN[0]),
        max(MIN_SIZE[1], rows * cell[1] + MARGIN[1]),
    )
    with drawing(path, size) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(found.rho, cmap=COLOURS, aspect="auto")
        figure.colorbar(image, ax=axes, label="rho")
        axes.set_title(f"{TITLE}, {found.num_games:,} games a pair", fontsize=9)
        _name(axes, found, size=8.0 if is_numbered else 5.0)
        if is_numbered:
            _number(axes, found)


def _name(axes: "Axes", found: Standings, size: float) -> None:
    axes.set_xticks(
        range(len(found.agents)),
        [one.name for one in found.agents],
        rotation=45,
        ha="right",
        rotation_mode="anchor",
        fontsize=size,
    )
    axes.set_yticks(range(len(found.hosts)), [one.name for one in found.hosts], fontsize=size)
    axes.set(xlabel="agent", ylabel="host")


def _number(axes: "Axes", found: Standings) -> None:
    """Write rho into every cell, dark on bright and bright on dark."""
    middle = (found.rho.min() + found.rho.max()) / 2
    for p, row in enumerate(found.rho):
        for q, value in enumerate(row):
            colour = "black" if value > middle else "white"
            axes.text(q, p, f"{value:.3f}", ha="center", va="center", fontsize=7, color=colour)
