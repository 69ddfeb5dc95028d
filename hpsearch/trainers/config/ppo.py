"""The configuration of proximal policy optimisation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from hpsearch.schema import Positive, Range
from hpsearch.trainers.config.common import CommonConfig, LearningRole, PlayerConfig
from hpsearch.trainers.config.net_arch import net_arch_faults, parse
from hpsearch.trainers.config.optim import (
    NonNegativeNumber,
    PositiveNumber,
    PositiveNumberOrNone,
    Rate,
)
from hpsearch.trainers.config.players import SavedPlayerConfig, ScriptedAgent, ScriptedHost
from hpsearch.trainers.config.weight_layout import Tower, num_actions


@dataclass(frozen=True)
class PPORole(LearningRole):
    """A role (host or agent) that learns by proximal policy optimisation.

    Encoder and ``net_arch`` are the policy's; the value network has its own encoder, alike.
    """

    value_net_arch: tuple[Any, ...]
    """hidden layers of the value network"""
    init: Literal["uniform", "orthogonal"]
    """how the weights are drawn"""
    last_policy_scale: Annotated[float, Range(low=0.0, open_low=True)]
    """factor of the last policy layer's first weights: small, so that play begins nearly uniform"""

    def check(self) -> Iterator[str]:
        yield from super().check()
        yield from net_arch_faults("value_net_arch", self.value_net_arch)


@dataclass(frozen=True)
class PPOOptions:
    """What only proximal policy optimisation knows (Schulman et al., arXiv 1707.06347)."""

    train_epochs: Positive
    """passes over the moves of a step"""
    minibatch_size: Positive
    """moves an update; the last of a pass may hold fewer"""
    gae_lambda: Rate
    """mixes one-step (0) and whole-game (1) advantages (Schulman et al., arXiv 1506.02438)"""
    recompute_advantages: bool
    """with the value network of each epoch instead of the first one's"""
    normalize_advantages: bool
    """to mean 0 and deviation 1 in every minibatch"""
    clip_range: PositiveNumber
    """change of an action's probability, as a share, beyond which nothing is gained"""
    value_clip_range: PositiveNumberOrNone
    """change of a value beyond which nothing is gained; null: no bound"""
    vf_coef: NonNegativeNumber
    """weight of the value loss"""
    ent_coef: NonNegativeNumber
    """weight of the policy's entropy"""
    target_kl: PositiveNumberOrNone
    """divergence from the policy that played above which a step makes no more updates"""


@dataclass(frozen=True)
class PPOConfig(CommonConfig):
    """Everything that a PPOTrainer is built from."""

    plays_by = "probabilities"
    algorithm: Literal["ppo"]
    host: PPORole | ScriptedHost | SavedPlayerConfig | None
    """who chooses subsets; null: those that opponents lists"""
    agent: PPORole | ScriptedAgent | SavedPlayerConfig | None
    """who chooses a coordinate of the subset; null: those that opponents lists"""
    ppo: PPOOptions

    def players(self) -> Mapping[str, PlayerConfig | None]:
        return {"host": self.host, "agent": self.agent}

    def towers(self, role: str) -> tuple[Tower, ...]:
        learner = self.learning()[role]
        assert isinstance(learner, PPORole)
        policy = Tower(
            encoder=learner.encoder,
            layers=parse(learner.net_arch),
            activation=learner.activation,
            num_outputs=num_actions(role, self.dimension),
            init=learner.init,
            last_scale=learner.last_policy_scale,
        )
        layers = parse(learner.value_net_arch)
        return policy, replace(policy, layers=layers, num_outputs=1, last_scale=1.0)

    def rows_of_update(self, role: str) -> int:
        return self.ppo.minibatch_size

    def rows_learned(self, role: str) -> int:
        learner = self.learning()[role]
        return learner.rollout_size * self.rollout_length * self.ppo.train_epochs

    def check(self) -> Iterator[str]:
        yield from super().check()
        for name, role in self.learning().items():
            moves = role.rollout_size * self.rollout_length
            if self.ppo.minibatch_size > moves:
                yield (
                    f"ppo.minibatch_size must not exceed the {moves} moves that the {name} makes a "
                    f"step (rollout_size times rollout_length), but is {self.ppo.minibatch_size}"
                )
        if self.ppo.minibatch_size % self.shards:
            size = self.ppo.minibatch_size
            yield f"shards must divide ppo.minibatch_size={size}, but is {self.shards}"
        if self.ppo.minibatch_size == 1 and self.ppo.normalize_advantages:
            yield "ppo.minibatch_size must be at least 2 where advantages are normalized"
