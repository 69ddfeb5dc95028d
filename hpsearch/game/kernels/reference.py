"""The backend that defines the others: torch, on any device, without a wait for the device."""

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels.interface import GameState, Step
from hpsearch.game.random import random_starts, uniform
from hpsearch.game.rules import GameConfig, newton_polytope, observe, zeillinger

__all__ = ["move", "newton_polytope", "observe", "random_starts", "step", "uniform", "zeillinger"]


def move(points: Tensor, subset: Tensor, axis: Tensor, reposition: bool) -> tuple[Tensor, Tensor]:
    moved = rules.move(points, subset, axis)
    # Before repositioning, which would hide it.
    capped = rules.is_capped(moved)
    return rules.reposition(moved) if reposition else moved, capped


def step(state: GameState, host_action: Tensor, agent_axis: Tensor, config: GameConfig) -> Step:
    subset = rules.HostActionEncoder(config.dimension).decode(host_action)
    next_points, capped = move(state.points, subset, agent_axis, config.reposition)
    length = state.lengths + 1
    # A capped game is not done: points that saturated may have merged.
    done = rules.is_over(next_points) & ~capped
    last = capped | (length >= config.max_steps)
    truncated = last & ~done
    reward = rules.reward_function(config.reward)(state.points, next_points, done)
    next_observation = torch.empty_like(state.observation)
    if state.observes:
        next_observation = observe(next_points)

    ended = done | truncated
    state.starts.add_(ended)
    fresh = random_starts(
        state.keys,
        state.starts,
        num_points=config.max_num_points,
        dimension=config.dimension,
        max_value=config.max_value,
        lanes=state.lanes,
    )
    state.points.copy_(torch.where(ended[..., None, None], fresh, next_points))
    state.lengths.copy_(torch.where(ended, 0, length))
    if state.observes:
        state.observation.copy_(observe(state.points))
    return Step(next_points, done, truncated, last, reward, next_observation)
