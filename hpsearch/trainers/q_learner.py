"""What a role of P members learns with by Q-learning. Axes: P members."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.trainers.columns import column, prefixed
from hpsearch.trainers.config import DQNConfig, DQNRole
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.networks import Network
from hpsearch.trainers.optim import TargetWeights
from hpsearch.trainers.replay_buffer import ReplayBuffer
from hpsearch.trainers.role_nets import build_net, member_stream
from hpsearch.trainers.schedulers import Scheduler


class QLearner(Learner):
    """A learner with a target network, a memory and exploration rates.

    Attributes:
        config: the role of the first member, for the fields that all members share.
        tau, huber_delta: float32 (P,); target_interval: int64 (P,) steps.
    """

    def __init__(
        self,
        name: str,
        roles: Sequence[DQNRole],
        configs: Sequence[DQNConfig],
        device: torch.device,
    ) -> None:
        """Build the role ``name`` of one member for each of its ``roles`` and ``configs``."""
        super().__init__(name, roles, configs, device)
        self.config = roles[0]
        seeds = [config.seed for config in configs]
        # The same stream again: the target network begins with the same weights.
        self.target_net = build_net(name, roles[0], configs[0], seeds, device)
        keeps_points = configs[0].dqn.minimax and name == "host"
        self.replay_buffer = ReplayBuffer(
            observation_size=self.net.observation_size,
            points_shape=(configs[0].max_num_points if keeps_points else 0, configs[0].dimension),
            num_games=roles[0].rollout_size,
            options=[config.replay_buffer for config in configs],
            stream=member_stream(seeds, device, name, "replay"),
            how=configs[0].compile,
        )
        self.tau = column([role.tau for role in roles], device)
        self.huber_delta = column([role.huber_delta for role in roles], device)
        intervals = [role.steps_before_update_target for role in roles]
        self.target_interval = torch.tensor(intervals, device=device)
        self.er_scheduler = Scheduler(
            [role.er_schedule for role in roles], [role.er for role in roles], device
        )

    def target_weights(self, step: Tensor) -> TargetWeights:
        """Return the target network's weights, and by how much they follow before ``step`` (P,).

        By tau every ``target_interval`` steps.
        """
        is_due = self.learns() & (step % self.target_interval == 0)
        return TargetWeights(self.target_net.weights, self.tau * is_due)

    def learns(self) -> Tensor:
        """Return which members have something to learn from, and may, bool (P,)."""
        return super().learns() & (self.replay_buffer.filled > 0)

    def replace_net(self, net: Network) -> None:
        """Take over the weights of ``net``, which fits, and forget what was learned from."""
        super().replace_net(net)
        self.target_net.copy_(net)
        self.replay_buffer.forget()

    def begin_with(self, net: Network, member: int) -> None:
        """Let one member begin with the weights of a network of one member."""
        super().begin_with(net, member)
        for name, tensor in self.target_net.state().items():
            tensor[member].copy_(net.state()[name][0])

    def leave_games(self, member: int) -> None:
        """Take note that one member's games were left before their ends."""
        self.replay_buffer.leave_games(member)

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return {
            **super().settings(),
            "tau": self.tau,
            "huber_delta": self.huber_delta,
            "target_interval": self.target_interval,
            **prefixed("er", self.er_scheduler.settings()),
            **prefixed("replay_buffer", self.replay_buffer.settings()),
        }

    def _parts(self) -> dict[str, dict[str, Tensor]]:
        return {
            **super()._parts(),
            "target_net": self.target_net.state(),
            "replay_buffer": self.replay_buffer.state(),
        }
