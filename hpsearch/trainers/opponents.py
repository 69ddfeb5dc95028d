"""Opponents that learned before: saved players, snapshots of a role, and draws among several.

Axes: P members, K snapshots kept, S of them met at once, W weights, B games, Q opponents.
Everything is masked arithmetic on tensors, so that no member waits for another and no step reads
what the device has computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.game.random import num_blocks, uniform
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import Checkpoint
from hpsearch.trainers.checkpoint_name import STATE
from hpsearch.trainers.config import CommonConfig, TrainerConfig, read_config
from hpsearch.trainers.config.players import DynamicSync, OpponentPool, PrioritisedChoice
from hpsearch.trainers.members import column, rows_of
from hpsearch.trainers.networks import Network
from hpsearch.trainers.policies import LearnedPolicy, build_net, draw
from hpsearch.trainers.ranks import ALONE, Ranks


@dataclass(frozen=True)
class SavedPlayer:
    """One role of a checkpoint, ready to play with one member (P = 1)."""

    config: TrainerConfig  # what it was trained with
    step: int
    net: Network

    @cached_property
    def policy(self) -> LearnedPolicy:
        """How it plays, with the weights that it was saved with."""
        return LearnedPolicy(self.net, self.config.plays_by)


def load_player(path: Path, role: str, device: torch.device) -> SavedPlayer:
    """Return the player that a checkpoint holds for ``role``, "host" or "agent".

    Raises CorruptError or ConfigError if it is damaged or of another version, ConflictError if
    there is none, or the role did not learn in it.
    """
    saved, config = _load(path, f"{role}.net.")
    learning = config.learning()
    if role not in learning:
        held = ", ".join(learning)
        raise ConflictError(
            f"the {role} of the checkpoint {path} is no learned player; it holds: {held}"
        )
    net = build_net(role, config, [config.seed], device)
    for name, tensor in net.state().items():
        weights = saved.tensors.get(f"{role}.net.{name}")
        if weights is None or weights.shape != tensor.shape[1:]:
            shape = tuple(tensor.shape[1:])
            raise CorruptError(f"the checkpoint {path} lacks {role}.net.{name} of shape {shape}")
        tensor[0].copy_(weights)
    return SavedPlayer(config, saved.step, net)


def saved_roles(path: Path) -> tuple[str, ...]:
    """Return which roles a checkpoint holds learned players for; raises as `load_player`."""
    _, config = _load(path, "no tensor")
    return tuple(config.learning())


def load_opponent(path: Path, role: str, config: CommonConfig, device: torch.device) -> SavedPlayer:
    """Return a checkpoint's player; raises as `load_player`, also if it plays another game."""
    player = load_player(path, role, device)
    for key, own, its in (
        ("dimension", config.dimension, player.config.dimension),
        ("max_num_points", config.max_num_points, player.config.max_num_points),
    ):
        if own != its:
            raise ConflictError(
                f"the {role} must play the same game, but {path} was trained with {key}={its} "
                f"instead of {own}; train one with this {key}"
            )
    return player


def _load(path: Path, prefix: str) -> tuple[Checkpoint, TrainerConfig]:
    newest = checkpoint.newest(path)
    if newest is None:
        raise ConflictError(
            f"there is no checkpoint at {path}; name one, or the folder of a run or a trial"
        )
    saved = checkpoint.load(newest, prefix)
    return saved, read_config(saved.config, source=str(path / STATE))


