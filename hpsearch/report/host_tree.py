"""The blow-up trees of the ADE singularities: of a contestant's host, and of best play."""

from typing import Final

import torch
from torch import Tensor

from hpsearch.errors import UsageError, unknown_name
from hpsearch.game import rules
from hpsearch.game.best_response import Host
from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.solver import Solver
from hpsearch.report.blowup_tree import Tree, blowup_tree
from hpsearch.report.contestants import Contestant
from hpsearch.trainers.position import Position
from hpsearch.trainers.published import ADE, Rows

TREE_DEPTH: Final = 30
TREE_NODES: Final = 150
STARTS: Final = {case.name: case.points for case in ADE}


def host_tree(contestant: Contestant, start: str) -> Tree:
    """Return the tree of the contestant's greedy host from a start of the ADE table.

    Raises:
        UsageError: if there is no start of that name, or the contestant has no such tree.
    """
    if start not in STARTS:
        raise UsageError(unknown_name("start of a tree", start, STARTS))
    host, game, rows = contestant.host, contestant.game, STARTS[start]
    if host is None or not contestant.is_deterministic:
        raise UsageError(
            f"a blow-up tree shows a host that does not draw its moves, but {contestant.name} is "
            "none; leave out --tree"
        )
    if game.dimension != len(rows[0]) or game.max_num_points < len(rows):
        raise UsageError(
            f"the start {start} has {len(rows)} points in {len(rows[0])} "
            f"dimensions, but {contestant.name} plays {game.max_num_points} in {game.dimension}; "
            "leave out --tree"
        )

    def greedy(positions: Tensor) -> Tensor:
        noise = torch.zeros(1, len(positions), 2)
        return host(Position.of(positions.unsqueeze(0)), noise, torch.zeros(1))[0]

    return _tree(greedy, rows, game.max_num_points, reposition=game.reposition)


def best_tree(start: str) -> Tree:
    """Return the tree of a host that plays best, from a start of the ADE table.

    Of several best choices it is the first one in the order of the host's actions.
    """
    rows = STARTS[start]
    return _tree(best_host(len(rows[0])), rows, len(rows), reposition=True)


def best_host(dimension: int) -> Host:
    """Return a host whose longest game is as long as the exact value of the start.

    It takes int32 (B, N, D) and returns int64 (B,).
    """
    solver, encoder = Solver(dimension), HostActionEncoder(dimension)
    subsets = encoder.decode(torch.arange(encoder.num_actions))  # bool (A, D)

    def longest_after(points: Tensor, subset: Tensor) -> int:
        """Return the value of the worst answer to ``subset`` (D,) at ``points`` (N, D)."""
        axes = subset.nonzero()[:, 0]
        after = [rules.move(points[None], subset[None], axis[None])[0] for axis in axes]
        return max(solver.depth(one[rules.is_live(one)].tolist()) for one in after)

    def choose(positions: Tensor) -> Tensor:
        worst = [[longest_after(points, one) for one in subsets] for points in positions]
        return torch.tensor(worst).argmin(dim=1)

    return choose


def _tree(host: Host, rows: Rows, num_rows: int, *, reposition: bool) -> Tree:
    points = torch.full((num_rows, len(rows[0])), rules.PADDING, dtype=torch.int32)
    points[: len(rows)] = torch.tensor(rows, dtype=torch.int32)
    return blowup_tree(
        host, points, reposition=reposition, max_depth=TREE_DEPTH, max_nodes=TREE_NODES
    )
