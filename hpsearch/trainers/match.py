"""The published match: how many games a pair begins within a fixed number of moves.

What counts, where the published code (hironaka's validator) leaves it open: coordinates are uniform
on 0..19, since its max_value of 20 is not included. A start is neither reduced nor asked whether it
is over, so every game takes a move. Every game begun counts, also one that is stopped after 1,000
moves (there after 1,001) and the last one, which is cut off. Positions are exact integers; there
they are floats, which decide ties otherwise.

Axes: L lanes, each its own match; K games of a lane; N points, D coordinates.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.kernels.threads import threads
from hpsearch.game.random import derive_key, num_blocks
from hpsearch.game.stream import Stream
from hpsearch.trainers.playing import NOISE, play
from hpsearch.trainers.policies import Policy


@dataclass(frozen=True, kw_only=True)
class MatchRules:
    dimension: int  # D
    num_points: int  # points of a start
    num_rows: int  # N, the rows of a position: as many as the players know, at least num_points
    max_value: int  # coordinates of a start are uniform on 0..max_value
    max_steps: int  # moves after which a game is stopped
    reposition: bool
    """subtract each coordinate's minimum after a move; changes what learned players see"""
    num_moves: int  # moves of a match
    num_lanes: int  # independent matches, L

    def __post_init__(self) -> None:
        if self.num_rows < self.num_points:
            raise ValueError(
                "a position needs a row for every point of a start, "
                f"got {self.num_rows=}, {self.num_points=}"
            )


PUBLISHED: Final = MatchRules(
    dimension=3,
    num_points=20,
    num_rows=20,
    max_value=19,
    max_steps=1000,
    reposition=True,
    num_moves=10_000,
    num_lanes=16,
)


FIRST_GAMES: Final = 64  # games of a lane that tell how many more it takes
MOST_GAMES: Final = 4096  # games of a lane that are played at once, which bounds the memory


@dataclass(frozen=True)
class MatchResult:
    games: tuple[int, ...]  # games begun
    stopped: tuple[int, ...]
    """games of these that were stopped: too many moves, or a coordinate beyond the rules' bound"""

    @property
    def mean(self) -> float:
        return sum(self.games) / len(self.games)

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the games of a match; 0 for a single lane."""
        squares = sum((games - self.mean) ** 2 for games in self.games)
        return math.sqrt(squares / max(1, len(self.games) - 1))

    @property
    def stopped_share(self) -> float:
        return sum(self.stopped) / sum(self.games)


@threads(1)
def play_match(
    host: Policy, agent: Policy, match: MatchRules, *, seed: int, device: torch.device
) -> MatchResult:
    """Play a match in every lane, neither player exploring.

    The games of a lane follow one another only in the count of their moves, so many are played at
    once. Game g of lane l has starts and random numbers of its own: it is the same game whatever
    comes before it, and begins alike for all players. Policies see the games of one member.
    """
    shape = (match.num_lanes, 0)
    moves = torch.zeros(shape, dtype=torch.int64, device=device)
    finished = torch.zeros(shape, dtype=torch.bool, device=device)
    num_more = min(FIRST_GAMES, match.num_moves)
    while num_more > 0:
        numbers = range(moves.shape[1], moves.shape[1] + num_more)
        more_moves, more_finished = _play_games(host, agent, match, numbers, seed, device)
        moves = torch.cat([moves, more_moves], dim=1)
        finished = torch.cat([finished, more_finished], dim=1)
        left = match.num_moves - int(moves.sum(dim=1).min())
        num_more = min(MOST_GAMES, math.ceil(left / moves.double().mean().item() * 1.1))
    ends = moves.cumsum(dim=1)
    begun = (ends < match.num_moves).sum(dim=1) + 1  # a game without a move has not begun
    stopped = (~finished & (ends <= match.num_moves)).sum(dim=1)
    return MatchResult(tuple(begun.tolist()), tuple(stopped.tolist()))


def _play_games(
    host: Policy, agent: Policy, match: MatchRules, numbers: range, seed: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the moves of the games of these numbers, int64 (L, K), and which finished, bool."""
    shape = (match.num_lanes, len(numbers))
    games = torch.arange(numbers.start, numbers.stop, device=device).repeat(match.num_lanes)
    keys = _keys("noise", match, seed, device).repeat_interleave(len(numbers))
    noise = Stream(keys, games * match.max_steps * num_blocks(NOISE))
    never = torch.zeros(1, device=device)
    _, finished, moves = play(
        host,
        agent,
        _starts(match, games, seed, device),
        max_steps=match.max_steps,
        reposition=match.reposition,
        exploration=(never, never),
        noise=lambda lanes: noise.uniform(NOISE, lanes[0]).unsqueeze(0),
    )
    return moves.view(shape), finished.view(shape)


def _starts(match: MatchRules, games: Tensor, seed: int, device: torch.device) -> Tensor:
    """Return the starts of games (L * K,), lane by lane, int32 (1, L * K, N, D), not reduced."""
    size = (match.num_points, match.dimension)
    count = math.prod(size)
    keys = _keys("starts", match, seed, device).repeat_interleave(len(games) // match.num_lanes)
    numbers = BACKENDS[default_backend(device)].uniform(keys, games * num_blocks(count), count)
    # In float64 the product is exact, hence below max_value + 1.
    drawn = (numbers.double() * (match.max_value + 1)).to(torch.int32).unflatten(1, size)
    num_padded = match.num_rows - match.num_points
    padding = drawn.new_full((len(games), num_padded, match.dimension), rules.PADDING)
    starts: Tensor = rules.sort_points(torch.cat([drawn, padding], dim=1))
    return starts.unsqueeze(0)


def _keys(purpose: str, match: MatchRules, seed: int, device: torch.device) -> Tensor:
    lanes = range(match.num_lanes)
    return torch.tensor([derive_key(seed, "match", purpose, lane) for lane in lanes], device=device)
