"""The blow-up tree of a start: what a deterministic host plays against every answer.

A node is a position with the host's choice in it, an edge an answer of the agent; a leaf is a game
that is over. The depth of the tree is the host's worst case. There are trees of a player's host and
of best play, from the ADE singularities, as text and as pictures.
"""

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import torch
from torch import Tensor

from hpsearch.analysis.examination import ExaminedPlayer
from hpsearch.analysis.pictures import check_matplotlib, drawing
from hpsearch.errors import UsageError, unknown_name
from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import HostActionEncoder, points_text, subset_text
from hpsearch.game.solver import Host, Solver
from hpsearch.trainers.policies import Position
from hpsearch.trainers.published import ADE, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


State = Literal["played", "over", "capped", "repeated", "cut"]
"""played on, over, beyond the bound of the rules, a position that occurs above it on its branch,
after which the game never ends, or not looked at any further"""

MARKS = {
    "over": "over",
    "capped": "beyond 2^30",
    "repeated": "repeats",
    "cut": "... cut here",
}


@dataclass(frozen=True)
class TreeNode:
    parent: int | None  # index of the node before; None at the root
    axis: int | None  # the agent's answer that led here; None at the root
    depth: int  # moves from the root
    points: str
    subset: str  # the host's choice; empty where nothing was played
    state: State


@dataclass(frozen=True)
class Tree:
    """The nodes level by level; the root comes first."""

    nodes: tuple[TreeNode, ...]

    @property
    def depth(self) -> int:
        return max(node.depth for node in self.nodes)

    @property
    def num_decisions(self) -> int:
        return sum(node.state == "played" for node in self.nodes)

    @property
    def is_endless(self) -> bool:
        return any(node.state == "repeated" for node in self.nodes)

    @property
    def is_whole(self) -> bool:
        return all(node.state != "cut" for node in self.nodes)

    def children(self) -> list[list[int]]:
        children: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            if node.parent is not None:
                children[node.parent].append(index)
        return children


@torch.no_grad()
def blowup_tree(
    host: Host, start: Tensor, *, reposition: bool, max_depth: int, max_nodes: int
) -> Tree:
    """Return the tree of ``start`` int32 (N, D), canonical.

    Nodes at ``max_depth`` are cut, and so is a whole level that would make the tree larger than
    ``max_nodes``.
    """
    encoder = HostActionEncoder(start.shape[-1])
    move = BACKENDS[default_backend(start.device)].move
    points, capped = start.unsqueeze(0), torch.zeros(1, dtype=torch.bool, device=start.device)
    nodes: list[TreeNode] = []
    level = _level(points, capped, parents=[None], axes=[None], depth=0)
    while True:
        first = len(nodes)
        level = [_repeated(node, nodes) for node in level]
        nodes += level
        played = [row for row, node in enumerate(level) if node.state == "played"]
        if not played:
            return Tree(tuple(nodes))
        subset = encoder.decode(host(points[played]))
        is_full = len(nodes) + int(subset.sum()) > max_nodes
        if is_full or level[0].depth == max_depth:
            nodes[first:] = [replace(n, state="cut") if n.state == "played" else n for n in level]
            return Tree(tuple(nodes))
        for row, chosen in zip(played, subset, strict=True):
            nodes[first + row] = replace(level[row], subset=subset_text(chosen))
        source, axis = subset.nonzero().unbind(1)
        points, capped = move(points[played][source], subset[source], axis, reposition)
        parents = [first + played[row] for row in source.tolist()]
        level = _level(points, capped, parents, axis.tolist(), level[0].depth + 1)


def _repeated(node: TreeNode, nodes: Sequence[TreeNode]) -> TreeNode:
    """Return a node whose position was met before as repeated: its host plays the same again."""
    before = node.parent
    while before is not None:
        if node.state == "played" and nodes[before].points == node.points:
            return replace(node, state="repeated")
        before = nodes[before].parent
    return node


def _level(
    points: Tensor,
    capped: Tensor,
    parents: Sequence[int | None],
    axes: Sequence[int | None],
    depth: int,
) -> list[TreeNode]:
    """Return nodes for ``points`` int32 (B, N, D), as yet without the host's choices."""
    nodes = []
    for position, is_capped, parent, axis in zip(
        points.cpu(), capped.tolist(), parents, axes, strict=True
    ):
        state: State = "over" if rules.is_over(position) else "played"
        state = "capped" if is_capped else state
        nodes.append(TreeNode(parent, axis, depth, points_text(position), "", state))
    return nodes


