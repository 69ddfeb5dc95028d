"""The exact Newton polytope: the vertices of conv(S) + R^D_+ in two and three coordinates.

`rules.newton_polytope` removes the points above another point. Here a point goes also when it
lies above a convex combination of others, as in the theory of singularities. Both end a game at
the same moment, but the states of this one are smaller.

A point p lies above such a combination if and only if the differences d_j = p_j - p have weights
w >= 0, not all zero, with sum w_j d_j <= 0. A basic solution of these inequalities has at most D
positive weights, so for D = 3 it is enough to try pairs and triples, on integers and without a
linear program.

Axes: ``...`` any batch shape, N points, D coordinates, C pairs or triples of points.
"""

from typing import Final

import torch
from torch import Tensor

from hpsearch.game import rules

MAX_EXACT_COORDINATE: Final = 2**20
"""The determinant of three differences is then below 6 * 2^60, which int64 holds."""


def exact_polytope(points: Tensor) -> Tensor:
    """Keep the vertices of conv(points) + R^D_+.

    The work and the memory grow with N^4: 20 points in 3 coordinates need some 5 MB a game.

    Args:
        points: int32 (..., N, D), D = 2 or 3.

    Returns:
        int32 (..., N, D), canonical.

    Raises:
        ValueError: D is neither 2 nor 3, or a coordinate exceeds `MAX_EXACT_COORDINATE`.
    """
    dimension = points.shape[-1]
    if dimension not in (2, 3):
        raise ValueError(f"the exact polytope is known in 2 or 3 coordinates, got {dimension=}")
    if (points > MAX_EXACT_COORDINATE).any():
        raise ValueError(
            f"exact integers need coordinates of at most {MAX_EXACT_COORDINATE}, "
            f"got {points.max().item()}"
        )
    points = rules.newton_polytope(points)
    live = rules.is_live(points)
    wide = points.long()
    differences = wide.unsqueeze(-3) - wide.unsqueeze(-2)  # [..., i, j, :] = p_j - p_i
    itself = torch.eye(points.shape[-2], dtype=torch.bool, device=points.device)
    others = live.unsqueeze(-2) & ~itself

    above = _above_pair(differences, others)
    if dimension == 3:
        above |= _above_triple(differences, others)
    return rules.sort_points(torch.where((live & ~above).unsqueeze(-1), points, rules.PADDING))


def _above_pair(differences: Tensor, others: Tensor) -> Tensor:
    """Say where a combination of two differences is <= 0 in every coordinate.

    With u and v the differences, no coordinate may be positive in both. A coordinate k that is
    positive only in v limits the weight of v, a coordinate l that is positive only in u that of
    u, and the two limits leave room if and only if v_k u_l <= u_k v_l.

    Args:
        differences: int64 (..., N, N, D).
        others: bool (..., N, N), which of them count.

    Returns:
        bool (..., N).
    """
    (u, v), both = _choose(differences, others, 2)
    needs_u = ((u <= 0) & (v > 0)).unsqueeze(-1)  # (..., C, k, 1)
    needs_v = ((v <= 0) & (u > 0)).unsqueeze(-2)  # (..., C, 1, l)
    excluded = v.unsqueeze(-1) * u.unsqueeze(-2) > u.unsqueeze(-1) * v.unsqueeze(-2)
    impossible = ((u > 0) & (v > 0)).any(-1) | (needs_u & needs_v & excluded).flatten(-2).any(-1)
    return (both & ~impossible).any(-1)


def _above_triple(differences: Tensor, others: Tensor) -> Tensor:
    """Say where a combination of three differences is zero twice and <= 0 in the third place.

    By Cramer's rule the weights that make coordinates m + 1 and m + 2 vanish are the components m
    of v x w, w x u and u x v, of one sign; coordinate m is then their determinant.

    Args:
        differences: int64 (..., N, N, 3).
        others: bool (..., N, N), which of them count.

    Returns:
        bool (..., N).
    """
    (u, v, w), all_three = _choose(differences, others, 3)
    weights = torch.stack([v.cross(w, dim=-1), w.cross(u, dim=-1), u.cross(v, dim=-1)])
    determinant = (u * weights[0]).sum(-1, keepdim=True)
    positive = (weights >= 0).all(0) & (weights > 0).any(0) & (determinant <= 0)
    negative = (weights <= 0).all(0) & (weights < 0).any(0) & (determinant >= 0)
    return (all_three & (positive | negative).any(-1)).any(-1)


def _choose(differences: Tensor, others: Tensor, size: int) -> tuple[list[Tensor], Tensor]:
    """List all choices of ``size`` others: their differences (..., N, C, D), and which count."""
    indices = torch.combinations(torch.arange(others.shape[-1], device=others.device), size)
    columns = indices.unbind(-1)
    chosen = [differences.index_select(-2, column) for column in columns]
    counts = torch.stack([others.index_select(-1, column) for column in columns]).all(0)
    return chosen, counts
