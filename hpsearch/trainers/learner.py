"""A learner: everything that one role of P members learns with.

Axes: P members, B games, N points, D coordinates, A actions of the role.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.philox import Stream, derive_key
from hpsearch.trainers import net_arch
from hpsearch.trainers.config import DQNRole
from hpsearch.trainers.networks import Network
from hpsearch.trainers.optim import Adam, AdamNumbers
from hpsearch.trainers.replay_buffer import ReplayBuffer
from hpsearch.trainers.schedulers import Scheduler


class Learner:
    """The networks, optimizer, schedules, memory and random streams of one role.

    Attributes:
        name: "host" or "agent".
        net, target_net: networks from features to the value of each action.
        gamma, tau, huber_delta: float32 (P,); target_interval: int64 (P,) steps.
    """

    def __init__(
        self,
        name: str,
        roles: Sequence[DQNRole],
        seeds: Sequence[int],
        *,
        num_points: int,
        dimension: int,
        buffer_size: int,
        device: torch.device,
    ) -> None:
        """Build the role ``name`` of one member for each configuration and seed."""
        self.name = name
        self.config = roles[0]
        # The same stream twice: the target network begins with the same weights.
        self.net, self.target_net = (
            Network(
                num_features(name, num_points, dimension),
                net_arch.parse(self.config.net_arch),
                num_actions(name, dimension),
                member_stream(seeds, device, name, "weights"),
            )
            for _ in range(2)
        )
        self.replay_buffer = ReplayBuffer(len(seeds), buffer_size, num_points, dimension, device)
        self.replay_stream = member_stream(seeds, device, name, "replay")
        self.gamma = _column([role.gamma for role in roles], device)
        self.tau = _column([role.tau for role in roles], device)
        self.huber_delta = _column([role.huber_delta for role in roles], device)
        intervals = [role.steps_before_update_target for role in roles]
        self.target_interval = torch.tensor(intervals, device=device)
        self.optimizer = Adam(self.net.weights, _adam_numbers(roles, device))
        self.lr_scheduler = Scheduler(
            [role.optim.lr_schedule for role in roles],
            [role.optim.args.lr for role in roles],
            device,
        )
        self.er_scheduler = Scheduler(
            [role.er_schedule for role in roles], [role.er for role in roles], device
        )

    def replace_net(self, net: Network) -> None:
        """Take over the weights of ``net`` and forget everything that was learned from.

        Raises:
            ValueError: if it is of another shape.
        """
        if net.weights.shape != self.net.weights.shape:
            raise ValueError(
                f"the network of the {self.name} holds {tuple(self.net.weights.shape)} weights, "
                f"the new one {tuple(net.weights.shape)}; it needs the same net_arch and members"
            )
        for own in (self.net, self.target_net):
            own.weights.copy_(net.weights)
            own.statistics.copy_(net.statistics)
        self.optimizer.forget()
        self.replay_buffer.added.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return every tensor that training changes, each with the member axis first."""
        parts = {
            "net": self.net.state(),
            "target_net": self.target_net.state(),
            "optimizer": self.optimizer.state(),
            "replay_buffer": self.replay_buffer.state(),
            "replay_stream": {"counters": self.replay_stream.counters},
        }
        return {
            f"{part}.{name}": tensor
            for part, state in parts.items()
            for name, tensor in state.items()
        }


def member_stream(seeds: Sequence[int], device: torch.device, *purpose: str) -> Stream:
    """Return the random stream that each member's seed gives for one purpose."""
    keys = torch.tensor([derive_key(seed, *purpose) for seed in seeds], device=device)
    return Stream(keys, torch.zeros_like(keys))


def num_features(name: str, num_points: int, dimension: int) -> int:
    """Return the length of a role's observation: the points, for the agent the subset too."""
    return num_points * dimension + (dimension if name == "agent" else 0)


def num_actions(name: str, dimension: int) -> int:
    """Return the number of a role's actions: subsets for the host, axes for the agent."""
    return HostActionEncoder(dimension).num_actions if name == "host" else dimension


def _adam_numbers(roles: Sequence[DQNRole], device: torch.device) -> AdamNumbers:
    args = [role.optim.args for role in roles]
    return AdamNumbers(
        beta1=_column([arg.beta1 for arg in args], device)[:, None],
        beta2=_column([arg.beta2 for arg in args], device)[:, None],
        eps=_column([arg.eps for arg in args], device)[:, None],
        max_grad_norm=_column([role.max_grad_norm for role in roles], device)[:, None],
    )


def _column(numbers: Sequence[float], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32, device=device)
