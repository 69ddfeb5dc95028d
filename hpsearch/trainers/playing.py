"""Playing games from given starts to their ends; one game move by move, as text.

Axes: P members, G games, A games still in progress, N points, D coordinates, M modes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import points_text, subset_text
from hpsearch.game.stream import Stream
from hpsearch.trainers.graphs import Graphs, recorder_of
from hpsearch.trainers.members import rows_of
from hpsearch.trainers.policies import NUMBERS_A_CHOICE, Policy, Position, choose

NOISE = 2 * NUMBERS_A_CHOICE  # random numbers a game and move: the host's, then the agent's

Noise = Callable[[Tensor], Tensor]
"""from games int64 (P, A) to the random numbers of their next move, float32 (P, A, NOISE)"""


def member_noise(keys: Tensor, num_games: int) -> Noise:
    """Return noise by a stream for each member, of the keys int64 (P,)."""
    stream = Stream(keys)

    def noise(lanes: Tensor) -> Tensor:
        numbers = stream.uniform(num_games * NOISE).unflatten(1, (num_games, NOISE))
        return rows_of(numbers, lanes)

    return noise


class ActionTally:
    """Counts the actions of one role while games are played, on their device."""

    def __init__(
        self, role: str, num_actions: int, modes: Tensor, num_members: int, num_modes: int
    ) -> None:
        """Begin at nothing; ``modes`` int64 (G,) is the mode of each game."""
        self.role = role
        self._first_action = modes * num_actions
        shape = (num_members, num_modes, num_actions)
        # int64 (P, M, number of actions)
        self.counts = torch.zeros(shape, dtype=torch.int64, device=modes.device)

    def add(self, actions: Tensor, lanes: Tensor, playing: Tensor) -> None:
        """Count ``actions`` int64 (P, A) of the games ``lanes`` (P, A) that are ``playing``."""
        self.counts.flatten(1).scatter_add_(1, actions + self._first_action[lanes], playing.long())


@torch.no_grad()
def play(
    host: Policy,
    agent: Policy,
    starts: Tensor,
    *,
    max_steps: int,
    reposition: bool,
    exploration: tuple[Tensor, Tensor],
    noise: Noise,
    tally: ActionTally | None = None,
    first_moves: "FirstMoves | None" = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Play from ``starts`` int32 (P, G, N, D) for at most ``max_steps`` moves, at least one.

    ``exploration`` holds the host's and the agent's rates, (G,) or (1,). Returns of each game,
    (P, G), its moves int64, ``max_steps`` where it did not finish; whether it did, bool; and the
    moves made int64, fewer where it exceeded the bound of the rules and stopped unfinished.
    """
    kernel = BACKENDS[default_backend(starts.device)]
    games = _Games(starts, max_steps)
    host_rate, agent_rate = (rate.expand(starts.shape[1]) for rate in exploration)

    def make_a_move() -> None:
        # A game's noise does not depend on which others are still in progress.
        numbers = noise(games.lanes)
        position = Position.of(games.points)
        of_lanes = host_rate[games.lanes], agent_rate[games.lanes]
        action, subset, axis = choose(host, agent, position, numbers.chunk(2, dim=2), of_lanes)
        if tally is not None:
            tally.add(action if tally.role == "host" else axis, games.lanes, games.playing())
        if first_moves is not None:
            first_moves.see(subset, axis)
        games.advance(*kernel.move(games.points, subset, axis, reposition))

    if first_moves is not None:
        first_moves.begin(starts)
    graphs = Graphs(recorder_of(starts.device))
    for _ in range(max_steps):
        graphs.run("move", make_a_move)
        if first_moves is not None:
            first_moves.keep(games.points)
        # A CPU leaves out games that are over; on a GPU reading that would wait for the device.
        if starts.device.type == "cpu" and not games.leave_out_stopped():
            break
    if first_moves is not None:
        first_moves.end(games.moves, games.finished)
    return games.moves.masked_fill(~games.finished, max_steps), games.finished, games.moves


class _Games:
    """Games in progress, those that are over left out now and then."""

    def __init__(self, starts: Tensor, max_steps: int) -> None:
        num_members, num_games = starts.shape[:2]
        self.points = starts.clone()  # int32 (P, A, N, D)
        # int64 (P, A), which of the G games they are
        self.lanes = torch.arange(num_games, device=starts.device).expand(num_members, -1)
        # int64 (P, G), made in each game until it stopped
        self.moves = torch.full((num_members, num_games), max_steps, device=starts.device)
        self.finished = torch.zeros_like(self.moves, dtype=torch.bool)  # bool (P, G)
        self._stopped = torch.zeros_like(self.finished)
        self._move = torch.zeros((), dtype=torch.int64, device=starts.device)

    def playing(self) -> Tensor:
        """Say which games in progress have not stopped, bool (P, A)."""
        return ~self._stopped.gather(1, self.lanes)

    def advance(self, points: Tensor, capped: Tensor) -> None:
        """Move on to ``points``; games that are ``capped`` stop unfinished."""
        self._move += 1
        stopped = ~self.playing()
        finishing = rules.is_over(points) & ~capped & ~stopped
        stopping = (finishing | capped) & ~stopped
        moves = torch.where(stopping, self._move, self.moves.gather(1, self.lanes))
        self.moves.scatter_(1, self.lanes, moves)
        self.finished.scatter_(1, self.lanes, self.finished.gather(1, self.lanes) | finishing)
        self._stopped.scatter_(1, self.lanes, stopped | stopping)
        self.points.copy_(points)

    def leave_out_stopped(self) -> bool:
        """Drop the stopped games once these are half of all; return whether any game is left."""
        num_left = int((~self._stopped).sum(dim=1).max())
        if num_left <= self.lanes.shape[1] // 2:
            stopped = ~self.playing()
            kept = stopped.to(torch.uint8).argsort(dim=1, stable=True)[:, :num_left]
            self.points, self.lanes = rows_of(self.points, kept), self.lanes.gather(1, kept)
        return num_left > 0


