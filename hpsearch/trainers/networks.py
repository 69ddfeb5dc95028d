"""Networks of a whole population: the weights of P members in one flat bank, layer by layer.

Axes: P members, B games, I inputs, O outputs, W weights of one member.
Member p of a network computes what the same member would compute alone.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.game.philox import Stream
from hpsearch.trainers.net_arch import BatchNorm, Layer, Linear, Residual

BATCH_NORM_EPS = 1e-5
BATCH_NORM_MOMENTUM = 0.1


class Network:
    """A multilayer perceptron of P members that ends in a linear layer.

    Attributes:
        weights: float32 (P, W), every weight of every member; layers are views of it.
        statistics: float32 (P, S), running means and variances of the batch norms.
    """

    def __init__(
        self, num_inputs: int, layers: Sequence[Layer], num_outputs: int, stream: Stream
    ) -> None:
        """Build the network and draw its weights; ``stream`` has one row a member."""
        plan = _Plan()
        widths = _plan_layers(plan, num_inputs, layers)
        plan.linear(widths, num_outputs)
        device = stream.keys.device
        num_members = stream.keys.shape[0]
        self.num_outputs = num_outputs
        self._plan = plan
        self.weights = plan.draw(stream)
        self.statistics = plan.initial_statistics(num_members, device)
        self._views = [_leaf(self.weights, part) for part in plan.parts]
        self._layers = (*layers, Linear(num_outputs))

    def __call__(self, x: Tensor, *, training: bool = False) -> Tensor:
        """Return float32 (P, B, O) for float32 (P, B, I).

        In ``training`` batch norms use the batch's own statistics and move the running ones; an
        argument instead of a mode, so that no pass can find the mode that another one left.
        """
        reader = _Reader(self, training=training)
        for layer in self._layers[:-1]:
            x = reader.apply(layer, x)
        return reader.linear(x)

    def gradients(self, loss: Tensor) -> Tensor:
        """Return the derivative of a scalar ``loss`` by every weight, float32 (P, W)."""
        parts = torch.autograd.grad(loss, self._views)
        return torch.cat([part.flatten(1) for part in parts], dim=1)

    def move_towards(self, other: "Network", share: Tensor) -> None:
        """Move weights and statistics by ``share`` float32 (P,) of the way to ``other``'s."""
        self.weights.lerp_(other.weights, share[:, None])
        self.statistics.lerp_(other.statistics, share[:, None])

    def layers(self, member: int) -> dict[str, Tensor]:
        """Return one member's tensors as torch.nn names and lays them out, layer after layer."""
        tensors: dict[str, Tensor] = {}
        statistics = self.statistics[member]
        weights = [view[member].detach() for view in self._views]
        for index, (weight, bias) in enumerate(zip(weights[::2], weights[1::2], strict=True)):
            is_norm = self._plan.is_norm[index]
            tensors[f"{index}.weight"] = weight[0] if is_norm else weight.T
            tensors[f"{index}.bias"] = bias[0]
            if is_norm:
                width = weight.shape[1]
                mean, var, statistics = statistics.split(
                    [width, width, len(statistics) - 2 * width]
                )
                tensors[f"{index}.running_mean"], tensors[f"{index}.running_var"] = mean, var
        return tensors

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"weights": self.weights, "statistics": self.statistics}


class _Part:
    """One weight tensor's place in the bank and the range that it is drawn from."""

    def __init__(self, start: int, shape: tuple[int, int], bound: float, fill: float) -> None:
        self.start = start
        self.shape = shape
        self.size = shape[0] * shape[1]
        self.bound = bound
        self.fill = fill


