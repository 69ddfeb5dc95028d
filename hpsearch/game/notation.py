"""Positions and moves as people write them."""

from collections.abc import Iterable

from torch import Tensor

from hpsearch.game import rules

COMPACT_BELOW = 10
"""coordinates below this are written without anything between them"""


def points_text(points: Tensor) -> str:
    """Write the points int32 (N, D) of one game, padding left out: ``200 021 003``.

    A set with a coordinate of more than one digit is written ``(12,0,3) (0,2,1)``.
    """
    rows = points[rules.is_live(points)].tolist()
    if max((max(row) for row in rows), default=0) < COMPACT_BELOW:
        return " ".join("".join(map(str, row)) for row in rows)
    return " ".join(f"({','.join(map(str, row))})" for row in rows)


def subset_text(subset: Tensor) -> str:
    """Write a host's choice bool (D,): ``{0,2}``."""
    return set_text(subset.nonzero().flatten().tolist())


def set_text(members: Iterable[int]) -> str:
    """Write a set of coordinates: ``{0,2}``."""
    return f"{{{','.join(map(str, members))}}}"
