"""Moves as a replay buffer stores them, in rings, and what followed them: returns of n moves.

Sutton and Barto, Reinforcement Learning (2018), section 7.1. Axes: P members, Q rings, R places of
a ring, B transitions of a batch, N points, D coordinates, F numbers of an observation.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """What to learn from: moves, and where each led after up to n of them."""

    points: Tensor  # int32 (P, B, N, D), no rows of it where the buffer does not keep points
    observation: Tensor  # float32 (P, B, F)
    subset: Tensor  # int64 (P, B): the host's action
    action: Tensor  # int64 (P, B): the role's own action
    reward: Tensor  # float32 (P, B), of n moves, discounted
    next_observation: Tensor  # float32 (P, B, F), after n moves
    next_subset: Tensor  # int64 (P, B): the host's action there
    discount: Tensor
    """float32 (P, B): what the next position's value counts, 0 where the game is over"""
    known: Tensor
    """bool (P, B): whether what is next is stored, or counts for nothing by a gamma of 0; it is not
    stored after the last move that a game is allowed"""
    weight: Tensor  # float32 (P, B): corrects for how often a move is drawn; 1 where all are alike
    places: Tensor  # int64 (P, B): where the first moves lie in their ring
    next_places: Tensor  # int64 (P, B): where the next observations do


class Targets(NamedTuple):
    """What the values of the actions of a batch should be."""

    action: Tensor  # int64 (P, B)
    target: Tensor  # float32 (P, B)
    weight: Tensor  # float32 (P, B), by which an error counts in the loss
    known: Tensor  # bool (P, B): where false, neither loss nor errors know of the target
    delta: Tensor  # float32 (P,): larger errors count linearly


class Rings(NamedTuple):
    """What is stored of each move, as in `Transitions`, with Q rings of R places."""

    points: Tensor  # int32 (Q, R, N, D), or (Q, R, 0, D) where they are not asked for
    observation: Tensor
    subset: Tensor
    action: Tensor
    reward: Tensor
    done: Tensor
    last: Tensor


def write(rings: Rings, newest: Rings, first: Tensor) -> None:
    """Write moves (Q, G, ...), one a game, into the places from ``first`` int64 (Q,) on."""
    games = torch.arange(newest.reward.shape[1], device=first.device)
    num_rings, num_places = rings.reward.shape
    places = flat_places(first[:, None] + games, num_places, num_rings).flatten()
    for ring, rows in zip(rings, newest, strict=True):
        ring.flatten(0, 1).index_copy_(0, places, rows.flatten(0, 1))


def draw(noise: Tensor, added: Tensor, size: int, num_games: int) -> Tensor:
    """Return places int64 (n * Q, B) drawn by ``noise`` float32 (n * Q, B), each move as often.

    Of ``added`` int64 (Q,) moves of a ring the last one of each of ``num_games`` games leads
    nowhere yet; of those before, the newest ``size`` are there. Where there are none, any place
    will do.
    """
    complete = (added - num_games).repeat(len(noise) // len(added))[:, None]
    filled = complete.clamp(0, size)
    # In float64 noise < 1 stays below 1 as a product.
    return (complete - filled + (noise.double() * filled).long()) % (size + num_games)


def flat_places(places: Tensor, num_places: int, num_rings: int) -> Tensor:
    """Return ``places`` (n * Q, B), wrapped around, as places among those of all Q rings."""
    rings = torch.arange(len(places), device=places.device)[:, None] % num_rings
    return rings * num_places + places % num_places


def look_up(
    rings: Rings,
    num_games: int,
    *,
    places: Tensor,
    weight: Tensor,
    added: Tensor,
    gamma: Tensor,
    n_step: int,
) -> Batch:
    """Return the moves at ``places`` int64 (Q, B), each with its ``weight``, and what follows them.

    A game's next move lies ``num_games`` places further on; ``added`` int64 (Q,) moves were stored
    so far. A reward sums at most ``n_step`` moves, each discounted by ``gamma`` float32 (Q,).
    ``places`` and ``weight`` may be of n batches, one after the other, and have n * Q rows.
    """
    num_rings, num_places = rings.reward.shape
    added, gamma = (numbers.repeat(len(places) // num_rings) for numbers in (added, gamma))
    first, gamma = flat_places(places, num_places, num_rings), gamma[:, None]
    last, reward, discount = _sum_rewards(rings, num_games, places, added, gamma, n_step)
    next_places = (last + num_games) % num_places
    after = flat_places(next_places, num_places, num_rings)
    return Batch(
        points=_rows(rings.points, first),
        observation=_rows(rings.observation, first),
        subset=_rows(rings.subset, first),
        action=_rows(rings.action, first),
        reward=reward,
        next_observation=_rows(rings.observation, after),
        next_subset=_rows(rings.subset, after),
        discount=discount,
        known=~_rows(rings.last, first) | (gamma == 0),
        weight=weight,
        places=places,
        next_places=next_places,
    )


def _sum_rewards(
    rings: Rings, num_games: int, places: Tensor, added: Tensor, gamma: Tensor, n_step: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return where the last of up to n moves lies, their discounted reward, and what is next's.

    The sum ends with a game, and before a move after which nothing is known. The next value counts
    gamma^n, and nothing where the game is over.
    """
    num_rings, num_places = rings.reward.shape
    last, first = places, flat_places(places, num_places, num_rings)
    reward, done = _rows(rings.reward, first), _rows(rings.done, first)
    discount = gamma.expand(places.shape)
    going = ~(done | _rows(rings.last, first))
    age = (added[:, None] - 1 - places) % num_places
    for move in range(1, n_step):
        further = flat_places(last + num_games, num_places, num_rings)
        going = going & (age >= (move + 1) * num_games) & ~_rows(rings.last, further)
        last = torch.where(going, last + num_games, last)
        reward = torch.where(going, reward + discount * _rows(rings.reward, further), reward)
        discount = torch.where(going, discount * gamma, discount)
        done = torch.where(going, _rows(rings.done, further), done)
        going = going & ~done
    return last, reward, discount * ~done


def _rows(ring: Tensor, flat: Tensor) -> Tensor:
    rows: Tensor = ring.flatten(0, 1).index_select(0, flat.flatten()).unflatten(0, flat.shape)
    return rows
