"""The positions that a game can lead to when one player is fixed, found level by level.

Position 0 stands for every game that is over, position 1 for every game beyond the bound of the
rules, which leads to itself for ever. Equal positions are one, so paths may meet and circle.

Axes: M positions found so far, C choices of the player who is not fixed, B positions of a batch,
N points, D coordinates.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, default_backend

Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]
Expand = Callable[[Tensor], tuple[Tensor, Tensor]]
"""points int32 (B, N, D) to the moves there are: subsets bool (B, C, D) and axes int64 (B, C)"""

OVER: Final = 0
CAPPED: Final = 1


class PositionGraph:
    """Positions and where their moves lead.

    Attributes:
        start: the position that the game begins from.
        is_over: bool (M,).
        num_levels: how often it grew.
    """

    def __init__(self, start: Tensor, reposition: bool) -> None:
        """Begin with ``start`` int32 (N, D), canonical, not yet expanded."""
        self._reposition = reposition
        self._index: dict[bytes, int] = {}
        self._points = torch.full((2, *start.shape), rules.PADDING, dtype=torch.int32)
        self._children = np.array([[OVER], [CAPPED]])
        self._is_expanded = np.array([False, True])
        self.is_over = np.array([True, False])
        self.num_levels = 0
        found = self._positions(start.cpu().unsqueeze(0), torch.zeros(1, dtype=torch.bool))
        self.start = int(found[0])

    @property
    def size(self) -> int:
        """Return M."""
        return len(self._children)

    def leads_to(self, goal: Bools) -> Bools:
        """Say which positions have a move into ``goal`` bool (M,)."""
        found: Bools = self._is_expanded & goal[self._children].any(axis=1)
        return found

    @property
    def num_unexpanded(self) -> int:
        """Return how many positions are known whose moves are not."""
        return len(self._unexpanded())

    def grow(self, expand: Expand) -> None:
        """Find where the moves of all positions lead that have not been expanded."""
        self.num_levels += 1
        frontier = self._unexpanded()
        points = self._points[torch.from_numpy(frontier)]
        subset, axis = expand(points)
        move = BACKENDS[default_backend(points.device)].move
        before = points.unsqueeze(1).expand(*axis.shape, *points.shape[1:])
        after, capped = move(before, subset, axis, self._reposition)
        children = self._positions(after.flatten(0, 1), capped.flatten()).reshape(axis.shape)
        if self._children.shape[1] < axis.shape[1]:  # nothing but the two special ones so far
            self._children = self._children.repeat(axis.shape[1], axis=1)
        self._children[frontier] = children
        self._is_expanded[frontier] = True

    def _unexpanded(self) -> Indices:
        found: Indices = np.flatnonzero(~self._is_expanded & ~self.is_over)
        return found

    def _positions(self, points: Tensor, capped: Tensor) -> Indices:
        """Return the positions (B,) of ``points`` int32 (B, N, D); new ones are added."""
        kind = torch.where(capped, CAPPED, torch.where(rules.is_over(points), OVER, -1)).numpy()
        rows = points.contiguous().numpy().reshape(len(points), -1)
        known = self.size
        found = kind.copy()
        new: list[int] = []
        for row in np.flatnonzero(kind < 0):
            key = rows[row].tobytes()
            found[row] = self._index.setdefault(key, known + len(new))
            if found[row] == known + len(new):
                new.append(int(row))
        self._add(points[torch.tensor(new, dtype=torch.int64)])
        return found

    def _add(self, points: Tensor) -> None:
        width = self._children.shape[1]
        self._points = torch.cat([self._points, points])
        unknown = np.full((len(points), width), OVER)
        self._children = np.concatenate([self._children, unknown])
        nothing = np.zeros(len(points), dtype=np.bool_)
        self._is_expanded = np.concatenate([self._is_expanded, nothing])
        self.is_over = np.concatenate([self.is_over, nothing])
