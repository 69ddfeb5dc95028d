"""Policies: how hosts and agents choose, alike for training and measuring.

Axes: P members, B games, N points, D coordinates, A actions, R members of another policy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.players import agent_player, host_player
from hpsearch.game.rules import HostActionEncoder
from hpsearch.trainers import policies_cpu
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.common import PlaysBy
from hpsearch.trainers.graphs import quickest
from hpsearch.trainers.members import member_stream
from hpsearch.trainers.networks import Arithmetic, Network
from hpsearch.trainers.ranks import ALONE, Ranks


class Position:
    """The positions of P x B games; what networks see of them is computed when first asked for."""

    def __init__(self, points: Tensor, observe: Callable[[], Tensor]) -> None:
        self.points = points  # int32 (P, B, N, D)
        self._observe = observe

    @classmethod
    def of(cls, points: Tensor) -> "Position":
        """Return the position of ``points`` int32 (P, B, N, D), observed by the device's kernel."""
        return cls(points, lambda: BACKENDS[default_backend(points.device)].observe(points))

    @cached_property
    def observation(self) -> Tensor:
        """What networks see, float32 (P, B, N * D); see `rules.observe`."""
        return self._observe()

    def map(self, function: Callable[[Tensor], Tensor]) -> "Position":
        """Return the position with ``function`` applied to the games' axes, such as a slice."""
        return Position(function(self.points), lambda: function(self.observation))


NUMBERS_A_CHOICE = 2  # random: whether to explore, and which action is drawn


class Turn(NamedTuple):
    """What a player is asked: a choice in each of P x B games."""

    position: Position
    subset: Tensor | None  # bool (P, B, D), what the host chose; None where the host is asked
    noise: Tensor  # float32 (P, B, NUMBERS_A_CHOICE), uniform
    exploration: Tensor
    """float32, broadcasts to (P, B): how likely an action is drawn from the legal ones"""

    def map(self, function: Callable[[Tensor], Tensor]) -> "Turn":
        """Return the turn with ``function`` applied to the games' axes of all it holds."""
        return Turn(
            self.position.map(function),
            None if self.subset is None else function(self.subset),
            function(self.noise),
            function(self.exploration.expand(self.noise.shape[:2])),
        )


class Policy(Protocol):
    """A host or an agent that plays B games for each of P members.

    It returns the host's action index or the agent's axis, int64 (P, B).
    """

    def __call__(self, turn: Turn) -> Tensor: ...


