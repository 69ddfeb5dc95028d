"""The blow-up trees of the best host, beside those of best play."""

from dataclasses import dataclass

from hpsearch.errors import UsageError
from hpsearch.report.blowup_tree import Tree
from hpsearch.report.contestants import Contestant
from hpsearch.report.host_tree import STARTS, best_tree, host_tree


@dataclass(frozen=True)
class Pair:
    """Two trees of one start."""

    start: str
    """name in the ADE table"""
    host: Tree
    """of the trained host"""
    best: Tree
    """of best play, whose depth is the exact value"""


@dataclass(frozen=True)
class AdeTrees:
    """The trees of all starts of the ADE table."""

    pairs: tuple[Pair, ...]


def ade_trees(contestant: Contestant) -> AdeTrees | str:
    """Return the trees of a contestant's host, or why it has none."""
    if contestant.host is None:
        return "only an agent learned here, and a tree is of a host"
    try:
        return AdeTrees(
            tuple(Pair(name, host_tree(contestant, name), best_tree(name)) for name in STARTS)
        )
    except UsageError:
        game = contestant.game
        return (
            "the ADE singularities have 3 points in 3 dimensions, the host plays "
            f"{game.max_num_points} in {game.dimension}"
        )