class Snapshots:
    """The last K snapshots of one role's networks, and the S that its opponent meets now."""

    def __init__(
        self,
        role: str,
        source: Network,
        options: Sequence[OpponentPool],
        keys: Tensor,
        ranks: Ranks = ALONE,
    ) -> None:
        """Begin with a snapshot of ``source``, the networks of ``role``, at step 0.

        ``options`` has a pool for each member; ``keys`` int64 (P,) draw the opponents.
        """
        num_members, num_weights = source.weights.shape
        device = source.weights.device
        self._role = role
        self._options = shared = options[0]
        self._keys, self._ranks = keys, ranks
        choices = [pool.choice for pool in options]
        powers = [how.power if isinstance(how, PrioritisedChoice) else 0.0 for how in choices]
        syncs = [pool.sync for pool in options]
        margins = [sync.margin if isinstance(sync, DynamicSync) else 0.0 for sync in syncs]
        self._power, self._margin = column(powers, device), column(margins, device)
        # The snapshots that are met; member p * S + s is met by member p.
        self.net = source.like(num_members * shared.at_once)
        places = (num_members, shared.size)  # (P, K)
        self._weights = torch.zeros(*places, num_weights, device=device)
        self._statistics = torch.zeros(*places, source.statistics.shape[1], device=device)
        # int64 (P, K), the step at which a snapshot was taken, -1 where there is none.
        self.taken = torch.full(places, -1, dtype=torch.int64, device=device)
        # float32 (P, K), rho of the games last played against it
        self.result = torch.ones(places, device=device)
        # int64 (P, S), which of the K are met
        self.met = torch.zeros(num_members, shared.at_once, dtype=torch.int64, device=device)
        self._count = torch.zeros(num_members, dtype=torch.int64, device=device)
        self._moves = torch.zeros(num_members, shared.at_once, device=device)
        self._finished = torch.zeros_like(self._moves)
        self._own = torch.zeros(num_members, 2, device=device)
        self._baseline = torch.zeros(num_members, device=device)
        for member in range(num_members):
            self.begin_with(source, torch.zeros_like(self._count), member)

    def begin_with(self, source: Network, step: Tensor, member: int) -> None:
        """Forget one member's snapshots and begin with one of ``source`` at ``step`` (P,)."""
        for counts in (self.met, self._count, self._moves, self._finished, self._own):
            counts[member] = 0
        self._baseline[member] = 0.0
        self.taken[member] = -1
        self.result[member] = 1.0
        only = torch.arange(len(self._count), device=step.device) == member
        self._take(source, step, only)
        self._fill_net()

    def is_look(self, steps: Sequence[int]) -> bool:
        """Return whether `sync` does anything at these steps of the members."""
        return any(step > 0 and step % self._options.sync.interval == 0 for step in steps)

    def count(self, done: Tensor, meets: Tensor) -> None:
        """Count a move of the games that meet a snapshot, and those that it ended; bool (P, B)."""
        places = (self._options.at_once, -1)
        self._moves += meets.unflatten(1, places).sum(dim=2)
        self._finished += (done & meets).unflatten(1, places).sum(dim=2)

    def count_own(self, done: Tensor) -> None:
        """Count a move of the games in which the role learns, and those it ended, bool (P, B)."""
        self._own[:, 0] += done.shape[1]
        self._own[:, 1] += done.sum(dim=1)

    def sync(self, source: Network, step: Tensor) -> None:
        """Where it is time at ``step`` int64 (P,): take a snapshot, choose opponents anew."""
        look = (step > 0) & (step % self._options.sync.interval == 0)
        self._share_counts()
        self._note_results(look)
        self._take(source, step, self._is_due(look, step))
        met = draw(self._chances(step)[:, None], self._noise(step))
        self.met.copy_(torch.where(look[:, None], met, self.met))
        self._own *= ~look[:, None]
        self._fill_net()

    def staleness(self, step: Tensor) -> Tensor:
        """Return how many steps ago each snapshot that is met was taken, int64 (P, S)."""
        return step[:, None] - self.taken.gather(1, self.met)

    def _share_counts(self) -> None:
        """Count the games of all ranks as one's own; the others begin at 0."""
        if self._ranks.size > 1:
            counts = (self._moves, self._finished, self._own)
            totals = self._ranks.average(torch.cat(counts, dim=1)) * self._ranks.size
            parts = totals.split([part.shape[1] for part in counts], dim=1)
            for count, total in zip(counts, parts, strict=True):
                count.copy_(total)

    def _note_results(self, look: Tensor) -> None:
        """Remember rho against the snapshots that were met, and count from 0 again."""
        # A snapshot may be met more than once; all its games count.
        nothing = torch.zeros_like(self.result)
        moves = nothing.scatter_add(1, self.met, self._moves)
        finished = nothing.scatter_add(1, self.met, self._finished)
        # A share of at least half a game keeps a snapshot that was never beaten comparable.
        rho = finished.clamp(min=0.5) / moves.clamp(min=1.0)
        self.result.copy_(rho.where(look[:, None] & (moves > 0), self.result))
        self._moves *= ~look[:, None]
        self._finished *= ~look[:, None]

    def _noise(self, step: Tensor) -> Tensor:
        num_drawn = self.met.shape[1]
        look = step // self._options.sync.interval
        return uniform(self._keys, look * num_blocks(num_drawn), num_drawn)

    def _is_due(self, look: Tensor, step: Tensor) -> Tensor:
        """Return for which of the members that ``look`` bool (P,) a snapshot is to be taken."""
        if not isinstance(self._options.sync, DynamicSync):
            return look
        moves, finished = self._own.unbind(1)
        rho = finished.clamp(min=0.5) / moves.clamp(min=1.0)
        # The first look after a snapshot says what later ones are compared with.
        is_first = self._baseline == 0
        gain = rho / self._baseline if self._role == "host" else self._baseline / rho
        improved = ~is_first & (gain >= 1.0 + self._margin)
        self._baseline.copy_(torch.where(look & is_first & (moves > 0), rho, self._baseline))
        return look & (improved | self._is_too_old(step, self.taken.amax(dim=1)))

    def _is_too_old(self, step: Tensor, taken: Tensor) -> Tensor:
        """Return whether what was ``taken`` then exceeds its age before the next look."""
        return step - taken + self._options.sync.interval > self._options.max_staleness

    def _take(self, source: Network, step: Tensor, due: Tensor) -> None:
        """Write the networks over the oldest snapshot where ``due`` bool (P,)."""
        place = (self._count % self._options.size)[:, None]
        # A new snapshot starts with the hardest result so far. Empty slots hold 1: `amin` ignores
        # it for agents, but it is the hardest for hosts, so it is masked unless all are empty.
        known = (self.taken >= 0) | (self._count == 0)[:, None]
        is_agent = self._role == "agent"
        hardest = self.result.amin(dim=1) if is_agent else (self.result * known).amax(dim=1)
        for ring, value in ((self.taken, step[:, None]), (self.result, hardest[:, None])):
            ring.scatter_(1, place, torch.where(due[:, None], value, ring.gather(1, place)))
        for bank, own in ((self._weights, source.weights), (self._statistics, source.statistics)):
            new = torch.where(due[:, None], own, rows_of(bank, place).squeeze(1))
            bank.scatter_(1, place[..., None].expand(-1, 1, own.shape[1]), new[:, None])
        self._count += due
        self._baseline *= ~due

    def _chances(self, step: Tensor) -> Tensor:
        """Return how likely each snapshot is to be met, float32 (P, K)."""
        newest = self.taken == self.taken.amax(dim=1, keepdim=True)
        is_met = (self.taken >= 0) & (newest | ~self._is_too_old(step[:, None], self.taken))
        # A good agent makes rho small, a good host makes it large. result^power by logarithms,
        # because a power of a small rho exceeds float32.
        sign = -1.0 if self._role == "agent" else 1.0
        weights = sign * self._power[:, None] * self.result.log()
        return weights.masked_fill(~is_met, -torch.inf).softmax(dim=1)

    def _fill_net(self) -> None:
        self.net.weights.copy_(rows_of(self._weights, self.met).flatten(0, 1))
        self.net.statistics.copy_(rows_of(self._statistics, self.met).flatten(0, 1))

    def state(self) -> dict[str, Tensor]:
        return {
            "weights": self._weights,
            "statistics": self._statistics,
            "taken": self.taken,
            "result": self.result,
            "met": self.met,
            "count": self._count,
            "moves": self._moves,
            "finished": self._finished,
            "own": self._own,
            "baseline": self._baseline,
            "met_weights": self.net.weights.unflatten(0, self.met.shape),
            "met_statistics": self.net.statistics.unflatten(0, self.met.shape),
        }

    def settings(self) -> dict[str, Tensor]:
        return {"keys": self._keys, "power": self._power, "margin": self._margin}


