"""How well a fixed, deterministic player does against the best opponent there is.

With one player fixed, the positions form a graph: from each, an edge for every choice that the
other player has. A game is a path; the longest and the shortest one to an end are looked for. The
graph grows level by level, a level a call of the player, equal positions kept once, until the
length is certain. Each start has a graph of its own, so no limit depends on the other starts.

Positions are not permuted, because a learned player is not symmetric in the coordinates.
Axes: S starts, B positions of a batch, C choices of the opponent, N points, D coordinates.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.position_graph import Expand, PositionGraph

Lengths = NDArray[np.float64]
Solve = Callable[[PositionGraph], tuple[float, bool]]
"""a graph to the length of its start's game, and whether that is certain"""

LEVELS_A_LOOK = 8
"""levels between two searches for a circle, which cost more than a level does"""

__all__ = ["Agent", "Host", "SearchLimits", "longest_game", "shortest_game"]

Host = Callable[[Tensor], Tensor]
"""points int32 (B, N, D) to actions int64 (B,), always the same for the same points"""
Agent = Callable[[Tensor, Tensor], Tensor]
"""points and subset bool (B, D) to axes int64 (B,), always the same for the same arguments"""


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    """How far a search goes."""

    max_moves: int
    """games that take longer count as unbounded"""
    max_positions: int
    """what is undecided when so many positions of a start have been found counts as unbounded"""
    reposition: bool
    """subtract each coordinate's minimum after a move, as in the games the player knows"""


def longest_game(host: Host, starts: Tensor, limits: SearchLimits) -> Lengths:
    """Return how many moves ``host`` needs when the agent delays best, from each start.

    Args:
        host: a deterministic host.
        starts: int32 (S, N, D), canonical.
        limits: where to give up.

    Returns:
        float64 (S,): a number of moves, or inf where the agent can go on for ever (a cycle, or a
        coordinate beyond the bound of the rules) or the limits end the search.
    """
    encoder = HostActionEncoder(starts.shape[-1])

    def replies(points: Tensor) -> tuple[Tensor, Tensor]:
        subset = encoder.decode(host(points))
        axes = torch.arange(subset.shape[-1], device=points.device)
        # A reply outside the subset is no move; a legal one, twice, changes nothing.
        first = subset.to(torch.uint8).argmax(-1, keepdim=True)
        return subset.unsqueeze(1).expand(-1, len(axes), -1), axes.where(subset, first)

    return _search(starts, replies, _longest_path, limits)


def shortest_game(agent: Agent, starts: Tensor, limits: SearchLimits) -> Lengths:
    """Return how many moves the best host needs against ``agent``, from each start.

    That is never more than `solver.minimax_depth`.

    Args:
        agent: a deterministic agent.
        starts: int32 (S, N, D), canonical.
        limits: where to give up.

    Returns:
        float64 (S,): a number of moves, or inf where no host ends the game within the limits.
    """
    encoder = HostActionEncoder(starts.shape[-1])
    subsets = encoder.decode(torch.arange(encoder.num_actions, device=starts.device))

    def choices(points: Tensor) -> tuple[Tensor, Tensor]:
        subset = subsets.expand(len(points), -1, -1)
        repeated = points.repeat_interleave(len(subsets), dim=0)
        return subset, agent(repeated, subset.flatten(0, 1)).unflatten(0, subset.shape[:2])

    return _search(starts, choices, _shortest_path, limits)


def _search(starts: Tensor, expand: Expand, solve: Solve, limits: SearchLimits) -> Lengths:
    """Return the length of the game that is looked for, from each start."""
    found = [
        _search_one(PositionGraph(s, limits.reposition), expand, solve, limits) for s in starts
    ]
    return np.array(found, dtype=np.float64)


def _search_one(graph: PositionGraph, expand: Expand, solve: Solve, limits: SearchLimits) -> float:
    """Grow the graph until the length of its start's game is certain, or a limit is met."""
    for level in range(limits.max_moves + 1):
        length, is_certain = solve(graph)
        if is_certain:
            return length if length <= limits.max_moves else math.inf
        if level == limits.max_moves or graph.size + graph.num_unexpanded > limits.max_positions:
            break
        graph.grow(expand)
    return math.inf


def _longest_path(graph: PositionGraph) -> tuple[float, bool]:
    """Return the start's longest path to an end, inf if it can circle; and if it is certain.

    A position that has not been expanded counts as one move before the end. While there are such
    positions only a circle is certain, and it is as certain some levels later.
    """
    if graph.num_unexpanded and graph.num_levels % LEVELS_A_LOOK:
        return math.nan, False
    lengths = np.zeros(graph.size)
    longer = ~graph.is_over  # the positions with a path of more than so many moves
    while longer.any():
        lengths += longer
        still_longer = graph.leads_to(longer)
        if (still_longer == longer).all():
            lengths[longer] = np.inf
            break
        longer = still_longer
    length = float(lengths[graph.start])
    return length, math.isinf(length) or not graph.num_unexpanded


def _shortest_path(graph: PositionGraph) -> tuple[float, bool]:
    """Return the start's shortest path to an end, inf if there is none; and if it is certain.

    Positions are found in the order of their distance, so no shorter path can appear.
    """
    lengths = np.full(graph.size, np.inf)
    new, moves = graph.is_over, 0
    while new.any():
        lengths[new] = moves
        new, moves = graph.leads_to(new) & np.isinf(lengths), moves + 1
    length = float(lengths[graph.start])
    return length, math.isfinite(length) or not graph.num_unexpanded
