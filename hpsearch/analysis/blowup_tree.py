"""The blow-up tree of a start: what a deterministic host plays against every answer.

A node is a position with the host's choice, an edge an answer of the agent, a leaf a game that is
over; the depth is the host's worst case. There are trees of a player and of best play.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from torch import Tensor

from hpsearch.analysis.examination import ExaminedPlayer
from hpsearch.analysis.pictures import check_matplotlib, drawing
from hpsearch.errors import UsageError, unknown_name
from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import HostActionEncoder, points_text, subset_text
from hpsearch.game.solver import Host, Solver
from hpsearch.trainers.policies import Position, Turn
from hpsearch.trainers.published import ADE, Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


State = Literal["played", "over", "capped", "repeated", "cut"]
"""played on, over, beyond the bound of the rules, a position that occurs above it on its branch,
after which the game never ends, or not looked at any further"""

MARKS = {"over": "over", "capped": "beyond 2^30", "repeated": "repeats", "cut": "... cut here"}


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
    nodes: tuple[TreeNode, ...]  # level by level, the root first

    @property
    def depth(self) -> int:
        return max(node.depth for node in self.nodes)

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
    """Return the tree of ``start`` int32 (N, D), canonical; deeper or larger levels are cut."""
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
            for row in played:
                nodes[first + row] = replace(level[row], state="cut")
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
    moves = zip(points.cpu(), capped.tolist(), parents, axes, strict=True)
    for position, is_capped, parent, axis in moves:
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
    number = sum(node.state == "played" for node in tree.nodes)
    choices = "1 choice" if number == 1 else f"{number} choices"
    return f"{worst_case(tree)} in the worst case, {choices} shown"


def worst_case(tree: Tree) -> str:
    if tree.is_endless:
        return "no end"
    moves = "1 move" if tree.depth == 1 else f"{tree.depth} moves"
    return moves if tree.is_whole else f"at least {moves}"


STARTS: Final = {case.name: case.points for case in ADE}


def host_tree(player: ExaminedPlayer, start: str) -> Tree:
    """Return the tree of a player's greedy host from an ADE start; UsageError if none."""
    if start not in STARTS:
        raise UsageError(unknown_name("start of a tree", start, STARTS))
    host, name, game, rows = player.host, player.name, player.game, STARTS[start]
    if host is None or not player.is_deterministic:
        raise UsageError(
            f"a blow-up tree shows a host that never draws its moves, and {name} "
            f"{'plays no host' if host is None else 'may draw them'}; leave out --tree"
        )
    if game.dimension != len(rows[0]) or game.max_num_points < len(rows):
        raise UsageError(
            f"the start {start} has {len(rows)} points in {len(rows[0])} dimensions, but {name} "
            f"plays {game.max_num_points} in {game.dimension}; leave out --tree"
        )

    def greedy(positions: Tensor) -> Tensor:
        noise = torch.zeros(1, len(positions), 2)
        return host(Turn(Position.of(positions.unsqueeze(0)), None, noise, torch.zeros(1)))[0]

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
    return blowup_tree(host, points, reposition=reposition, max_depth=30, max_nodes=150)


LEVEL: Final = 86  # pixels from one level to the next
LINE: Final = 11  # pixels of a line of text
CHARACTER: Final = 6.1  # pixels of a character
PADDING: Final = 5
GAP: Final = 10  # pixels between neighbours at least
DOT: Final = 5  # radius of a game that is over
TOP: Final = 34
ANSWER_AT: Final = 0.56  # where on its edge an answer is written, as a share from above
LABEL_WIDTH: Final = 12  # characters of a line of points
MAX_LINES: Final = 4  # lines of points that a node shows


@dataclass(frozen=True)
class Box:
    x: float  # of its middle, in pixels
    y: float  # downward
    width: float = 0.0
    height: float = 0.0


def boxes_of(tree: Tree) -> list[Box]:
    children = tree.children()
    sizes = [_size(node) for node in tree.nodes]
    room = [width + GAP for width, _ in sizes]
    for index in reversed(range(len(tree.nodes))):  # children come after their parents
        if children[index]:
            room[index] = max(room[index], sum(room[child] for child in children[index]))
    left = [0.0] * len(tree.nodes)
    for index, below in enumerate(children):
        begin = left[index] + (room[index] - sum(room[child] for child in below)) / 2
        for child in below:
            left[child], begin = begin, begin + room[child]
    return [
        Box(left[index] + room[index] / 2, TOP + LEVEL * node.depth, *sizes[index])
        for index, node in enumerate(tree.nodes)
    ]


def _size(node: TreeNode) -> tuple[float, float]:
    if node.state == "over":
        return 2 * DOT, 2 * DOT
    lines = label(node)
    return CHARACTER * max(map(len, lines)) + 2 * PADDING, LINE * len(lines) + 2 * PADDING


def label(node: TreeNode) -> list[str]:
    """Return the lines in a node: its points, and the host's choice or how the game stands."""
    lines = textwrap.wrap(node.points, LABEL_WIDTH, max_lines=MAX_LINES, placeholder=" ...")
    return [*lines, node.subset or MARKS[node.state]]


def extent(boxes: Sequence[Box]) -> tuple[float, float]:
    right = max(box.x + box.width / 2 for box in boxes)
    bottom = max(box.y + box.height / 2 for box in boxes)
    return right + GAP, bottom + GAP


def answer_of(above: Box, below: Box) -> Box:
    """Return where the answer that leads from a node to the next is written."""
    across, down = below.x - above.x, below.y - above.y
    return Box(above.x + ANSWER_AT * across, above.y + ANSWER_AT * down)


FILLS: Final = {"played": "#f4f1e8", "capped": "#e4a39a", "repeated": "#c9b8e0", "cut": "#f0d28a"}
OVER: Final = "#4c8c5a"
EDGE: Final = "#8a8578"
TEXT: Final = "#26241f"
PIXELS: Final = 96  # of an inch
MIN_WIDTH: Final = 5.5  # inches, so that the title fits


def write_picture(tree: Tree, title: str, path: Path) -> None:
    """Draw the tree into a file, whose suffix is one of PICTURES; raises DiskError."""
    check_matplotlib("write the tree as .txt")
    boxes = boxes_of(tree)
    width, height = extent(boxes)
    with drawing(path, (max(MIN_WIDTH, width / PIXELS), height / PIXELS)) as figure:
        axes = figure.add_subplot()
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_title(f"{title}: {summary(tree)}", fontsize=9, color=TEXT)
        axes.axis("off")
        for node, box in zip(tree.nodes, boxes, strict=True):
            if node.parent is not None:
                above = boxes[node.parent]
                axes.plot([above.x, box.x], [above.y, box.y], color=EDGE, linewidth=0.9, zorder=1)
                frame = {"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": "none"}
                _write(axes, answer_of(above, box), str(node.axis), EDGE, frame)
            if node.state == "over":
                axes.plot([box.x], [box.y], marker="o", markersize=6, color=OVER, zorder=3)
            else:
                frame = {"boxstyle": "round,pad=0.3", "facecolor": FILLS[node.state]}
                _write(axes, box, "\n".join(label(node)), TEXT, frame)


def _write(axes: "Axes", box: Box, text: str, ink: str, frame: Mapping[str, Any]) -> None:
    middle: dict[str, Any] = {"ha": "center", "va": "center", "linespacing": 1.25, "zorder": 3}
    bbox = {"edgecolor": EDGE, "linewidth": 0.6, **frame}
    axes.text(box.x, box.y, text, fontsize=6.5, color=ink, bbox=bbox, **middle)
