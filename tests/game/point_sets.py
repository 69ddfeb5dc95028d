"""The game on Python integers, written from its definition and slow: what the tests trust."""

from itertools import combinations

import torch
from torch import Tensor

Point = tuple[int, ...]


def as_tensor(points: list[Point], num_rows: int) -> Tensor:
    """Write points into the first rows of an int32 (num_rows, D)."""
    rows = torch.full((num_rows, len(points[0])), -1, dtype=torch.int32)
    rows[: len(points)] = torch.tensor(points, dtype=torch.int32)
    return rows


def as_points(rows: Tensor) -> list[Point]:
    """Read the points of one game, without padding, in the order of their rows."""
    return [tuple(row) for row in rows.tolist() if row[0] >= 0]


def minimal_points(points: list[Point]) -> list[Point]:
    """Reduce a list of points; largest first."""
    distinct = set(points)
    return sorted(
        (
            p
            for p in distinct
            if not any(q != p and all(a <= b for a, b in zip(q, p, strict=True)) for q in distinct)
        ),
        reverse=True,
    )


def moved_points(points: list[Point], subset: list[int], axis: int) -> list[Point]:
    """Replace coordinate ``axis`` by the sum over ``subset``, then reduce."""
    return minimal_points([(*p[:axis], sum(p[k] for k in subset), *p[axis + 1 :]) for p in points])


def repositioned_points(points: list[Point]) -> list[Point]:
    """Subtract each coordinate's minimum."""
    minima = [min(column) for column in zip(*points, strict=True)]
    return [tuple(a - b for a, b in zip(p, minima, strict=True)) for p in points]


def zeillinger_subset(points: list[Point]) -> set[int]:
    """Choose as Zeillinger's host does, from points in canonical order."""

    def key(pair: tuple[Point, Point]) -> tuple[int, int]:
        v = [a - b for a, b in zip(*pair, strict=True)]
        return max(v) - min(v), v.count(max(v)) + v.count(min(v))

    first, second = min(combinations(points, 2), key=key)
    v = [a - b for a, b in zip(first, second, strict=True)]
    pair = {v.index(min(v)), v.index(max(v))}
    return pair if len(pair) == 2 else {0, 1}
