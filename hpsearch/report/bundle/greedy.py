"""A role's greedy policy as a torch module, to be written as a program that needs nothing of ours.

Axes: B games, N points, D coordinates, A actions. The member axis of our networks is 1 inside.
"""

import math

import torch
from torch import Tensor, nn

from hpsearch.game import rules
from hpsearch.trainers.networks import Network
from hpsearch.trainers.networks.reader import Reader
from hpsearch.trainers.networks.tower import apply_tower
from hpsearch.trainers.policies import agent_features, legal_values
from hpsearch.trainers.role_nets import POLICY


class _Greedy(nn.Module):
    """What both roles share: the network that values actions, applied as in training."""

    statistics: Tensor

    def __init__(self, net: Network, *, autocast: bool) -> None:
        """Copy the weights of ``net`` of one member, on the CPU.

        Args:
            net: the role's network.
            autocast: whether products are computed as in training; else in float32.
        """
        super().__init__()
        views, statistics = net.tensors_of(POLICY)
        self.weights = nn.ParameterList(
            nn.Parameter(view.clone(), requires_grad=False) for view in views
        )
        self.register_buffer("statistics", statistics.clone())
        self._tower, self._inputs = net.towers[POLICY], net.inputs
        self._is_bf16 = autocast and net.arithmetic.precision == "bf16"

    def _values(self, features: Tensor) -> Tensor:
        """Return the value of every action, float32 (B, A), for features float32 (B, I)."""
        if not self._is_bf16:
            return self._products(features)
        with torch.autocast("cpu", torch.bfloat16):
            return self._products(features)

    def _products(self, features: Tensor) -> Tensor:
        reader = Reader(
            iter(self.weights), self.statistics, activation=self._tower.activation, training=False
        )
        return apply_tower(reader, self._tower, self._inputs, features[None])[0]

    def _points(self) -> Tensor:
        """Return positions of several games: traced with one, a program would take one alone."""
        shape = (3, self._inputs.num_points, self._inputs.dimension)
        return torch.arange(math.prod(shape), dtype=torch.int32).reshape(shape)


class GreedyHost(_Greedy):
    """Plays the subset that its network values highest."""

    def forward(self, points: Tensor) -> Tensor:
        """Return the action's index int64 (B,) for points int32 (B, N, D)."""
        return self.ranking(points).argmax(dim=-1)

    def ranking(self, points: Tensor) -> Tensor:
        """Return the value of every action, float32 (B, A)."""
        values = self._values(rules.observe(points))
        return legal_values(values, torch.ones_like(values, dtype=torch.bool))

    def example(self) -> tuple[Tensor, ...]:
        """Return arguments of the shapes and dtypes that it takes: points."""
        return (self._points(),)


class GreedyAgent(_Greedy):
    """Plays the axis of the host's subset that its network values highest."""

    def forward(self, points: Tensor, subset: Tensor) -> Tensor:
        """Return the axis int64 (B,) for points int32 (B, N, D) and a subset bool (B, D)."""
        return self.ranking(points, subset).argmax(dim=-1)

    def ranking(self, points: Tensor, subset: Tensor) -> Tensor:
        """Return the value of every axis, float32 (B, D), minus infinity outside the subset."""
        return legal_values(self._values(agent_features(rules.observe(points), subset)), subset)

    def example(self) -> tuple[Tensor, ...]:
        """Return arguments of the shapes and dtypes that it takes: points and subsets."""
        points = self._points()
        return points, torch.ones(len(points), self._inputs.dimension, dtype=torch.bool)


Greedy = GreedyHost | GreedyAgent


def greedy_policy(role: str, net: Network, *, autocast: bool) -> Greedy:
    """Return the greedy policy of a role by ``net`` of one member; see `_Greedy`."""
    kind = GreedyHost if role == "host" else GreedyAgent
    return kind(net, autocast=autocast)
