"""The replay buffer: a ring of moves for each member, on one device.

Each position is stored once: that to which a move led is the one of the same game's next move, G
places further on. A move can therefore be drawn as soon as the next one has been made. Nothing is
known of what comes after the last move that a game is allowed, so none is learned from the last
one; not even if it ended the game, or else nobody would learn of those that did not.

Axes: P members, C moves to draw from, G games written at once, R = C + G places of the ring,
B transitions of a batch, N points, D coordinates, F numbers of an observation.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.trainers import config as configs
from hpsearch.trainers.compiling import compiled
from hpsearch.trainers.priorities import Priorities
from hpsearch.trainers.ring import Batch, Layout, Rings, look_up
from hpsearch.trainers.transitions import Transitions


class ReplayBuffer:
    """The last C moves of each of P members whose next move has been made too.

    Attributes:
        size: C.
        added: int64 (P,), moves added so far.
    """

    def __init__(
        self,
        *,
        observation_size: int,
        points_shape: tuple[int, int],
        num_games: int,
        options: Sequence[configs.ReplayBuffer],
        stream: Stream,
        how: Literal["off", "default"],
    ) -> None:
        """Make room for the moves of one member for each of ``options``.

        Args:
            observation_size: F; longer observations are cut off there.
            points_shape: (N, D), or (0, D) where nobody asks for points.
            num_games: G moves, one a game, are added at a time.
            options: what the configurations say.
            stream: draws.
            how: looking up is compiled, as `compiled` says.
        """
        self.size = options[0].buffer_size
        self._num_games = num_games
        self._num_places = self.size + num_games
        self._layout = Layout(num_games, self._num_places)
        self._look_up = compiled(look_up, how)
        self._stream = stream
        device = stream.keys.device
        places = (len(options), self._num_places)
        self._rings = Rings(
            points=torch.full((*places, *points_shape), -1, dtype=torch.int32, device=device),
            observation=torch.zeros(*places, observation_size, device=device),
            subset=torch.zeros(places, dtype=torch.int64, device=device),
            action=torch.zeros(places, dtype=torch.int64, device=device),
            reward=torch.zeros(places, device=device),
            done=torch.zeros(places, dtype=torch.bool, device=device),
            last=torch.zeros(places, dtype=torch.bool, device=device),
        )
        self._games = torch.arange(num_games, device=device)
        self.added = torch.zeros(len(options), dtype=torch.int64, device=device)
        prioritised = [one.prioritised for one in options if one.prioritised is not None]
        self._priorities = (
            Priorities(self._num_places, prioritised, device) if prioritised else None
        )

    @property
    def filled(self) -> Tensor:
        """Return how many moves can be drawn, int64 (P,)."""
        return (self.added - self._num_games).clamp(0, self.size)

    def add(self, seen: Transitions) -> None:
        """Write the newest move of every game over the oldest ones."""
        places = (self.added[:, None] + self._games) % self._num_places
        flat = self._layout.flat(places).flatten()
        num_rows, size = self._rings.points.shape[2], self._rings.observation.shape[2]
        moves = Rings(
            seen.points[:, :, :num_rows],
            seen.observation[..., :size],
            *(seen.subset, seen.action, seen.reward, seen.done, seen.last),
        )
        for ring, rows in zip(self._rings, moves, strict=True):
            ring.flatten(0, 1).index_copy_(0, flat, rows.flatten(0, 1))
        if self._priorities is not None:
            complete = (places - self._num_games) % self._num_places
            self._priorities.add(places, complete, self.added > 0)
        self.added += self._num_games

    def sample(self, batch_size: int, n_step: int, gamma: Tensor, step: Tensor) -> Batch:
        """Return ``batch_size`` transitions of each member, drawn by its own stream.

        While there is nothing to draw, what is returned means nothing.

        Args:
            batch_size: B.
            n_step: moves that a reward sums at most; fewer where a game or the memory ends.
            gamma: float32 (P,), discount a move.
            step: int64 (P,), training steps made, by which the correction of priorities grows.
        """
        noise, filled = self._stream.uniform(batch_size).double(), self.filled[:, None]
        if self._priorities is None:
            oldest = self.added[:, None] - self._num_games - filled
            places = (oldest + (noise * filled).long()) % self._num_places
            weight = torch.ones_like(noise, dtype=torch.float32)
        else:
            places, weight = self._priorities.sample(noise, filled, step)
        return self._look_up(
            self._rings,
            self._layout,
            places=places,
            weight=weight,
            added=self.added,
            gamma=gamma,
            n_step=n_step,
        )

    def reprioritise(self, places: Tensor, errors: Tensor) -> None:
        """Say how large the errors (P, B) of transitions at ``places`` (P, B) are now."""
        if self._priorities is not None:
            self._priorities.update(places, errors)

    def leave_games(self, member: int) -> None:
        """Let one member's next moves be of other games than its last ones.

        Of these nobody will know where they led.
        """
        newest = (self.added[member] - self._num_games + self._games) % self._num_places
        self._rings.last[member].index_fill_(0, newest, True)

    def forget(self) -> None:
        """Begin empty again."""
        self.added.zero_()
        if self._priorities is not None:
            self._priorities.forget()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        own = {"added": self.added, "counters": self._stream.counters, **self._rings._asdict()}
        return own | ({} if self._priorities is None else self._priorities.state())

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        priorities = {} if self._priorities is None else self._priorities.settings()
        return {"keys": self._stream.keys, **priorities}
