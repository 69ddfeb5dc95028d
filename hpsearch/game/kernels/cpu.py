"""The backend for a CPU: numba loops over the live points of each game, shared among threads.

The functions of `interface.Backend`: this file turns tensors into arrays for the loops in
`cpu_loops`. Nothing is compiled before its first call.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import cpu_loops
from hpsearch.game.kernels.cpu_loops import unrolled
from hpsearch.game.kernels.interface import GameState, Step
from hpsearch.game.random import lanes_of
from hpsearch.game.rules import GameConfig, subset_bits

__all__ = ["move", "newton_polytope", "observe", "random_starts", "step", "uniform", "zeillinger"]


def newton_polytope(points: Tensor) -> Tensor:
    result = torch.full(points.shape, rules.PADDING, dtype=torch.int32)
    cpu_loops.newton_polytope(_games(points), _games(result), unrolled(points.shape[-1]))
    return result


def move(points: Tensor, subset: Tensor, axis: Tensor, reposition: bool) -> tuple[Tensor, Tensor]:
    rules.check_move(subset, axis)
    batch = points.shape[:-2]
    bits = (subset.long() << torch.arange(points.shape[-1])).sum(-1)
    result = torch.full(points.shape, rules.PADDING, dtype=torch.int32)
    capped = torch.empty(batch, dtype=torch.bool)
    cpu_loops.move(
        _games(points),
        _flat(bits.expand(batch)),
        _flat(axis.expand(batch)),
        reposition,
        _games(result),
        _flat(capped),
        unrolled(points.shape[-1]),
    )
    return result, capped


def observe(points: Tensor) -> Tensor:
    result = torch.full(points.shape, float(rules.PADDING))
    cpu_loops.observe(_games(points), _games(result), unrolled(points.shape[-1]))
    return result.flatten(-2)


def random_starts(
    keys: Tensor,
    starts: Tensor,
    *,
    num_points: int,
    dimension: int,
    max_value: int,
    lanes: Tensor | None = None,
) -> Tensor:
    result = torch.empty((*starts.shape, num_points, dimension), dtype=torch.int32)
    cpu_loops.random_starts(
        _flat(keys),
        starts.contiguous().numpy(),
        _flat(lanes_of(starts) if lanes is None else lanes),
        max_value,
        _games(result),
        unrolled(dimension),
    )
    return result


def uniform(keys: Tensor, counters: Tensor, num_numbers: int) -> Tensor:
    result = torch.empty((len(keys), num_numbers), dtype=torch.float32)
    cpu_loops.uniform(_flat(keys), _flat(counters), result.numpy())
    return result


def zeillinger(points: Tensor) -> Tensor:
    result = torch.empty(points.shape[:-2], dtype=torch.int64)
    cpu_loops.zeillinger(_games(points), _flat(result))
    return result


def step(state: GameState, host_action: Tensor, agent_axis: Tensor, config: GameConfig) -> Step:
    shape, subset_bits = state.lengths.shape, _subset_bits(config.dimension)
    actions, axes = host_action.contiguous().numpy(), agent_axis.contiguous().numpy()
    next_points = torch.full_like(state.points, rules.PADDING)
    next_observation = torch.full_like(state.observation, float(rules.PADDING))
    done, truncated = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
    last, reward = np.empty(shape, np.bool_), np.empty(shape, np.float32)
    points, lengths, starts, keys, lanes, observation = (tensor.numpy() for tensor in state)
    illegal = cpu_loops.step(
        points,
        lengths,
        starts,
        keys,
        lanes,
        observation,
        subset_bits,
        actions,
        axes,
        config.max_value,
        config.max_steps,
        config.reposition,
        cpu_loops.REWARD_KINDS[config.reward],
        next_points.numpy(),
        done,
        truncated,
        last,
        reward,
        next_observation.numpy(),
        unrolled(config.dimension),
    )
    if illegal >= 0:
        raise ValueError(
            f"a move needs a host action in 0..{len(subset_bits) - 1} and an axis in its subset, "
            f"got host_action={actions.flat[illegal]}, agent_axis={axes.flat[illegal]} "
            f"in game {illegal}"
        )
    return Step(
        next_points=next_points,
        done=torch.from_numpy(done),
        truncated=torch.from_numpy(truncated),
        last=torch.from_numpy(last),
        reward=torch.from_numpy(reward),
        next_observation=next_observation,
    )


def _games(points: Tensor) -> NDArray[Any]:
    """Return (..., N, D) as an array (G, N, D)."""
    return np.asarray(points.contiguous().numpy().reshape(-1, *points.shape[-2:]))


def _flat(tensor: Tensor) -> NDArray[Any]:
    """Return (...) as an array (G,)."""
    return np.asarray(tensor.contiguous().numpy().reshape(-1))


@cache
def _subset_bits(dimension: int) -> NDArray[np.int64]:
    return np.array(subset_bits(dimension), dtype=np.int64)