class Draws:
    """Which of K opponents each game has.

    The opponent of start s in lane b of member p is a function of (keys[p], b, s), as the start
    itself is, so there is nothing that a checkpoint would have to keep.
    """

    def __init__(
        self, weights: Sequence[float], keys: Tensor, num_games: int, lanes: Tensor
    ) -> None:
        """Draw by ``weights``, K of them, for the games of ``lanes`` int64 (B,) of each member.

        ``num_games`` are there on all ranks. ``keys`` int64 (P,) has one for each member.
        """
        self.keys = keys
        # int64 (P, B), the number of each game's opponent, changed in place
        self.opponent = torch.zeros(len(keys), len(lanes), dtype=torch.int64, device=keys.device)
        self._weights = torch.tensor(weights, dtype=torch.float64, device=keys.device)
        self._num_games, self._lanes = num_games, lanes

    def draw(self, starts: Tensor, uniform: Callable[[Tensor, Tensor, int], Tensor]) -> None:
        """Draw the opponents of the games with the numbers ``starts``, int64 (P, B).

        ``uniform`` is a kernel's: it takes keys (Q,), counters (Q,) and a count of numbers.
        """
        keys = self.keys[:, None].expand_as(starts)
        counters = starts * self._num_games + self._lanes
        noise = uniform(keys.flatten(), counters.flatten(), 1).reshape(starts.shape)
        self.opponent.copy_(draw(self._weights.expand(*starts.shape, -1), noise))
