"""Networks of a whole population: the weights of P members in one flat bank, layer by layer.

Axes: P members, B games, I inputs, O outputs, W weights of one member.
Member p of a network computes what the same member would compute alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.trainers.config.weight_layout import (
    Inputs,
    Tower,
    WeightLayout,
    num_read,
    weight_layout,
)
from hpsearch.trainers.graphs import compiled
from hpsearch.trainers.networks.layers import (
    Reader,
    apply_encoder,
    apply_layer,
    first_statistics,
    first_weights,
)


def apply_tower(reader: Reader, tower: Tower, inputs: Inputs, x: Tensor) -> Tensor:
    """Return float32 (P, B, O) for observations float32 (P, B, I)."""
    weights_dtype = x.dtype
    x = apply_encoder(reader, tower.encoder, inputs, x)
    for layer in tower.layers:
        x = apply_layer(reader, layer, x)
    x = reader.linear(x).to(weights_dtype)
    if not tower.dueling:
        return x
    value, advantages = x[..., :1], x[..., 1:]
    return value + advantages - advantages.mean(dim=2, keepdim=True)


@dataclass(frozen=True)
class Arithmetic:
    """How a network's products are computed."""

    precision: Literal["fp32", "tf32", "bf16"]
    compile: Literal["off", "default"]


