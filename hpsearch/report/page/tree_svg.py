"""A blow-up tree as SVG: leaves side by side, every parent above the middle of its children."""

from typing import Final

from hpsearch.report.blowup_tree import Node, Tree
from hpsearch.report.page.html import Html, join, text
from hpsearch.report.tree_picture import label, layout

LEAF: Final = 76
"""pixels from one leaf to the next"""
LEVEL: Final = 92
"""pixels from one level to the next"""
LINE: Final = 11
"""pixels of a line of text"""
CHARACTER: Final = 6.1
"""pixels of a character"""
PADDING: Final = 5
MARGIN: Final = (46, 34)
ANSWER_AT: Final = 0.56
"""where on its edge an answer is written, as a share from above"""


def tree_svg(tree: Tree, title: str) -> Html:
    """Draw a tree; ``title`` says to those who cannot see it what it is."""
    places = [(MARGIN[0] + LEAF * x, MARGIN[1] + LEVEL * y) for x, y in layout(tree)]
    width = max(x for x, _ in places) + MARGIN[0]
    height = max(y for _, y in places) + MARGIN[1]
    edges = (
        _edge(node, places[node.parent], place)
        for node, place in zip(tree.nodes, places, strict=True)
        if node.parent is not None
    )
    nodes = (_node(node, place) for node, place in zip(tree.nodes, places, strict=True))
    return Html(
        f'<div class="scroll"><svg class="tree" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{text(title)}">\n'
        f"{join(edges)}\n{join(nodes)}\n</svg></div>"
    )


def _edge(node: Node, above: tuple[float, float], place: tuple[float, float]) -> Html:
    """Draw the way to a node, with the agent's answer on it."""
    (x0, y0), (x1, y1) = above, place
    x, y = x0 + ANSWER_AT * (x1 - x0), y0 + ANSWER_AT * (y1 - y0)
    return Html(
        f'<line x1="{x0:.0f}" y1="{y0:.0f}" x2="{x1:.0f}" y2="{y1:.0f}"/>'
        f'<circle class="answer" cx="{x:.0f}" cy="{y:.0f}" r="6"/>'
        f'<text class="axis" x="{x:.0f}" y="{y + 3:.0f}">{text(node.axis)}</text>'
    )


def _node(node: Node, place: tuple[float, float]) -> Html:
    """Draw points and the host's choice; a dot where the game is over."""
    x, y = place
    if node.state == "over":
        return Html(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="5"/>')
    lines = label(node).split("\n")
    width = CHARACTER * max(map(len, lines)) + 2 * PADDING
    height = LINE * len(lines) + 2 * PADDING
    top = y - height / 2
    words = (
        f'<text x="{x:.0f}" y="{top + PADDING + LINE * (at + 0.8):.0f}">{text(line)}</text>'
        for at, line in enumerate(lines)
    )
    return Html(
        f'<rect class="{node.state}" x="{x - width / 2:.0f}" y="{top:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" rx="4"/>{"".join(words)}'
    )
