"""Looking moves up on a CPU: one loop over what was drawn. See `moves.look_up`.

Axes: Q rings, R places of a ring, B moves drawn of each, N points, D coordinates, F numbers.
"""

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpsearch.game.kernels.interface import batched, scalar
from hpsearch.trainers.moves import Batch, Rings

Floats = NDArray[np.float32]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

ZERO = np.float32(0.0)


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
    shape = places.shape
    batch = Batch(
        points=torch.empty(*shape, *rings.points.shape[2:], dtype=torch.int32),
        observation=torch.empty(*shape, rings.observation.shape[2]),
        subset=torch.empty(shape, dtype=torch.int64),
        action=torch.empty(shape, dtype=torch.int64),
        reward=torch.empty(shape),
        next_observation=torch.empty(*shape, rings.observation.shape[2]),
        next_subset=torch.empty(shape, dtype=torch.int64),
        discount=torch.empty(shape),
        known=torch.empty(shape, dtype=torch.bool),
        weight=weight,
        places=places,
    )
    tensors = (*rings, added, gamma, *batch)
    _look_up(num_games, n_step, *(tensor.numpy() for tensor in tensors))
    return batch


@batched
def _look_up(
    num_games: int,
    n_step: int,
    points: Int32s,
    observation: Floats,
    subset: Int64s,
    action: Int64s,
    reward: Floats,
    done: Bools,
    last: Bools,
    added: Int64s,
    gamma: Floats,
    found_points: Int32s,
    found_observation: Floats,
    found_subset: Int64s,
    found_action: Int64s,
    found_reward: Floats,
    next_observation: Floats,
    next_subset: Int64s,
    found_discount: Floats,
    found_known: Bools,
    _weight: Floats,
    places: Int64s,
) -> None:
    """Fill in what is found, of `Batch`'s fields; shapes as there, with Q for P."""
    num_rings, num_drawn = places.shape
    num_places = reward.shape[1]
    for q in numba.prange(num_rings):
        for b in range(num_drawn):
            first = places[q, b] % num_places
            age = (added[q] - 1 - places[q, b]) % num_places
            moves, total, discount = _sum_rewards(
                reward[q], done[q], last[q], first, age, num_games, gamma[q], n_step
            )
            after = (first + moves * num_games) % num_places
            found_points[q, b] = points[q, first]
            found_observation[q, b] = observation[q, first]
            found_subset[q, b] = subset[q, first]
            found_action[q, b] = action[q, first]
            found_reward[q, b] = total
            next_observation[q, b] = observation[q, after]
            next_subset[q, b] = subset[q, after]
            found_discount[q, b] = discount
            found_known[q, b] = not last[q, first] or gamma[q] == ZERO


@scalar
def _sum_rewards(
    reward: Floats,
    done: Bools,
    last: Bools,
    first: int,
    age: int,
    num_games: int,
    gamma: np.float32,
    n_step: int,
) -> tuple[int, np.float32, np.float32]:
    """Return how many moves are summed, their discounted reward, and what is next's.

    The move at ``first`` has ``age`` later ones of all games.
    """
    place, total, discount = first, reward[first], gamma
    moves = 1
    while moves < n_step and not (done[place] or last[place]):
        further = (place + num_games) % len(reward)
        if age < (moves + 1) * num_games or last[further]:
            break
        total += discount * reward[further]
        discount *= gamma
        place = further
        moves += 1
    return moves, total, ZERO if done[place] else discount
