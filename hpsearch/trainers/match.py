"""The published match: games begun in so many moves of one game after another.

What counts, where the published code (hironaka's validator) leaves it open: coordinates are uniform
on 0..19, since its max_value of 20 is not included. A start is neither reduced nor asked whether it
is over, so every game takes a move. Every game begun counts, also one that is stopped after 1,000
moves (there after 1,001) and the last one, which is cut off. Positions are exact integers; there
they are floats, which decide ties otherwise.

Axes: L lanes, each its own match; N points, D coordinates.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.random import derive_key, num_blocks
from hpsearch.game.rules import HostActionEncoder
from hpsearch.game.stream import Stream
from hpsearch.trainers.playing import NOISE
from hpsearch.trainers.policies import Policy, Position


@dataclass(frozen=True, kw_only=True)
class MatchRules:
    dimension: int
    """D"""
    num_points: int
    """points of a start"""
    num_rows: int
    """N, the rows of a position: as many as the players know, at least num_points"""
    max_value: int
    """coordinates of a start are uniform on 0..max_value"""
    max_steps: int
    """moves after which a game is stopped"""
    reposition: bool
    """subtract each coordinate's minimum after a move; changes what learned players see"""
    num_moves: int
    """moves of a match"""
    num_lanes: int
    """independent matches, L"""

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


AT_ONCE: Final = 64
"""games of a lane whose starts are drawn together, which costs hardly more than those of one"""


@dataclass(frozen=True)
class MatchResult:
    games: tuple[int, ...]
    """games begun"""
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


@contextmanager
def one_thread() -> Iterator[None]:
    """Let one thread do all that a CPU does in the block: for few games at once the fastest."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
@torch.no_grad()
def play_matches(
    pairs: Mapping[str, tuple[Policy, Policy]],
    match: MatchRules,
    *,
    seed: int,
    device: torch.device,
) -> dict[str, MatchResult]:
    """Play a match of each pair in every lane, neither player exploring; all of them at once.

    Game g of lane l begins alike for all players; lanes do not depend on one another. Policies see
    the lanes as the games of one member; a player of all pairs sees those of all at once.
    """
    kernel = BACKENDS[default_backend(device)]
    encoder = HostActionEncoder(match.dimension)
    hosts = _by_lanes([host for host, _ in pairs.values()], match.num_lanes)
    agents = _by_lanes([agent for _, agent in pairs.values()], match.num_lanes)
    starts = _Starts(match, seed, device)
    noise_keys = _keys("noise", match, seed, device).repeat(len(pairs))
    noise = Stream(noise_keys, torch.zeros_like(noise_keys))
    never = torch.zeros(1, device=device)
    game = torch.zeros_like(noise_keys)  # the number of each lane's present game
    moves, stopped = torch.zeros_like(game), torch.zeros_like(game)
    points = starts.of(game)
    for move in range(1, match.num_moves + 1):
        if move % AT_ONCE == 1:
            drawn = iter(noise.uniform(AT_ONCE * NOISE).unsqueeze(0).split(NOISE, dim=-1))
        numbers = next(drawn)
        position = Position.of(points)
        chosen = [host(_part(position, at), None, numbers[:, at, :2], never) for host, at in hosts]
        subset = encoder.decode(torch.cat(chosen, dim=1))
        axes = [
            agent(_part(position, at), subset[:, at], numbers[:, at, 2:], never)
            for agent, at in agents
        ]
        points, capped = kernel.move(points, subset, torch.cat(axes, dim=1), match.reposition)
        moves += 1
        is_over = (rules.is_over(points) & ~capped)[0]
        is_stopped = (capped[0] | (moves >= match.max_steps)) & ~is_over
        stopped += is_stopped
        if move < match.num_moves:  # a game without a move has not begun
            ended = is_over | is_stopped
            game += ended
            moves.masked_fill_(ended, 0)
            points = torch.where(ended[:, None, None], starts.of(game), points)
    return {
        name: MatchResult(tuple(begun.tolist()), tuple(cut.tolist()))
        for name, begun, cut in zip(
            pairs, (game + 1).chunk(len(pairs)), stopped.chunk(len(pairs)), strict=True
        )
    }


def _by_lanes(players: Sequence[Policy], num_lanes: int) -> list[tuple[Policy, slice]]:
    """Return which player chooses in which lanes: one in all, or each in those of its match."""
    if all(player is players[0] for player in players):
        return [(players[0], slice(None))]
    return [(player, slice(n * num_lanes, (n + 1) * num_lanes)) for n, player in enumerate(players)]


def _part(position: Position, lanes: slice) -> Position:
    """Return the position in some lanes; in all of them it is the same one, observed once."""
    return position if lanes == slice(None) else position.map(lambda games: games[:, lanes])


class _Starts:
    """Starts as a function of seed, lane and the number of the game."""

    def __init__(self, match: MatchRules, seed: int, device: torch.device) -> None:
        self.keys = _keys("starts", match, seed, device)
        self._match = match
        self._kernel = BACKENDS[default_backend(device)]
        shape = (0, match.num_lanes, match.num_rows, match.dimension)
        self._drawn = torch.empty(shape, dtype=torch.int32, device=device)
        """those of the first games, (K, L, N, D)"""

    def of(self, game: Tensor) -> Tensor:
        """Return the starts of games by lane as int32 (1, L, N, D), sorted, not reduced.

        Args:
            game: int64 (L,), or several times L, of as many matches that begin alike.
        """
        while len(self._drawn) <= int(game.max()):
            self._drawn = torch.cat([self._drawn, self._draw(len(self._drawn))])
        lanes = torch.arange(len(game), device=game.device) % len(self.keys)
        return self._drawn[game, lanes].unsqueeze(0)

    def _draw(self, first: int) -> Tensor:
        """Return the starts of the games from number ``first`` on, int32 (AT_ONCE, L, N, D)."""
        size = (self._match.num_points, self._match.dimension)
        games = torch.arange(first, first + AT_ONCE, device=self.keys.device)
        lanes = len(self.keys)
        counters = (games * num_blocks(math.prod(size))).repeat_interleave(lanes)
        numbers = self._kernel.uniform(self.keys.repeat(AT_ONCE), counters, math.prod(size))
        # In float64 the product is exact, hence below max_value + 1.
        drawn = (numbers.double() * (self._match.max_value + 1)).to(torch.int32)
        padding = self._drawn.new_full(
            (AT_ONCE * lanes, self._match.num_rows - self._match.num_points, size[1]), rules.PADDING
        )
        points = torch.cat([drawn.unflatten(1, size), padding], dim=1)
        starts: Tensor = rules.sort_points(points).unflatten(0, (AT_ONCE, lanes))
        return starts


def _keys(purpose: str, match: MatchRules, seed: int, device: torch.device) -> Tensor:
    lanes = range(match.num_lanes)
    return torch.tensor([derive_key(seed, "match", purpose, lane) for lane in lanes], device=device)
