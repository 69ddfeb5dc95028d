"""Blow-up trees of the best host beside those of best play, drawn."""

import math
from collections.abc import Mapping
from typing import Final

from hpsearch.report.blowup_tree import summary
from hpsearch.report.page.ade import AdeTrees, Pair
from hpsearch.report.page.html import Html, beside, folded, join, paragraph
from hpsearch.report.page.tree_svg import tree_svg

SHOWN: Final = "E6"
"""the start whose trees are unfolded"""


def trees_html(trees: AdeTrees, worst: Mapping[str, float]) -> Html:
    """Return the pairs of trees, folded but for one.

    Args:
        trees: of the host and of best play.
        worst: moves that the host needs in the worst case, by start, where they are known;
            infinity where there is no end.
    """
    reading = paragraph(
        "A node is a position with the host's choice of coordinates, an edge an answer of the "
        "agent, a dot a game that is over. A position is written by its points, a point by its "
        "coordinates: 200 030 004 are (2, 0, 0), (0, 3, 0) and (0, 0, 4). The depth is the worst "
        "case; no host has one below that of best play."
    )
    return join([reading, *(_pair(pair, worst.get(pair.start)) for pair in trees.pairs)])


def _pair(pair: Pair, worst: float | None) -> Html:
    is_endless = worst is not None and math.isinf(worst)
    end = "; in the worst case no end" if is_endless else ""
    two = [
        (f"The host from {pair.start}: {summary(pair.host)}{end}", pair.host),
        (f"Best play from {pair.start}: {summary(pair.best)}", pair.best),
    ]
    drawn = [join([paragraph(title), tree_svg(tree, title)]) for title, tree in two]
    moves = "no end" if is_endless else _moves(pair)
    title = f"{pair.start}: {moves}, best play {pair.best.depth}"
    return folded(title, beside(drawn), is_open=pair.start == SHOWN)


def _moves(pair: Pair) -> str:
    at_least = "" if pair.host.is_whole else "at least "
    return at_least + ("1 move" if pair.host.depth == 1 else f"{pair.host.depth} moves")
