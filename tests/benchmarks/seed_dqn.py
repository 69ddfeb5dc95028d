"""Updates of a host as the seed, hironaka.trainer, makes them: the baseline of one learner.

Written from a description of its DQNTrainer: not double, the target network normalises by the
batch's own moments as the trained one does, inputs pass an activation, and none comes before the
last layer. Memory holds rows of every kind, and what is drawn of them is copied twice.

Axes: B transitions, C places in memory, I inputs, A actions.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class SeedLearning:
    net_arch: Sequence[int | str]
    batch_size: int  # B
    memory_size: int  # C
    lr: float
    gamma: float
    max_grad_norm: float


class ResidualBlock(nn.Module):
    """Linear, norm, activation, linear, norm, plus the input, projected to another width."""

    def __init__(self, num_inputs: int, width: int) -> None:
        """Begin with fresh weights."""
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(num_inputs, width),
            nn.BatchNorm1d(width),
            nn.ReLU(inplace=True),
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
        )
        self.skip: nn.Module = nn.Identity()
        if num_inputs != width:
            self.skip = nn.Sequential(nn.Linear(num_inputs, width), nn.BatchNorm1d(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, width) for (B, I)."""
        out: Tensor = self.body(x)
        out += self.skip(x)
        return out


def network(num_inputs: int, net_arch: Sequence[int | str], num_actions: int) -> nn.Sequential:
    """Return the network of a net_arch whose items are widths, or "r" and a width."""
    layers: list[nn.Module] = [nn.Flatten()]
    for item in net_arch:
        width = int(str(item).removeprefix("r"))
        layer = ResidualBlock if isinstance(item, str) else nn.Linear
        layers += [nn.ReLU(), layer(num_inputs, width)]
        num_inputs = width
    return nn.Sequential(*layers, nn.Linear(num_inputs, num_actions))


class SeedDQN:
    """A network, its target network, Adam, and a memory."""

    def __init__(
        self, points_shape: tuple[int, int], num_actions: int, learning: SeedLearning
    ) -> None:
        """Remember transitions drawn at random: what they are changes no time."""
        size, num_inputs = learning.memory_size, points_shape[0] * points_shape[1]
        self.learning = learning
        self.net = network(num_inputs, learning.net_arch, num_actions)
        self.target_net = deepcopy(self.net)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=learning.lr)
        self.memory = [
            torch.rand(size, *points_shape),
            torch.randint(num_actions, (size, 1), dtype=torch.int32),
            torch.rand(size, 1),
            torch.rand(size, 1) < 0.2,
            torch.rand(size, *points_shape),
        ]
        self.num_filled = size

    def train(self, steps: int) -> None:
        """Make updates."""
        for _ in range(steps):
            self.update(self.sample())

    def sample(self) -> list[Tensor]:
        """Return observations, actions, rewards, whether games ended, and next observations."""
        places = torch.randint(self.num_filled, (self.learning.batch_size,))
        return [rows[places].clone() for rows in self.memory]

    def update(self, batch: Sequence[Tensor]) -> Tensor:
        """Make one gradient step; return the loss."""
        observation, action, reward, done, next_observation = batch
        with torch.no_grad():
            value = self.target_net(next_observation).max(dim=1).values.reshape(-1, 1)
            target = reward + (~done) * self.learning.gamma * value
        value = self.net(observation).gather(1, action.long())
        loss = nn.functional.smooth_l1_loss(value, target)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.learning.max_grad_norm)
        self.optimizer.step()
        return loss.detach()