class _Plan:
    """Where every weight of a network lies in its bank, in the order of the forward pass."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.norm_widths: list[int] = []
        self.is_norm: list[bool] = []
        """of each pair of weight and bias"""
        self.size = 0

    def linear(self, num_inputs: int, num_outputs: int) -> int:
        bound = num_inputs**-0.5  # uniform on +-1/sqrt(I), as torch.nn.Linear draws
        self._add((num_inputs, num_outputs), bound=bound, fill=0.0)
        self._add((1, num_outputs), bound=bound, fill=0.0)
        self.is_norm.append(False)
        return num_outputs

    def batch_norm(self, width: int) -> int:
        self._add((1, width), bound=0.0, fill=1.0)
        self._add((1, width), bound=0.0, fill=0.0)
        self.norm_widths.append(width)
        self.is_norm.append(True)
        return width

    def _add(self, shape: tuple[int, int], *, bound: float, fill: float) -> None:
        part = _Part(self.size, shape, bound, fill)
        self.parts.append(part)
        self.size += part.size

    def draw(self, stream: Stream) -> Tensor:
        noise = stream.uniform(self.size) * 2.0 - 1.0
        bounds = torch.cat([torch.full((part.size,), part.bound) for part in self.parts])
        fills = torch.cat([torch.full((part.size,), part.fill) for part in self.parts])
        return noise * bounds.to(noise.device) + fills.to(noise.device)

    def initial_statistics(self, num_members: int, device: torch.device) -> Tensor:
        rows = [torch.cat([torch.zeros(width), torch.ones(width)]) for width in self.norm_widths]
        row = torch.cat(rows) if rows else torch.zeros(0)
        return row.to(device).expand(num_members, -1).clone()


class _Reader:
    """One forward pass: takes the views in the order in which the plan laid them out."""

    def __init__(self, network: Network, *, training: bool) -> None:
        self._views = iter(network._views)
        self._statistics = network.statistics
        self._training = training
        self._position = 0

    def apply(self, layer: Layer, x: Tensor) -> Tensor:
        match layer:
            case Linear():
                return torch.relu(self.linear(x))
            case BatchNorm():
                return self.batch_norm(x)
            case Residual(width):
                y = torch.relu(self.batch_norm(self.linear(x)))
                y = self.batch_norm(self.linear(y))
                skip = x if x.shape[-1] == width else self.batch_norm(self.linear(x))
                return torch.relu(y + skip)

    def linear(self, x: Tensor) -> Tensor:
        weight, bias = next(self._views), next(self._views)
        return torch.baddbmm(bias, x, weight)

    def batch_norm(self, x: Tensor) -> Tensor:
        scale, shift = next(self._views), next(self._views)
        running_mean, running_var = self._next_statistics(x.shape[-1])
        if self._training:
            mean = x.mean(dim=1, keepdim=True)
            var = x.var(dim=1, keepdim=True, correction=0)
            with torch.no_grad():
                unbiased = var * (x.shape[1] / max(x.shape[1] - 1, 1))
                running_mean.lerp_(mean, BATCH_NORM_MOMENTUM)
                running_var.lerp_(unbiased, BATCH_NORM_MOMENTUM)
        else:
            mean, var = running_mean, running_var
        return (x - mean) * torch.rsqrt(var + BATCH_NORM_EPS) * scale + shift

    def _next_statistics(self, width: int) -> tuple[Tensor, Tensor]:
        start = self._position
        self._position += 2 * width
        mean = self._statistics[:, None, start : start + width]
        var = self._statistics[:, None, start + width : start + 2 * width]
        return mean, var


def _plan_layers(plan: _Plan, width: int, layers: Sequence[Layer]) -> int:
    """Lay out ``layers`` in the order in which `_Reader.apply` reads them; return the width."""
    for layer in layers:
        match layer:
            case Linear(new_width):
                width = plan.linear(width, new_width)
            case BatchNorm():
                plan.batch_norm(width)
            case Residual(new_width):
                plan.batch_norm(plan.linear(width, new_width))
                plan.batch_norm(plan.linear(new_width, new_width))
                if new_width != width:
                    plan.batch_norm(plan.linear(width, new_width))
                width = new_width
    return width


def _leaf(weights: Tensor, part: _Part) -> Tensor:
    """Return the part of the bank as an autograd leaf (P, rows, columns) on the same memory."""
    columns = slice(part.start, part.start + part.size)
    view: Tensor = weights[:, columns].unflatten(1, part.shape)
    return view.detach().requires_grad_()
