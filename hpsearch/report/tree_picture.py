"""A blow-up tree as a picture: leaves side by side, every parent above the middle of its children.

A node shows its points and the host's choice, an edge the agent's answer, a green dot a game that
is over.
"""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpsearch.report.blowup_tree import MARKS, Node, Tree, summary
from hpsearch.report.picture_files import check_matplotlib, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAF_WIDTH: Final = 0.62
"""inches from one leaf to the next"""
LEVEL_HEIGHT: Final = 0.95
"""inches from one level to the next"""
LINE_WIDTH: Final = 12
"""characters of a line of points"""
MAX_LINES: Final = 4
"""lines of points that a node shows"""

FILLS: Final = {"played": "#f4f1e8", "capped": "#e4a39a", "cut": "#f0d28a"}
OVER: Final = "#4c8c5a"
EDGE: Final = "#8a8578"
TEXT: Final = "#26241f"

Places = list[tuple[float, float]]
"""x in leaves and y in levels of each node, y downward"""


def write_picture(tree: Tree, title: str, path: Path) -> None:
    """Draw the tree and replace the file at ``path``, whose suffix is one of PICTURES.

    Raises:
        UsageError: if matplotlib is missing.
        OSError: if the file cannot be written; the old one stays.
    """
    check_matplotlib("write the tree as .txt")
    places = layout(tree)
    num_leaves = 1 + max(x for x, _ in places)
    size = (max(3.0, num_leaves * LEAF_WIDTH + 0.6), (tree.depth + 1) * LEVEL_HEIGHT + 0.4)
    with drawing(path, size) as figure:
        axes = figure.add_subplot()
        axes.set(xlim=(-0.9, num_leaves - 0.1), ylim=(tree.depth + 0.5, -0.5))
        axes.set_title(f"{title}: {summary(tree)}", fontsize=10, color=TEXT)
        axes.axis("off")
        _draw(axes, tree, places)


def layout(tree: Tree) -> Places:
    """Place each node: leaves at 0, 1, 2, ... from the left, parents amid their children."""
    children = tree.children()
    across = [0.0] * len(tree.nodes)
    next_leaf = 0
    # Depth first, from the left: what is placed last lies below what waits for it.
    waiting, order = [0], []
    while waiting:
        index = waiting.pop()
        order.append(index)
        waiting += reversed(children[index])
    for index in order:
        if not children[index]:
            across[index] = next_leaf
            next_leaf += 1
    for index in reversed(order):
        if below := children[index]:
            across[index] = (across[below[0]] + across[below[-1]]) / 2
    return [(x, float(node.depth)) for x, node in zip(across, tree.nodes, strict=True)]


def _draw(axes: "Axes", tree: Tree, places: Places) -> None:
    for node, (x, y) in zip(tree.nodes, places, strict=True):
        if node.parent is not None:
            x0, y0 = places[node.parent]
            axes.plot([x0, x], [y0, y], color=EDGE, linewidth=0.9, zorder=1)
            _write(axes, 0.42 * x0 + 0.58 * x, 0.42 * y0 + 0.58 * y, str(node.axis), "white", 6.5)
        if node.state == "over":
            axes.plot([x], [y], marker="o", markersize=6, color=OVER, zorder=3)
        else:
            _write(axes, x, y, label(node), FILLS[node.state], 7)


def label(node: Node) -> str:
    """Return what a node shows: its points on a few lines, then the host's choice or a mark."""
    lines = textwrap.wrap(node.points, LINE_WIDTH, max_lines=MAX_LINES, placeholder=" ...")
    return "\n".join([*lines, node.subset or MARKS[node.state]])


def _write(axes: "Axes", x: float, y: float, text: str, fill: str, size: float) -> None:
    is_node = "\n" in text
    axes.text(
        x,
        y,
        text,
        fontsize=size,
        color=TEXT if is_node else EDGE,
        ha="center",
        va="center",
        linespacing=1.25,
        zorder=3 if is_node else 2,
        bbox={
            "boxstyle": "round,pad=0.3" if is_node else "circle,pad=0.12",
            "facecolor": fill,
            "edgecolor": EDGE if is_node else "none",
            "linewidth": 0.6,
        },
    )