def tree_text(tree: Tree) -> str:
    """Write the tree, a line a node, answers indented below the choice that they answer."""
    children = tree.children()
    lines: list[str] = []

    def write(index: int, before: str, after: str) -> None:
        node = tree.nodes[index]
        shown = f"{node.points}  {node.subset or MARKS[node.state]}"
        lines.append(before + (MARKS["over"] if node.state == "over" else shown))
        for child in children[index]:
            branch, indent = ("└─", "   ") if child == children[index][-1] else ("├─", "│  ")
            write(child, f"{after}{branch} {tree.nodes[child].axis}: ", after + indent)

    write(0, "", "")
    return "\n".join([*lines, summary(tree)])


def summary(tree: Tree) -> str:
    at_least = "" if tree.is_whole else "at least "
    moves = "no end" if tree.is_endless else f"{at_least}{tree.depth} moves"
    return f"{moves} in the worst case, {tree.num_decisions} choices shown"


TREE_DEPTH: Final = 30
TREE_NODES: Final = 150
STARTS: Final = {case.name: case.points for case in ADE}


def host_tree(player: ExaminedPlayer, start: str) -> Tree:
    """Return the tree of the player's greedy host from a start of the ADE table.

    Raises:
        UsageError: if there is no start of that name, or the player has no such tree.
    """
    if start not in STARTS:
        raise UsageError(unknown_name("start of a tree", start, STARTS))
    host, game, rows = player.host, player.game, STARTS[start]
    if host is None or not player.is_deterministic:
        raise UsageError(
            f"a blow-up tree shows a host that does not draw its moves, but {player.name} is "
            "none; leave out --tree"
        )
    if game.dimension != len(rows[0]) or game.max_num_points < len(rows):
        raise UsageError(
            f"the start {start} has {len(rows)} points in {len(rows[0])} "
            f"dimensions, but {player.name} plays {game.max_num_points} in {game.dimension}; "
            "leave out --tree"
        )

    def greedy(positions: Tensor) -> Tensor:
        noise = torch.zeros(1, len(positions), 2)
        return host(Position.of(positions.unsqueeze(0)), None, noise, torch.zeros(1))[0]

    return _tree(greedy, rows, game.max_num_points, reposition=game.reposition)


def best_tree(start: str) -> Tree:
    """Return the tree of best play from a start of the ADE table; of several choices the first."""
    rows = STARTS[start]
    return _tree(best_host(len(rows[0])), rows, len(rows), reposition=True)


def best_host(dimension: int) -> Host:
    """Return a host (int32 (B, N, D) to int64 (B,)) whose longest game is as short as can be."""
    solver, encoder = Solver(dimension), HostActionEncoder(dimension)
    subsets = encoder.decode(torch.arange(encoder.num_actions))  # bool (A, D)

    def longest_after(points: Tensor, subset: Tensor) -> int:
        """Return the value of the worst answer to ``subset`` (D,) at ``points`` (N, D)."""
        axes = subset.nonzero()[:, 0]
        after = [rules.move(points[None], subset[None], axis[None])[0] for axis in axes]
        return max(solver.depth(points[rules.is_live(points)].tolist()) for points in after)

    def choose(positions: Tensor) -> Tensor:
        worst = [[longest_after(points, subset) for subset in subsets] for points in positions]
        return torch.tensor(worst).argmin(dim=1)

    return choose


def _tree(host: Host, rows: Rows, num_rows: int, *, reposition: bool) -> Tree:
    points = torch.full((num_rows, len(rows[0])), rules.PADDING, dtype=torch.int32)
    points[: len(rows)] = torch.tensor(rows, dtype=torch.int32)
    return blowup_tree(
        host, points, reposition=reposition, max_depth=TREE_DEPTH, max_nodes=TREE_NODES
    )


LEAF_WIDTH: Final = 0.62  # inches from one leaf to the next
LEVEL_HEIGHT: Final = 0.95  # inches from one level to the next
LINE_WIDTH: Final = 12  # characters of a line of points
MAX_LINES: Final = 4  # lines of points that a node shows

FILLS: Final = {
    "played": "#f4f1e8",
    "capped": "#e4a39a",
    "repeated": "#c9b8e0",
    "cut": "#f0d28a",
}
OVER: Final = "#4c8c5a"
EDGE: Final = "#8a8578"
TEXT: Final = "#26241f"

Places = list[tuple[float, float]]  # x in leaves and y in levels of each node, y downward


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
    children, leaves = tree.children(), itertools.count()
    across = [0.0] * len(tree.nodes)

    def place(index: int) -> None:
        below = children[index]
        for child in below:
            place(child)
        middle = (across[below[0]] + across[below[-1]]) / 2 if below else float(next(leaves))
        across[index] = middle

    place(0)
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


def label(node: TreeNode) -> str:
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
