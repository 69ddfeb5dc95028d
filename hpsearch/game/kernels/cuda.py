"""The backend for a GPU: Triton programs, one launch an operator, none of which waits.

The functions of `interface.Backend`: this file turns tensors into launches of `cuda_programs`,
which imports triton at the first call. With TRITON_INTERPRET=1 set before that, its interpreter
runs the programs on the CPU: slowly, but exactly.

A program is one warp, with a row of a game in each lane: 32 / ROWS games, or one. Then other rows
are a shuffle away, the loops over rows end with these games' last point, and a new start is drawn
only where one of them has ended. One thread for each game would keep all lanes busy, but loops
over registers must be unrolled to all N rows, for games that have three or four points; and its
loads, 4 N D bytes apart, would not coalesce.
"""

from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any, Final

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels.interface import GameState, Step
from hpsearch.game.random import lanes_of, num_blocks
from hpsearch.game.rules import GameConfig, HostActionEncoder

__all__ = ["move", "newton_polytope", "observe", "random_starts", "step", "uniform", "zeillinger"]

NUM_WARPS: Final = 1
"""Warps of a program. With more than one, all would wait for the longest loop of any of them."""

LANES: Final = 32 * NUM_WARPS
"""Rows of a program. With fewer rows than threads, several threads would do the same work."""

INTERPRETED_LANES: Final = 2**17
"""Rows of a program in the interpreter, which runs one program after another, each in numpy."""


def newton_polytope(points: Tensor) -> Tensor:
    result = torch.empty(points.shape, dtype=points.dtype, device=points.device)
    _run(_programs().newton_polytope, points, (points.contiguous(), result))
    return result


def move(points: Tensor, subset: Tensor, axis: Tensor, reposition: bool) -> tuple[Tensor, Tensor]:
    rules.check_move(subset, axis)
    bits = (subset.long() << torch.arange(points.shape[-1], device=points.device)).sum(-1)
    result = torch.empty(points.shape, dtype=points.dtype, device=points.device)
    capped = torch.empty(points.shape[:-2], dtype=torch.bool, device=points.device)
    bits, axis = bits.expand(capped.shape).contiguous(), axis.expand(capped.shape).contiguous()
    tensors = (points.contiguous(), bits, axis, result, capped)
    _run(_programs().move, points, tensors, (reposition,))
    return result, capped


def observe(points: Tensor) -> Tensor:
    result = torch.empty(points.shape, dtype=torch.float32, device=points.device).flatten(-2)
    _run(_programs().observe, points, (points.contiguous(), result))
    return result


def random_starts(
    keys: Tensor,
    starts: Tensor,
    *,
    num_points: int,
    dimension: int,
    max_value: int,
    lanes: Tensor | None = None,
) -> Tensor:
    lanes = lanes_of(starts) if lanes is None else lanes
    shape = (*starts.shape, num_points, dimension)
    result = torch.empty(shape, dtype=torch.int32, device=starts.device)
    tensors = (keys.contiguous(), starts.contiguous(), lanes.contiguous(), result)
    _run(_programs().random_starts, result, tensors, (starts.shape[1], max_value))
    return result


def uniform(keys: Tensor, counters: Tensor, num_numbers: int) -> Tensor:
    result = torch.empty((len(keys), num_numbers), dtype=torch.float32, device=keys.device)
    total = len(keys) * num_blocks(num_numbers)
    block = min(_power_of_two(total), INTERPRETED_LANES) if _is_interpreted(keys.device) else 128
    with torch.cuda.device_of(keys):
        _programs().uniform[(_ceil_div(total, block),)](
            keys.contiguous(), counters.contiguous(), result, total, num_numbers, block
        )
    return result


def zeillinger(points: Tensor) -> Tensor:
    result = torch.empty(points.shape[:-2], dtype=torch.int64, device=points.device)
    _run(_programs().zeillinger, points, (points.contiguous(), result))
    return result


def step(state: GameState, host_action: Tensor, agent_axis: Tensor, config: GameConfig) -> Step:
    if host_action.device.type == "cpu":  # the interpreter knows no assertions
        rules.check_move(HostActionEncoder(config.dimension).decode(host_action), agent_axis)
    result = Step(
        next_points=torch.empty_like(state.points),
        done=torch.empty_like(state.lengths, dtype=torch.bool),
        truncated=torch.empty_like(state.lengths, dtype=torch.bool),
        last=torch.empty_like(state.lengths, dtype=torch.bool),
        reward=torch.empty_like(state.lengths, dtype=torch.float32),
        next_observation=torch.empty_like(state.observation),
    )
    tensors = (*state, host_action.contiguous(), agent_axis.contiguous(), *result)
    numbers = (
        state.lengths.shape[1],
        config.max_value,
        config.max_steps,
        config.reposition,
        config.reward,
        state.observes,
    )
    _run(_programs().step, state.points, tensors, numbers)
    return result


def _run(
    program: Any, points: Tensor, tensors: Sequence[Tensor], numbers: Sequence[object] = ()
) -> None:
    """Launch a program on G games, of the shape of ``points`` (..., N, D), shared among blocks.

    It takes the tensors, G, the numbers, N, D, ROWS and BLOCK, in this order.
    """
    num_points, dimension = points.shape[-2:]
    num_games, rows = points.shape[:-2].numel(), _power_of_two(num_points)
    if _is_interpreted(points.device):
        block = min(_power_of_two(num_games), max(1, INTERPRETED_LANES // rows))
    else:
        block = max(1, LANES // rows)
    grid = (_ceil_div(num_games, block),)
    sizes = (num_points, dimension, rows, block)
    with torch.cuda.device_of(points):
        # The assertion of `step` needs debug, which would also check every sum.
        program[grid](
            *tensors, num_games, *numbers, *sizes, num_warps=NUM_WARPS, sanitize_overflow=False
        )


@cache
def _programs() -> ModuleType:
    try:
        from hpsearch.game.kernels import cuda_programs
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "backend 'cuda' needs triton, which is not installed: pip install 'hpsearch[gpu]', "
            "or choose backend 'reference'"
        ) from error
    return cuda_programs


def _is_interpreted(device: torch.device) -> bool:
    interpreted: bool = _programs().INTERPRETED
    if not interpreted and device.type != "cuda":
        raise ValueError(
            "backend 'cuda' needs a device of type 'cuda', or TRITON_INTERPRET=1 in the "
            f"environment of the process, got {device.type!r}"
        )
    return interpreted


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


def _ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
