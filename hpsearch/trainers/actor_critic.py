"""What a role of P members learns with by policy optimisation."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.trainers.config import PPOConfig, PPORole
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.role_nets import POLICY, VALUE, member_stream


class ActorCritic(Learner):
    """A learner whose network has two towers, a policy and a value.

    Attributes:
        shuffle: random stream of the order in which moves are learned from.
    """

    def __init__(
        self,
        name: str,
        roles: Sequence[PPORole],
        configs: Sequence[PPOConfig],
        device: torch.device,
    ) -> None:
        """Build the role ``name`` of one member for each of its ``roles`` and ``configs``."""
        super().__init__(name, roles, configs, device)
        seeds = [config.seed for config in configs]
        self.shuffle = member_stream(seeds, device, name, "shuffle")

    def value(self, features: Tensor) -> Tensor:
        """Return the value float32 (P, R) of positions with ``features`` (P, R, I)."""
        return self.net.update_pass(features, tower=VALUE).squeeze(2)

    @torch.no_grad()
    def follow_statistics(self, features: Tensor) -> None:
        """Let batch norms follow ``features`` (P, R, I), once a step.

        Updates use the running statistics: with a minibatch's own the policy would differ from the
        one that played before anything was learned.
        """
        if self.net.statistics.shape[1]:
            for tower in (POLICY, VALUE):
                self.net(features, tower=tower, training=True)

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return {**super().settings(), "shuffle.keys": self.shuffle.keys}

    def _parts(self) -> dict[str, dict[str, Tensor]]:
        return {**super()._parts(), "shuffle": {"counters": self.shuffle.counters}}