def choose(
    host: Policy,
    agent: Policy,
    position: Position,
    noise: Sequence[Tensor],
    rates: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the host's action (P, B), its subset bool (P, B, D) and the agent's axis (P, B).

    ``noise`` and ``rates`` of exploration are those of the host and of the agent, as in `Turn`.
    """
    action = host(Turn(position, None, noise[0], rates[0]))
    subset = HostActionEncoder(position.points.shape[-1]).decode(action)
    return action, subset, agent(Turn(position, subset, noise[1], rates[1]))


@dataclass(frozen=True)
class LearnedPolicy:
    """Plays the action for which its network's output is highest, or draws one."""

    net: Network
    plays_by: PlaysBy  # what the outputs are; by values, actions are drawn alike often

    @property
    def own_rate(self) -> float:
        """Return how often it draws an action while it is not asked to explore."""
        return 1.0 if self.plays_by == "probabilities" else 0.0

    def __call__(self, turn: Turn) -> Tensor:
        return self.with_log_prob(turn)[0]

    def with_log_prob(self, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return the actions int64 (P, B), as a call does, and what else `chosen` returns."""
        values = self.net(features_of(turn.position.observation, turn.subset))
        legal = torch.ones_like(values, dtype=torch.bool) if turn.subset is None else turn.subset
        return self._choose(turn, values, legal)

    def _choose(self, turn: Turn, values: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        choose_by = quickest(chosen, policies_cpu.chosen, values.device, "off")
        return choose_by(self.plays_by, values, legal, turn.noise, turn.exploration)


def chosen(
    plays_by: PlaysBy, values: Tensor, legal: Tensor, noise: Tensor, exploration: Tensor
) -> tuple[Tensor, Tensor]:
    """Return actions int64 (P, B), and the logarithms, float32 (P, B), of their probabilities.

    They are drawn as often as ``exploration`` says, else the best are taken. Probabilities are
    those where all are drawn; the logarithms are 0 where roles play by values. ``values`` are
    float32 (P, B, A), ``legal`` is bool (P, B, A); the rest as in `Turn`.
    """
    weights = (softmax if plays_by == "probabilities" else uniform)(values, legal)
    greedy = legal_values(values, legal).argmax(dim=-1)
    action = torch.where(noise[..., 0] < exploration, draw(weights, noise[..., 1]), greedy)
    if plays_by == "values":
        return action, torch.zeros_like(noise[..., 0])
    return action, log_prob(values, legal, action)


def log_prob(values: Tensor, legal: Tensor, action: Tensor) -> Tensor:
    """Return the logarithms, float32 (P, B), of the probabilities of actions.

    These are the softmax of the ``legal`` ones' ``values``, shapes as in `chosen`; ``action`` int64
    (P, B) is legal.
    """
    log_probs = legal_values(values, legal).log_softmax(dim=2)
    return log_probs.gather(2, action[..., None]).squeeze(2)


@dataclass(frozen=True)
class ScriptedPolicy:
    name: str

    def __call__(self, turn: Turn) -> Tensor:
        points, noise = turn.position.points, turn.noise[..., 1]
        if turn.subset is None:
            return host_player(self.name)(points, noise)
        return agent_player(self.name)(points, turn.subset, noise)


@dataclass(frozen=True)
class FixedRatePolicy:
    """Draws its actions at its own rate, whatever exploration is asked."""

    policy: Policy
    rate: float

    def __call__(self, turn: Turn) -> Tensor:
        rate = torch.full_like(turn.noise[..., 0], self.rate)
        return self.policy(turn._replace(exploration=rate))


@dataclass(frozen=True)
class RegroupedPolicy:
    """A policy of R members that plays the games of P others, P * B / R games each."""

    policy: Policy
    num_rows: int  # R, a multiple of P or 1

    def __call__(self, turn: Turn) -> Tensor:
        # (R, P * B / R, ...) of (P, B, ...)
        regrouped = turn.map(lambda each: each.reshape(self.num_rows, -1, *each.shape[2:]))
        return self.policy(regrouped).reshape(turn.noise.shape[:2])


@dataclass(frozen=True)
class MixedPolicy:
    """Several policies, of which each game is played by one."""

    policies: Sequence[Policy]
    index: Tensor  # int64 (P, B), the policy of each game

    def __call__(self, turn: Turn) -> Tensor:
        chosen = [policy(turn) for policy in self.policies]
        return torch.stack(chosen).gather(0, self.index[None]).squeeze(0)


def features_of(observation: Tensor, subset: Tensor | None) -> Tensor:
    """Return what a network sees: the points' observation, and as an agent the host's subset."""
    if subset is None:
        return observation
    return torch.cat([observation, subset.to(observation.dtype)], dim=-1)


def legal_values(values: Tensor, legal: Tensor) -> Tensor:
    """Return ``values`` (..., A) with minus infinity where ``legal`` (..., A) is false.

    The values of a net that diverged are raised above it: a legal action is always the best.
    """
    return values.clamp(min=torch.finfo(values.dtype).min).masked_fill(~legal, -torch.inf)


def uniform(values: Tensor, legal: Tensor) -> Tensor:
    return legal.to(values.dtype)


def softmax(values: Tensor, legal: Tensor) -> Tensor:
    """Weigh the legal actions by their probabilities; alike where the net has diverged."""
    probabilities = legal_values(values, legal).softmax(dim=-1)
    return probabilities.where(~probabilities.isnan(), legal.to(values.dtype))


def draw(weights: Tensor, noise: Tensor) -> Tensor:
    """Return an index int64 (...) drawn by ``weights`` (..., A) with uniform ``noise`` (...)."""
    # In float64 noise < 1 stays below 1 as a product: what has weight 0 is never drawn.
    cumulated = weights.double().cumsum(dim=-1)
    return (cumulated > noise[..., None] * cumulated[..., -1:]).to(torch.uint8).argmax(dim=-1)


def build_net(
    role: str,
    config: CommonConfig,
    seeds: Sequence[int],
    device: torch.device,
    ranks: Ranks = ALONE,
) -> Network:
    """Return the fresh networks of a role, one member for each seed."""
    return Network(
        config.inputs(role),
        config.towers(role),
        Arithmetic(config.precision, config.compile),
        member_stream(seeds, device, role, "weights"),
        ranks,
    )
