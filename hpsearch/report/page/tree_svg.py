"""A blow-up tree as SVG: parents above the middle of their children, all as wide as they need."""

from dataclasses import dataclass
from typing import Final

from hpsearch.report.blowup_tree import Node, Tree
from hpsearch.report.page.html import Html, join, text
from hpsearch.report.tree_picture import label

LEVEL: Final = 86
"""pixels from one level to the next"""
LINE: Final = 11
"""pixels of a line of text"""
CHARACTER: Final = 6.1
"""pixels of a character"""
PADDING: Final = 5
GAP: Final = 10
"""pixels between neighbours at least"""
DOT: Final = 5
"""radius of a game that is over"""
TOP: Final = 34
ANSWER_AT: Final = 0.56
"""where on its edge an answer is written, as a share from above"""


@dataclass(frozen=True)
class Box:
    """Where a node is drawn, in pixels."""

    x: float
    """of its middle"""
    y: float
    width: float
    height: float


def tree_svg(tree: Tree, title: str) -> Html:
    """Draw a tree; ``title`` says to those who cannot see it what it is."""
    boxes = boxes_of(tree)
    width = max(box.x + box.width / 2 for box in boxes) + GAP
    height = max(box.y + box.height / 2 for box in boxes) + GAP
    edges = (
        _edge(node, boxes[node.parent], box)
        for node, box in zip(tree.nodes, boxes, strict=True)
        if node.parent is not None
    )
    nodes = (_node(node, box) for node, box in zip(tree.nodes, boxes, strict=True))
    return Html(
        f'<div class="scroll" data-middle="{boxes[0].x:.0f}"><svg class="tree" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'role="img" aria-label="{text(title)}">\n{join(edges)}\n{join(nodes)}\n</svg></div>'
    )


def boxes_of(tree: Tree) -> list[Box]:
    """Return where the nodes are drawn; no two overlap."""
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


def _size(node: Node) -> tuple[float, float]:
    """Return width and height of what a node shows."""
    if node.state == "over":
        return 2 * DOT, 2 * DOT
    lines = label(node).split("\n")
    return CHARACTER * max(map(len, lines)) + 2 * PADDING, LINE * len(lines) + 2 * PADDING


def _edge(node: Node, above: Box, below: Box) -> Html:
    """Draw the way to a node, with the agent's answer on it."""
    x = above.x + ANSWER_AT * (below.x - above.x)
    y = above.y + ANSWER_AT * (below.y - above.y)
    return Html(
        f'<line x1="{above.x:.0f}" y1="{above.y:.0f}" x2="{below.x:.0f}" y2="{below.y:.0f}"/>'
        f'<circle class="answer" cx="{x:.0f}" cy="{y:.0f}" r="6"/>'
        f'<text class="axis" x="{x:.0f}" y="{y + 3:.0f}">{text(node.axis)}</text>'
    )


def _node(node: Node, box: Box) -> Html:
    """Draw points and the host's choice; a dot where the game is over."""
    if node.state == "over":
        return Html(f'<circle cx="{box.x:.0f}" cy="{box.y:.0f}" r="{DOT}"/>')
    top = box.y - box.height / 2
    words = (
        f'<text x="{box.x:.0f}" y="{top + PADDING + LINE * (at + 0.8):.0f}">{text(line)}</text>'
        for at, line in enumerate(label(node).split("\n"))
    )
    return Html(
        f'<rect class="{node.state}" x="{box.x - box.width / 2:.0f}" y="{top:.0f}" '
        f'width="{box.width:.0f}" height="{box.height:.0f}" rx="4"/>{"".join(words)}'
    )
