"""Writing moves, drawing them and looking them up on a CPU, a loop each; see moves.py.

Axes: Q rings, R places of a ring, G games, B moves drawn of a ring, N points, D coordinates, F
numbers of an observation.
"""

import numba
import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Floats, Int32s, Int64s, batched, scalar
from hpsearch.trainers.moves import Batch, Rings

ZERO = np.float32(0.0)


def write(rings: Rings, newest: Rings, first: Tensor) -> None:
    rows = (tensor.contiguous() for tensor in newest)
    _write(*[tensor.numpy() for tensor in (*rings, *rows, first)])


@scalar  # a thread more would take longer to compile than it saves
def _write(
    points: Int32s,
    observation: Floats,
    subset: Int64s,
    action: Int64s,
    reward: Floats,
    done: Bools,
    last: Bools,
    new_points: Int32s,
    new_observation: Floats,
    new_subset: Int64s,
    new_action: Int64s,
    new_reward: Floats,
    new_done: Bools,
    new_last: Bools,
    first: Int64s,
) -> None:
    for q in range(len(first)):
        for g in range(new_reward.shape[1]):
            place = (first[q] + g) % reward.shape[1]
            for n in range(points.shape[2]):
                _copy(new_points[q, g, n], points[q, place, n])
            _copy(new_observation[q, g], observation[q, place])
            subset[q, place], action[q, place] = new_subset[q, g], new_action[q, g]
            reward[q, place] = new_reward[q, g]
            done[q, place], last[q, place] = new_done[q, g], new_last[q, g]


def draw(noise: Tensor, added: Tensor, size: int, num_games: int) -> Tensor:
    places = np.empty(noise.shape, np.int64)
    _draw(noise.numpy(), added.numpy(), size, num_games, places)
    return torch.from_numpy(places)


@scalar
def _draw(noise: Floats, added: Int64s, size: int, num_games: int, places: Int64s) -> None:
    for q in range(len(places)):
        complete = added[q % len(added)] - num_games
        filled = min(max(complete, 0), size)
        for b in range(places.shape[1]):
            drawn = complete - filled + int(np.float64(noise[q, b]) * filled)
            places[q, b] = drawn % (size + num_games)


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
    shape, size = places.shape, rings.observation.shape[2]
    # Made by numpy, as one operation less than by torch makes an array of both.
    drawn = (
        np.empty((*shape, *rings.points.shape[2:]), np.int32),
        np.empty((*shape, size), np.float32),
        np.empty(shape, np.int64),
        np.empty(shape, np.int64),
        np.empty(shape, np.float32),
        np.empty((*shape, size), np.float32),
        np.empty(shape, np.int64),
        np.empty(shape, np.float32),
        np.empty(shape, np.bool_),
        np.empty(shape, np.int64),
    )
    given = [tensor.numpy() for tensor in (*rings, added, gamma, places)]
    _look_up(num_games, n_step, *[*given, *drawn])
    *of_moves, next_places = map(torch.from_numpy, drawn)
    return Batch._make([*of_moves, weight, places, next_places])


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
    places: Int64s,
    drawn_points: Int32s,
    drawn_observation: Floats,
    drawn_subset: Int64s,
    drawn_action: Int64s,
    drawn_reward: Floats,
    next_observation: Floats,
    next_subset: Int64s,
    drawn_discount: Floats,
    drawn_known: Bools,
    next_places: Int64s,
) -> None:
    """Fill in what was drawn and what is next, fields of `Batch`, with n * Q for P.

    Row t of these and of ``places`` is of the ring t % Q.
    """
    num_rings, num_places = reward.shape
    for t in numba.prange(len(places)):
        q = t % num_rings
        for b in range(places.shape[1]):
            first = places[t, b] % num_places
            age = (added[q] - 1 - places[t, b]) % num_places
            moves, total, discount = _sum_rewards(
                reward[q], done[q], last[q], first, age, num_games, gamma[q], n_step
            )
            next_places[t, b] = (first + moves * num_games) % num_places
            drawn_reward[t, b], drawn_discount[t, b] = total, discount
            drawn_known[t, b] = not last[q, first] or gamma[q] == ZERO
        # Short loops, so that the processor waits for many places in memory at once.
        for b in range(places.shape[1]):
            first, after = places[t, b] % num_places, next_places[t, b]
            drawn_subset[t, b], drawn_action[t, b] = subset[q, first], action[q, first]
            next_subset[t, b] = subset[q, after]
        for b in range(places.shape[1]):
            first = places[t, b] % num_places
            for n in range(points.shape[2]):
                _copy(points[q, first, n], drawn_points[t, b, n])
            _copy(observation[q, first], drawn_observation[t, b])
        for b in range(places.shape[1]):
            _copy(observation[q, next_places[t, b]], next_observation[t, b])


@scalar
def _copy(source: Floats | Int32s, target: Floats | Int32s) -> None:
    """Copy numbers: where a slice is assigned, numba compiles its error's text, for 4 seconds."""
    for i in range(len(source)):
        target[i] = source[i]


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
    """Return how many moves are summed, their discounted reward, and what the next value counts.

    ``age`` moves, of all games, were stored after the one at ``first``.
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