class FirstMoves:
    """Takes down how the first game of each member begins, while games are played.

    Nothing waits for the device before `records`.
    """

    def __init__(self, num_moves: int) -> None:
        self._num_moves = num_moves  # up to which they are kept
        self._positions: list[Tensor] = []  # each int32 (P, N, D)
        self._choices: list[tuple[Tensor, Tensor]] = []  # each bool (P, D) and int64 (P,)
        self._seen: tuple[Tensor, Tensor]
        self._end: tuple[Tensor, Tensor]

    def begin(self, starts: Tensor) -> None:
        self._positions.append(starts[:, 0])

    def see(self, subset: Tensor, axis: Tensor) -> None:
        """Look at a choice, bool (P, A, D) and int64 (P, A); as part of a move it is recorded."""
        # The first game stays the first of those in progress until it is over.
        self._seen = subset[:, 0], axis[:, 0]

    def keep(self, points: Tensor) -> None:
        """Keep the choice that was seen last, which led to ``points`` int32 (P, A, N, D)."""
        if len(self._choices) < self._num_moves:
            subset, axis = self._seen
            self._choices.append((subset.clone(), axis.clone()))
            self._positions.append(points[:, 0].clone())

    def end(self, moves: Tensor, finished: Tensor) -> None:
        """Learn how many moves each game took, int64 (P, G), and whether it finished, bool."""
        self._end = moves[:, 0], finished[:, 0]

    def records(self) -> "list[GameRecord]":
        """Return the game of each member."""
        positions = torch.stack(self._positions, dim=1).cpu()
        choices = zip(*self._choices, strict=True)
        subsets, axes = (torch.stack(each, dim=1).cpu() for each in choices)
        ends = (each.tolist() for each in self._end)
        members = zip(positions, subsets, axes.tolist(), *ends, strict=True)
        return [_game_record(*member) for member in members]


def _game_record(
    positions: Tensor, subsets: Tensor, axes: Sequence[int], num_moves: int, is_over: bool
) -> "GameRecord":
    """Put a game together from its positions (T + 1, N, D), subsets (T, D) and T axes."""
    left = rules.is_live(positions).sum(dim=-1).tolist()
    shown = min(num_moves, len(axes))
    moves = zip(positions[:shown], subsets[:shown], axes[:shown], left[1 : shown + 1], strict=True)
    return GameRecord(tuple(Move(*move) for move in moves), positions[shown], is_over, num_moves)


MAX_POINTS_WIDTH = 72  # characters of a position that a line shows; longer ones are cut


@dataclass(frozen=True)
class Move:
    points: Tensor  # int32 (N, D), the position before
    subset: Tensor  # bool (D,), the host's choice
    axis: int  # the agent's choice
    points_left: int


COLUMNS = ("move", "points before", "host", "agent", "points left")


@dataclass(frozen=True)
class GameRecord:
    moves: tuple[Move, ...]
    last: Tensor  # int32 (N, D), the position after these moves
    is_over: bool  # false if the game was cut off or exceeds the bound of the rules
    num_moves: int  # of the whole game, of which ``moves`` may be the first

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row a move, its cells under COLUMNS."""
        return [
            (
                str(number),
                _cut(points_text(move.points)),
                subset_text(move.subset),
                str(move.axis),
                str(move.points_left),
            )
            for number, move in enumerate(self.moves, start=1)
        ]

    def ending(self) -> str:
        end = "over" if self.is_over else "not over"
        end += f" after {self.num_moves} move" + "s" * (self.num_moves != 1)
        if len(self.moves) < self.num_moves:
            return f"{end}, of which the first {len(self.moves)} are shown"
        return f"{end}: {_cut(points_text(self.last))}"


def record_game(
    host: Policy, agent: Policy, start: Tensor, *, max_steps: int, reposition: bool, key: int
) -> GameRecord:
    """Play one game from ``start`` int32 (N, D) on its device; the players do not explore.

    After ``max_steps`` moves the game is cut off. ``key``, from `derive_key`, is that of the random
    numbers.
    """
    if rules.is_over(start):
        return GameRecord((), start.cpu(), is_over=True, num_moves=0)
    never, moves = torch.zeros(1, device=start.device), FirstMoves(max_steps)
    play(
        host,
        agent,
        start[None, None],
        max_steps=max_steps,
        reposition=reposition,
        exploration=(never, never),
        noise=member_noise(torch.tensor([key], device=start.device), 1),
        first_moves=moves,
    )
    (game,) = moves.records()
    return game


def transcript(game: GameRecord) -> str:
    """Write a game, a line a move: number, position, subset, axis, points left."""
    rows = game.rows()
    width, subset_width = (max((len(row[k]) for row in rows), default=0) for k in (1, 2))
    lines = [
        f"{number:>3}  {position:{width}}  host {subset:{subset_width}}  agent {axis}"
        f"  points {left}"
        for number, position, subset, axis, left in rows
    ]
    return "\n".join([*lines, game.ending()])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_POINTS_WIDTH else text[: MAX_POINTS_WIDTH - 4] + " ..."
