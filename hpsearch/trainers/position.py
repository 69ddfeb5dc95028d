"""Positions as players see them.

Axes: P members, B games, N points, D coordinates.
"""

from collections.abc import Callable
from functools import cached_property

from torch import Tensor

from hpsearch.game.kernels import BACKENDS, default_backend


class Position:
    """The positions of P x B games; what networks see of them is computed when first asked for.

    Attributes:
        points: int32 (P, B, N, D).
        observation: float32 (P, B, N * D), see `rules.observe`.
    """

    def __init__(self, points: Tensor, observe: Callable[[], Tensor]) -> None:
        """Take points, and what gives their observation."""
        self.points = points
        self._observe = observe

    @classmethod
    def of(cls, points: Tensor) -> "Position":
        """Return the position of ``points`` int32 (P, B, N, D), to be observed where need be."""
        return cls(points, lambda: BACKENDS[default_backend(points.device)].observe(points))

    @cached_property
    def observation(self) -> Tensor:
        """Return the points scaled to [0, 1], all in one row, float32 (P, B, N * D)."""
        return self._observe()

    def map(self, function: Callable[[Tensor], Tensor]) -> "Position":
        """Return what ``function`` makes of the games' axes, such as some of the games."""
        return Position(function(self.points), lambda: function(self.observation))