class Network:
    """One or more towers of P members over the same observations.

    Attributes:
        weights: float32 (P, W), every weight of every member; layers are views of it.
        statistics: float32 (P, S), running means and variances of the batch norms.
        layout: where each of them lies.
    """

    def __init__(
        self, inputs: Inputs, towers: Sequence[Tower], arithmetic: Arithmetic, stream: Stream
    ) -> None:
        """Build the network and draw its weights; ``stream`` has one row a member."""
        self._inputs = inputs
        self._towers = tuple(towers)
        self._arithmetic = arithmetic
        self.layout = weight_layout(inputs, self._towers)
        self.weights = first_weights(self.layout, stream)
        self.statistics = first_statistics(self.layout, stream.keys.shape[0], stream.keys.device)
        self._places = _places(self.layout)
        self._views = [view.detach().requires_grad_() for view in self.parts(self.weights).values()]
        self._compiled = compiled(self._forward, arithmetic.compile)

    def __call__(self, x: Tensor, *, tower: int = 0, training: bool = False) -> Tensor:
        """Return float32 (P, B, O) for float32 (P, B, I).

        Of the points an observation needs only `observation_size` numbers.

        In ``training`` batch norms use the batch's own statistics and move the running ones; an
        argument instead of a mode, so that no pass can find the mode that another one left.
        """
        return self._apply(self._forward, x, tower, training)

    def update_pass(self, x: Tensor, *, tower: int = 0, training: bool = False) -> Tensor:
        """Return what a call does; compiled where that is asked for.

        For the batches of updates, which are of few sizes; games played are of many.
        """
        return self._apply(self._compiled, x, tower, training)

    def _apply(
        self, run: Callable[[Tensor, int, bool], Tensor], x: Tensor, tower: int, training: bool
    ) -> Tensor:
        with torch.autocast(
            x.device.type, torch.bfloat16, enabled=self._arithmetic.precision == "bf16"
        ):
            return run(x, tower, training)

    def _forward(self, x: Tensor, index: int, training: bool) -> Tensor:
        tower, place = self._towers[index], self._places[index]
        reader = Reader(
            iter(self._views[place.views]),
            self.statistics[:, place.statistics],
            activation=tower.activation,
            training=training,
        )
        return apply_tower(reader, tower, self._inputs, x)

    @property
    def observation_size(self) -> int:
        """Return how many numbers of the points' observation it looks at, the first ones."""
        return max(num_read(tower.encoder, self._inputs) for tower in self._towers)

    @property
    def inputs(self) -> Inputs:
        """Return what the network sees."""
        return self._inputs

    def tensors_of(self, tower: int) -> tuple[list[Tensor], Tensor]:
        """Return what a `Reader` of one tower takes: weights, layer after layer, and statistics.

        Views (P, rows, columns) and (P, S) of the network's own, without gradients.
        """
        place = self._places[tower]
        views = [view.detach() for view in self._views[place.views]]
        return views, self.statistics[:, place.statistics]

    @property
    def towers(self) -> tuple[Tower, ...]:
        """Return its towers, as they were first drawn."""
        return self._towers

    @property
    def arithmetic(self) -> Arithmetic:
        """Return how its products are computed."""
        return self._arithmetic

    @property
    def structure(self) -> tuple[object, ...]:
        """Return what two networks must share for one to take over the other's weights."""
        drawn_alike = [replace(tower, init="uniform", last_scale=1.0) for tower in self._towers]
        return (self._inputs, *drawn_alike)

    def gradients(self, loss: Tensor) -> Tensor:
        """Return the derivative of a scalar ``loss`` by every weight, float32 (P, W).

        Weights that the loss does not depend on get 0.
        """
        parts = torch.autograd.grad(loss, self._views, materialize_grads=True)
        return torch.cat([part.flatten(1) for part in parts], dim=1)

    def follow_statistics(self, other: "Network", share: Tensor) -> None:
        """Move batch norms' statistics by ``share`` float32 (P,) of the way to ``other``'s."""
        if self.statistics.shape[1]:
            self.statistics.lerp_(other.statistics, share[:, None])

    def copy_(self, other: "Network") -> None:
        """Take over the weights and statistics of ``other``."""
        self.weights.copy_(other.weights)
        self.statistics.copy_(other.statistics)

    def like(self, num_members: int) -> "Network":
        """Return a network of the same structure for another number of members, weights 0."""
        keys = torch.zeros(num_members, dtype=torch.int64, device=self.weights.device)
        other = Network(self._inputs, self._towers, self._arithmetic, Stream(keys, keys.clone()))
        other.weights.zero_()
        return other

    def parts(self, bank: Tensor) -> dict[str, Tensor]:
        """Return the views (P, rows, columns) of a tensor (P, W) that is laid out as the weights.

        Named "LAYER.weight" and "LAYER.bias", with "TOWER." before where there are several.
        """
        named: dict[str, Tensor] = {}
        for affine in self.layout.affines:
            named[f"{affine.name}.weight"] = bank[:, affine.weight].unflatten(1, affine.shape)
            named[f"{affine.name}.bias"] = bank[:, affine.bias].unflatten(1, (1, -1))
        return named

    def layers(self, member: int) -> dict[str, Tensor]:
        """Return one member's tensors as torch.nn names and lays them out, layer after layer."""
        tensors: dict[str, Tensor] = {}
        statistics, parts = self.statistics[member], self.parts(self.weights[member : member + 1])
        for affine in self.layout.affines:
            weight, bias = parts[f"{affine.name}.weight"][0], parts[f"{affine.name}.bias"][0]
            tensors[f"{affine.name}.weight"] = weight.T if affine.kind == "linear" else weight[0]
            tensors[f"{affine.name}.bias"] = bias[0]
            if affine.statistics is not None:
                start, width = affine.statistics, affine.shape[1]
                tensors[f"{affine.name}.running_mean"] = statistics[start : start + width]
                tensors[f"{affine.name}.running_var"] = statistics[start + width :][:width]
        return tensors

    def set_layers(self, member: int, tensors: Mapping[str, Tensor]) -> None:
        """Take over one member's tensors, named and laid out as `layers` gives them.

        Raises:
            ValueError: if they are of other names or shapes.
        """
        own = self.layers(member)  # views of the weights
        shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
        given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if shapes != given:
            raise ValueError(f"the network has the tensors {shapes}, but got {given}")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"weights": self.weights, "statistics": self.statistics}


@dataclass(frozen=True)
class _Place:
    """Where a tower's weights and statistics lie."""

    views: slice
    statistics: slice


def _places(layout: WeightLayout) -> list[_Place]:
    """Return the place of each tower among the views, two of a layer, and among the statistics."""
    places, view, statistic = [], 0, 0
    for items in layout.towers:
        affines = [affine for item in items for affine in item.affines]
        more = sum(2 * affine.shape[1] for affine in affines if affine.statistics is not None)
        end = view + 2 * len(affines)
        places.append(_Place(slice(view, end), slice(statistic, statistic + more)))
        view, statistic = end, statistic + more
    return places
