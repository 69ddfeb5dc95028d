"""Sample games, move by move, as text.

Axes: N points, D coordinates.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.notation import points_text, subset_text
from hpsearch.game.stream import Stream
from hpsearch.trainers.playing import NOISE
from hpsearch.trainers.policies import AgentPolicy, HostPolicy
from hpsearch.trainers.position import Position

MAX_POINTS_WIDTH = 72
"""characters of a position that a line shows; longer ones are cut"""


@dataclass(frozen=True)
class Move:
    """One move: what both chose in a position, and how many points it left."""

    points: Tensor
    """int32 (N, D), the position before"""
    subset: Tensor
    """bool (D,), the host's choice"""
    axis: int
    """the agent's choice"""
    points_left: int


@dataclass(frozen=True)
class GameRecord:
    """One game, whole or cut off."""

    moves: tuple[Move, ...]
    last: Tensor
    """int32 (N, D), the position after the last move"""
    is_over: bool
    """false if the game was cut off or exceeds the bound of the rules"""


@torch.no_grad()
def record_game(
    host: HostPolicy,
    agent: AgentPolicy,
    start: Tensor,
    *,
    max_steps: int,
    reposition: bool,
    exploration: tuple[float, float],
    key: int,
) -> GameRecord:
    """Play one game.

    Args:
        host: sees positions (1, 1, N, D), as the agent does.
        agent: the other player.
        start: int32 (N, D), canonical; the game is played on its device.
        max_steps: moves after which the game is cut off.
        reposition: subtract each coordinate's minimum after a move.
        exploration: the host's and the agent's rate.
        key: of the random numbers, from `derive_key`.
    """
    kernel = BACKENDS[default_backend(start.device)]
    encoder = HostActionEncoder(start.shape[-1])
    keys = torch.tensor([key], device=start.device)
    noise = Stream(keys, torch.zeros_like(keys))
    host_rate, agent_rate = torch.tensor(exploration, device=start.device).split(1)
    points, is_capped = start, False
    moves: list[Move] = []
    while not rules.is_over(points) and not is_capped and len(moves) < max_steps:
        numbers = noise.uniform(NOISE).unsqueeze(0)
        seen = Position.of(points[None, None])
        subset = encoder.decode(host(seen, numbers[..., :2], host_rate))
        axis = agent(seen, subset, numbers[..., 2:], agent_rate)
        after, capped = kernel.move(seen.points, subset, axis, reposition)
        num_left = int(rules.is_live(after).sum())
        moves.append(Move(points.cpu(), subset[0, 0].cpu(), int(axis), num_left))
        points, is_capped = after[0, 0], bool(capped)
    is_over = bool(rules.is_over(points)) and not is_capped
    return GameRecord(tuple(moves), points.cpu(), is_over)


def transcript(game: GameRecord) -> str:
    """Write a game, a line a move: number, position, subset, axis, points left."""
    positions = [_cut(points_text(move.points)) for move in game.moves]
    width = max(map(len, positions), default=0)
    subsets = [subset_text(move.subset) for move in game.moves]
    subset_width = max(map(len, subsets), default=0)
    lines = [
        f"{number:3}  {position:{width}}  host {subset:{subset_width}}  agent {move.axis}"
        f"  points {move.points_left}"
        for number, (move, position, subset) in enumerate(
            zip(game.moves, positions, subsets, strict=True), start=1
        )
    ]
    end = "over" if game.is_over else "not over"
    moves = f"{len(game.moves)} move" + "s" * (len(game.moves) != 1)
    return "\n".join([*lines, f"{end} after {moves}: {_cut(points_text(game.last))}"])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_POINTS_WIDTH else text[: MAX_POINTS_WIDTH - 4] + " ..."
