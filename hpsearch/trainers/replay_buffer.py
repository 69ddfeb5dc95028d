"""A replay buffer: a ring of moves, drawn by chance or by priority.

Priorities: Schaul et al., arXiv 1511.05952, section 3. Every shard has a ring of its own, from
which a part of each batch is drawn. Axes: P members, S shards of this rank, Q = P * S rings, G
games written to a ring at once, R places of a ring, B transitions of a batch, N points, D
coordinates.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.trainers import config as configs
from hpsearch.trainers import moves_cpu
from hpsearch.trainers.config import PrioritisedReplay
from hpsearch.trainers.graphs import quickest
from hpsearch.trainers.members import column, rows_of
from hpsearch.trainers.moves import Batch, Rings, draw, look_up, write
from hpsearch.trainers.ranks import WHOLE, Shards
from hpsearch.trainers.rollouts import Transitions

MOST_ROWS = 4096
"""moves that are looked up at once; more would leave a processor's cache before they are used"""


class Priorities:
    """How often each place of a ring is drawn, and the weights that correct for it."""

    def __init__(
        self,
        size: int,
        options: Sequence[PrioritisedReplay],
        device: torch.device,
        shards: Shards = WHOLE,
    ) -> None:
        self._shards = shards
        self._alpha = column([option.alpha for option in options], device)[:, None]
        self._beta = column([option.beta for option in options], device)[:, None]
        self._beta_steps = column([option.beta_steps for option in options], device)[:, None]
        self._eps = column([option.eps for option in options], device)[:, None]
        num_rings = len(options) * shards.num_own
        # float32 (Q, R), to the power alpha; 0 where nothing lies
        self.priority = torch.zeros(num_rings, size, device=device)
        # float32 (Q,), the highest so far; a new transition gets it
        self.highest = torch.ones(num_rings, device=device)

    def add(self, places: Tensor, complete: Tensor, are_there: Tensor) -> None:
        """Take in new moves at ``places`` int64 (Q, G), not to be drawn before the next ones.

        Those at ``complete`` (Q, G), if ``are_there`` bool (Q,), get the highest priority now.
        """
        self.priority.scatter_(1, places, 0.0)
        highest = (self.highest * are_there)[:, None]
        self.priority.scatter_(1, complete, highest.expand(complete.shape))

    def sample(self, noise: Tensor, filled: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
        """Return places int64 (Q, B) drawn by ``noise`` float64 (Q, B), and weights (Q, B).

        A weight is (number of transitions times probability)^-beta, over the largest of the ring's.
        ``filled`` (Q, 1) is that number, ``step`` int64 (P,) the members'.
        """
        cumulated = self.priority.double().cumsum(dim=1)
        total = cumulated[:, -1:]
        places = torch.searchsorted(cumulated, noise * total, right=True)
        # While there is nothing to draw, any place will do.
        places = places.clamp(max=self.priority.shape[1] - 1)
        share = self.priority.gather(1, places) / total.float()
        progress = (step[:, None] / self._beta_steps).clamp(max=1.0)
        beta = torch.lerp(self._beta, torch.ones_like(self._beta), progress)
        beta = self._shards.per_shard(beta)
        weights = torch.where(total > 0, filled * share, 1.0) ** -beta
        return places, weights / weights.amax(dim=1, keepdim=True)

    def update(self, places: Tensor, errors: Tensor) -> None:
        """Set the priorities at ``places`` (Q, B) by the errors float32 (Q, B) made there.

        What is not to be drawn stays so: updates may be made while there is nothing to learn from.
        """
        # Of a net that diverged an error may be no number; what is drawn must lie in the ring.
        eps, alpha = self._shards.per_shard(self._eps), self._shards.per_shard(self._alpha)
        priority = (errors.abs().nan_to_num() + eps) ** alpha
        priority = priority.where(self.priority.gather(1, places) > 0, 0.0)
        self.priority.scatter_(1, places, priority)
        torch.maximum(self.highest, priority.amax(dim=1), out=self.highest)

    def forget(self) -> None:
        self.priority.zero_()
        self.highest.fill_(1.0)

    def state(self) -> dict[str, Tensor]:
        highest = self.highest
        if self._shards.total > 1:
            highest = highest.unflatten(0, (-1, self._shards.num_own))
        return {"priority": self._shards.of_members(self.priority), "highest": highest}

    def settings(self) -> dict[str, Tensor]:
        return {
            "alpha": self._alpha,
            "beta": self._beta,
            "beta_steps": self._beta_steps,
            "eps": self._eps,
        }


class ReplayBuffer:
    """The last C moves of each of P members whose next move has been made too."""

    def __init__(
        self,
        *,
        observation_size: int,
        points_shape: tuple[int, int],
        num_games: int,
        options: Sequence[configs.ReplayBufferConfig],
        stream: Stream,
        how: Literal["off", "default"],
        shards: Shards = WHOLE,
    ) -> None:
        """Make room for the moves of one member for each of ``options``.

        ``points_shape`` is (N, D), or (0, D) where points are not asked for; observations are cut
        off at ``observation_size``. ``num_games`` moves, one a game, are added at a time. ``how``
        says whether looking up is compiled; of each count given, ``shards`` say what is here.
        """
        self._shards = shards
        self.size = options[0].buffer_size // shards.total  # of a ring
        self._num_games = num_games // shards.total
        self.num_places = self.size + self._num_games  # of a ring
        self._stream = stream
        device = stream.keys.device
        self._write = quickest(write, moves_cpu.write, device, "off")
        self._draw = quickest(draw, moves_cpu.draw, device, "off")
        self._look_up = quickest(look_up, moves_cpu.look_up, device, how)
        places = (len(options) * shards.num_own, self.num_places)
        self._rings = Rings(
            points=torch.full((*places, *points_shape), -1, dtype=torch.int32, device=device),
            observation=torch.zeros(*places, observation_size, device=device),
            subset=torch.zeros(places, dtype=torch.int64, device=device),
            action=torch.zeros(places, dtype=torch.int64, device=device),
            reward=torch.zeros(places, device=device),
            done=torch.zeros(places, dtype=torch.bool, device=device),
            last=torch.zeros(places, dtype=torch.bool, device=device),
        )
        self._games = torch.arange(self._num_games, device=device)
        # int64 (P,), moves added so far to each ring
        self.added = torch.zeros(len(options), dtype=torch.int64, device=device)
        prioritised = [option.prioritised for option in options if option.prioritised is not None]
        num = self.num_places
        self._priorities = Priorities(num, prioritised, device, shards) if prioritised else None

    @property
    def filled(self) -> Tensor:
        """Return how many moves can be drawn from each ring, int64 (P,)."""
        return (self.added - self._num_games).clamp(0, self.size)

    def holds_any(self) -> Tensor:
        """Return whether there is a move to be drawn for each member, bool (P,)."""
        return self.added > self._num_games

    def add(self, seen: Transitions) -> None:
        """Write the newest move of every game over the oldest ones; the games of a ring in a row.

        ``seen`` has the axes (Q, G).
        """
        added = self._shards.per_shard(self.added)
        num_rows, size = self._rings.points.shape[2], self._rings.observation.shape[2]
        newest = Rings(
            seen.points[:, :, :num_rows],
            seen.observation[..., :size],
            *(seen.subset, seen.action, seen.reward, seen.done, seen.last),
        )
        self._write(self._rings, newest, added)
        if self._priorities is not None:
            places = (added[:, None] + self._games) % self.num_places
            complete = (places - self._num_games) % self.num_places
            self._priorities.add(places, complete, added > 0)
        self.added += self._num_games

    def sample(
        self, num_batches: int, *, batch_size: int, n_step: int, gamma: Tensor, step: Tensor
    ) -> Iterator[Batch]:
        """Yield ``num_batches`` batches: of each, what lies here; see `look_up`.

        A batch has ``batch_size`` transitions of each member, equally many of each ring. They are
        drawn by the member's own stream: where there are priorities, when the batch is asked for,
        by those of that moment, whose correction grows with ``step`` int64 (P,), else with others,
        so nothing may be stored meanwhile. While there is nothing to draw, what is yielded means
        nothing.
        """
        # At once: to draw the few numbers of one batch takes as long, and so does what follows.
        noise = self._stream.repeated_uniform(num_batches, batch_size)
        num_rows = noise.shape[1] * batch_size
        at_once = 1 if self._priorities is not None else max(1, MOST_ROWS // num_rows)
        for part in noise.split(at_once):
            yield from self._batches(part, n_step, gamma, step)

    def _batches(self, noise: Tensor, n_step: int, gamma: Tensor, step: Tensor) -> list[Batch]:
        """Return batches drawn by ``noise`` (n, P, B), one where there are priorities."""
        num_batches, per_shard = len(noise), self._shards.per_shard
        noise = self._shards.own_part(noise.flatten(0, 1))
        added = per_shard(self.added)
        if self._priorities is None:
            places = self._draw(noise, added, self.size, self._num_games)
            weight = torch.ones_like(noise)
        else:
            filled = per_shard(self.filled)[:, None]
            places, weight = self._priorities.sample(noise.double(), filled, step)
        drawn = self._look_up(
            self._rings,
            self._num_games,
            places=places,
            weight=weight,
            added=added,
            gamma=per_shard(gamma),
            n_step=n_step,
        )
        batches = zip(*(numbers.chunk(num_batches) for numbers in drawn), strict=True)
        return [Batch(*map(self._shards.of_members, batch)) for batch in batches]

    def positions(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return what was seen, float32 (Q, B, F), and the hosts' actions, at ``places`` (Q, B)."""
        return rows_of(self._rings.observation, places), self._rings.subset.gather(1, places)

    def reprioritise(self, places: Tensor, errors: Tensor) -> None:
        """Set the priorities of a batch's moves by the errors (P, B) made there."""
        if self._priorities is not None:
            of_shards = self._shards.of_shards
            self._priorities.update(of_shards(places), of_shards(errors))

    def leave_games(self, member: int, shards: slice | None = None) -> None:
        """Let one member's next moves be of other games: where its last ones led stays unknown.

        In some of its own ``shards``, in all where none are given.
        """
        newest = (self.added[member] - self._num_games + self._games) % self.num_places
        rings = self._rings.last[self._shards.rows_of(member)]
        rings[shards or slice(None)].index_fill_(1, newest, True)

    def forget(self) -> None:
        self.added.zero_()
        if self._priorities is not None:
            self._priorities.forget()

    def state(self) -> dict[str, Tensor]:
        rings = {k: self._shards.of_members(ring) for k, ring in self._rings._asdict().items()}
        own = {"added": self.added, "counters": self._stream.counters, **rings}
        return own | ({} if self._priorities is None else self._priorities.state())

    def places(self) -> dict[str, Tensor]:
        """Return which places of all shards' rings are here, by the names of the state."""
        names = [*Rings._fields, *([] if self._priorities is None else ["priority"])]
        rings = self._shards.places(self.num_places, self.added.device)
        places = dict.fromkeys(names, rings)
        if self._priorities is not None and self._shards.total > 1:
            places["highest"] = self._shards.places(1, self.added.device)
        return places

    def settings(self) -> dict[str, Tensor]:
        priorities = {} if self._priorities is None else self._priorities.settings()
        return {"keys": self._stream.keys, **priorities}
