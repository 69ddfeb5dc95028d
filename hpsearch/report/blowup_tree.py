"""The blow-up tree of a start: what a deterministic host plays against every answer.

A node is a position with the host's choice in it, an edge an answer of the agent; a leaf is a game
that is over. The depth of the tree is the host's worst case.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.best_response import Host
from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.notation import points_text, subset_text

State = Literal["played", "over", "capped", "cut"]
"""played on, over, beyond the bound of the rules, or not looked at any further"""

MARKS = {"over": "over", "capped": "beyond 2^30", "cut": "... cut here"}


@dataclass(frozen=True)
class Node:
    """A position of the tree."""

    parent: int | None
    """index of the node before; None at the root"""
    axis: int | None
    """the agent's answer that led here; None at the root"""
    depth: int
    """moves from the root"""
    points: str
    subset: str
    """the host's choice; empty where nothing was played"""
    state: State


@dataclass(frozen=True)
class Tree:
    """The nodes level by level; the root comes first."""

    nodes: tuple[Node, ...]

    @property
    def depth(self) -> int:
        """Return the moves of the longest game in the tree."""
        return max(node.depth for node in self.nodes)

    @property
    def num_decisions(self) -> int:
        """Return how often the host chooses."""
        return sum(node.state == "played" for node in self.nodes)

    @property
    def is_whole(self) -> bool:
        """Return whether nothing was cut off."""
        return all(node.state != "cut" for node in self.nodes)

    def children(self) -> list[list[int]]:
        """Return the indices of each node's children, by axis."""
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
    nodes: list[Node] = []
    level = _level(points, capped, parents=[None], axes=[None], depth=0)
    while True:
        first = len(nodes)
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


def _level(
    points: Tensor,
    capped: Tensor,
    parents: Sequence[int | None],
    axes: Sequence[int | None],
    depth: int,
) -> list[Node]:
    """Return nodes for ``points`` int32 (B, N, D), as yet without the host's choices."""
    nodes = []
    for position, is_capped, parent, axis in zip(
        points.cpu(), capped.tolist(), parents, axes, strict=True
    ):
        state: State = "over" if rules.is_over(position) else "played"
        state = "capped" if is_capped else state
        nodes.append(Node(parent, axis, depth, points_text(position), "", state))
    return nodes


def tree_text(tree: Tree) -> str:
    """Write the tree, a line a node, answers indented below the choice that they answer."""
    children = tree.children()
    lines: list[str] = []

    def write(index: int, before: str, after: str) -> None:
        node = tree.nodes[index]
        lines.append(f"{before}{_title(node)}")
        for child in children[index]:
            is_last = child == children[index][-1]
            branch = f"{tree.nodes[child].axis}: "
            write(
                child,
                f"{after}{'└─' if is_last else '├─'} {branch}",
                f"{after}{'   ' if is_last else '│  '}",
            )

    write(0, "", "")
    return "\n".join([*lines, summary(tree)])


def summary(tree: Tree) -> str:
    """Say how large the tree is, and whether it was cut."""
    at_least = "" if tree.is_whole else "at least "
    return f"{at_least}{tree.depth} moves in the worst case, {tree.num_decisions} choices shown"


def _title(node: Node) -> str:
    if node.state == "over":
        return MARKS["over"]
    return f"{node.points}  {node.subset or MARKS[node.state]}"
