"""Playing games from given starts to their ends.

Axes: P members, G games, A games still looked at, N points, D coordinates.

What happened in measured games beside their mean length: how long they took, what was chosen.

Axes: P members, M modes (greedy, sampled), G games, L games still looked at, A actions of a role.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import HostActionEncoder
from hpsearch.game.stream import Stream
from hpsearch.trainers.graphs import Graphs, recorder_of
from hpsearch.trainers.policies import AgentPolicy, HostPolicy, Position
from hpsearch.trainers.rho import Lengths


@dataclass(frozen=True)
class Games:
    """The games of one role against one opponent in one mode."""

    lengths: tuple[int, ...]
    """games that finished after 0, 1, 2, ... moves, up to the longest one"""
    unfinished: int
    """games that did not finish"""
    actions: tuple[int, ...]
    """how often the role chose each of its A actions, as long as a game lasted"""

    @property
    def entropy(self) -> float:
        """Return the entropy of the role's actions in nats."""
        return entropy(self.actions)


def games(lengths: Lengths, actions: Sequence[int]) -> Games:
    """Count the lengths of one pair's games."""
    finished = np.bincount(lengths.moves[lengths.finished])
    return Games(tuple(finished.tolist()), int((~lengths.finished).sum()), tuple(actions))


def entropy(counts: Iterable[int]) -> float:
    """Return the entropy in nats of what was counted; 0 where nothing was."""
    there = [count for count in counts if count]
    total = sum(there)
    return -sum(count / total * math.log(count / total) for count in there) + 0.0


def pooled_entropy(opponents: Iterable[Games]) -> float:
    """Return the entropy of a role's actions against all opponents together."""
    return entropy(map(sum, zip(*(opponent.actions for opponent in opponents), strict=True)))


class ActionTally:
    """Counts the actions of one role while games are played, on their device.

    Attributes:
        role: host or agent.
        counts: int64 (P, M, A).
    """

    def __init__(
        self, role: str, *, num_members: int, num_modes: int, num_actions: int, modes: Tensor
    ) -> None:
        """Begin at nothing; ``modes`` int64 (G,) says which mode each game is of."""
        self.role = role
        self._first_action = modes * num_actions
        shape = (num_members, num_modes, num_actions)
        self.counts = torch.zeros(shape, dtype=torch.int64, device=modes.device)

    def add(self, actions: Tensor, lanes: Tensor, playing: Tensor) -> None:
        """Count ``actions`` int64 (P, L) of the games ``lanes`` (P, L) that are ``playing``."""
        index = actions + self._first_action[lanes]
        self.counts.flatten(1).scatter_add_(1, index, playing.long())


NOISE = 4
"""random numbers a game and move: two for the host, two for the agent"""


@torch.no_grad()
def play(
    host: HostPolicy,
    agent: AgentPolicy,
    starts: Tensor,
    *,
    max_steps: int,
    reposition: bool,
    exploration: tuple[Tensor, Tensor],
    stream: Stream,
    tally: ActionTally | None = None,
) -> tuple[Tensor, Tensor]:
    """Play from ``starts`` int32 (P, G, N, D), none of them over, for at most ``max_steps`` moves.

    ``exploration`` holds the host's and the agent's rates, (G,) or (1,); ``stream`` has a row a
    member. A game that exceeds the bound of the rules stays unfinished. ``tally``, if there is one,
    counts what its role chooses.

    Returns:
        moves int64 (P, G), ``max_steps`` where the game did not finish, and finished bool (P, G).
    """
    kernel = BACKENDS[default_backend(starts.device)]
    encoder = HostActionEncoder(starts.shape[-1])
    games = _Games(starts, max_steps)
    num_games = starts.shape[1]
    host_rate, agent_rate = (rate.expand(num_games) for rate in exploration)

    def make_a_move() -> None:
        # A game's noise does not depend on which others are still looked at.
        noise = stream.uniform(num_games * NOISE).unflatten(1, (num_games, NOISE))
        noise = _rows(noise, games.lanes)
        position = Position.of(games.points)
        action = host(position, noise[..., :2], host_rate[games.lanes])
        subset = encoder.decode(action)
        axis = agent(position, subset, noise[..., 2:], agent_rate[games.lanes])
        if tally is not None:
            tally.add(action if tally.role == "host" else axis, games.lanes, games.playing())
        games.advance(*kernel.move(games.points, subset, axis, reposition))

    graphs = Graphs(recorder_of(starts.device))
    for _ in range(max_steps):
        graphs.run("move", make_a_move)
        # A CPU leaves out games that are over; on a GPU a look at them would wait for the device.
        if starts.device.type == "cpu" and not games.leave_out_stopped():
            break
    return games.moves, games.finished


class _Games:
    """Games in progress, those that are over left out now and then.

    Attributes:
        points: int32 (P, A, N, D).
        lanes: int64 (P, A), which of the G games they are.
        moves: int64 (P, G), when each game finished; finished, stopped: bool (P, G).
    """

    def __init__(self, starts: Tensor, max_steps: int) -> None:
        """Begin with all games."""
        num_members, num_games = starts.shape[:2]
        self.points = starts.clone()
        self.lanes = torch.arange(num_games, device=starts.device).expand(num_members, -1)
        self.moves = torch.full((num_members, num_games), max_steps, device=starts.device)
        self.finished = torch.zeros_like(self.moves, dtype=torch.bool)
        self._stopped = torch.zeros_like(self.finished)
        self._move = torch.zeros((), dtype=torch.int64, device=starts.device)

    def playing(self) -> Tensor:
        """Say which of the games still looked at have not stopped, bool (P, A)."""
        return ~self._stopped.gather(1, self.lanes)

    def advance(self, points: Tensor, capped: Tensor) -> None:
        """Take in where the next move led: positions, and which games it capped."""
        self._move += 1
        stopped = ~self.playing()
        finishing = rules.is_over(points) & ~capped & ~stopped
        moves = torch.where(finishing, self._move, self.moves.gather(1, self.lanes))
        self.moves.scatter_(1, self.lanes, moves)
        self.finished.scatter_(1, self.lanes, self.finished.gather(1, self.lanes) | finishing)
        self._stopped.scatter_(1, self.lanes, stopped | finishing | capped)
        self.points.copy_(points)

    def leave_out_stopped(self) -> bool:
        """Look at fewer games once half of them have stopped; return whether any are left."""
        num_left = int((~self._stopped).sum(dim=1).max())
        if num_left <= self.lanes.shape[1] // 2:
            stopped = ~self.playing()
            kept = stopped.to(torch.uint8).argsort(dim=1, stable=True)[:, :num_left]
            self.points, self.lanes = _rows(self.points, kept), self.lanes.gather(1, kept)
        return num_left > 0


def _rows(tensor: Tensor, lanes: Tensor) -> Tensor:
    """Return rows ``lanes`` (P, A) of ``tensor`` (P, G, ...)."""
    index = lanes[(...,) + (None,) * (tensor.ndim - 2)]
    return tensor.gather(1, index.expand(*lanes.shape, *tensor.shape[2:]))
