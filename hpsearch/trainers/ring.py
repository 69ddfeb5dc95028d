"""A ring of moves: how they lie in it, and what the next n of some of them earned.

Returns of n moves: Sutton and Barto, Reinforcement Learning (2018), section 7.1.

Axes: P members, G games written at once, R places of the ring, B transitions of a batch, N points,
D coordinates, F numbers of an observation.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """What to learn from: moves, and where each led after up to n of them."""

    points: Tensor
    """int32 (P, B, N, D), no rows of it where the buffer does not keep points"""
    observation: Tensor
    """float32 (P, B, F)"""
    subset: Tensor
    """int64 (P, B): the host's action"""
    action: Tensor
    """int64 (P, B): the role's own action"""
    reward: Tensor
    """float32 (P, B), of n moves, discounted"""
    next_observation: Tensor
    """float32 (P, B, F), after n moves"""
    next_subset: Tensor
    """int64 (P, B): the host's action there"""
    discount: Tensor
    """float32 (P, B): what the next position's value counts, 0 where the game is over"""
    weight: Tensor
    """float32 (P, B): corrects for how often a move is drawn; 1 where all are alike"""
    known: Tensor
    """bool (P, B): whether what is next is stored, or counts for nothing by a gamma of 0; it is not
    stored after the last move that a game is allowed"""
    places: Tensor
    """int64 (P, B): where the first moves lie in the ring"""


class Rings(NamedTuple):
    """What is stored of each move, as in `Transitions`."""

    points: Tensor
    """int32 (P, R, N, D), or (P, R, 0, D)"""
    observation: Tensor
    """float32 (P, R, F)"""
    subset: Tensor
    """int64 (P, R)"""
    action: Tensor
    """int64 (P, R)"""
    reward: Tensor
    """float32 (P, R)"""
    done: Tensor
    """bool (P, R)"""
    last: Tensor
    """bool (P, R)"""


@dataclass(frozen=True)
class Layout:
    """How moves lie in the ring."""

    num_games: int
    """G: a game's next move lies so many places further on"""
    num_places: int
    """R"""

    def flat(self, places: Tensor) -> Tensor:
        """Return ``places`` (P, B), wrapped around, as places among those of all members."""
        members = torch.arange(len(places), device=places.device)[:, None]
        return members * self.num_places + places % self.num_places


def look_up(
    rings: Rings,
    layout: Layout,
    *,
    places: Tensor,
    weight: Tensor,
    added: Tensor,
    gamma: Tensor,
    n_step: int,
) -> Batch:
    """Return the moves at ``places`` int64 (P, B) and what follows them.

    Args:
        rings: what is stored.
        layout: how.
        places: int64 (P, B), of the first moves.
        weight: float32 (P, B), what each counts.
        added: int64 (P,), moves stored so far, also those overwritten since.
        gamma: float32 (P,), discount a move.
        n_step: moves that a reward sums at most; fewer where a game or the memory ends.
    """
    first, gamma = layout.flat(places), gamma[:, None]
    last, reward, discount = _sum_rewards(rings, layout, places, added, gamma, n_step)
    after = layout.flat(last + layout.num_games)
    return Batch(
        points=_rows(rings.points, first),
        observation=_rows(rings.observation, first),
        subset=_rows(rings.subset, first),
        action=_rows(rings.action, first),
        reward=reward,
        next_observation=_rows(rings.observation, after),
        next_subset=_rows(rings.subset, after),
        discount=discount,
        weight=weight,
        known=~_rows(rings.last, first) | (gamma == 0),
        places=places,
    )


def _sum_rewards(
    rings: Rings, layout: Layout, places: Tensor, added: Tensor, gamma: Tensor, n_step: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return where the last of up to n moves lies, their discounted reward, and what is next's.

    The sum ends with a game, and before a move after which nothing is known. The next value counts
    gamma^n, and nothing where the game is over.
    """
    last, first = places, layout.flat(places)
    reward, done = _rows(rings.reward, first), _rows(rings.done, first)
    discount = gamma.expand(places.shape)
    going = ~(done | _rows(rings.last, first))
    age = (added[:, None] - 1 - places) % layout.num_places
    for move in range(1, n_step):
        further = layout.flat(last + layout.num_games)
        is_known = age >= (move + 1) * layout.num_games
        going = going & is_known & ~_rows(rings.last, further)
        last = torch.where(going, last + layout.num_games, last)
        reward = reward + going * discount * _rows(rings.reward, further)
        discount = torch.where(going, discount * gamma, discount)
        done = torch.where(going, _rows(rings.done, further), done)
        going = going & ~done
    return last, reward, discount * ~done


def _rows(ring: Tensor, flat: Tensor) -> Tensor:
    """Return what lies at ``flat`` (P, B) of a ring (P, R, ...)."""
    rows: Tensor = ring.flatten(0, 1).index_select(0, flat.flatten()).unflatten(0, flat.shape)
    return rows
