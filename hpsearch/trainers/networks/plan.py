"""Where every weight of a network lies in its bank, and how it is drawn.

Axes: P members, W weights of one member, I inputs, O outputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hpsearch.game.stream import Stream

Init = Literal["uniform", "orthogonal"]


@dataclass(frozen=True)
class Part:
    """One weight tensor of every member."""

    start: int
    shape: tuple[int, int]
    draw: Callable[[Tensor], Tensor]
    """from uniform noise (P, rows, columns) to first weights"""

    @property
    def columns(self) -> slice:
        """Return its place in the bank."""
        return slice(self.start, self.start + self.shape[0] * self.shape[1])


class Plan:
    """The weights of a network in the order of its forward pass.

    Attributes:
        parts: a weight and a bias for each linear layer, a scale and a shift for each norm.
        kinds: of each such pair: "linear", "batch_norm" or "layer_norm".
        size: weights of one member, W.
    """

    def __init__(self) -> None:
        """Begin with no weights."""
        self.parts: list[Part] = []
        self.kinds: list[str] = []
        self.statistics_widths: list[int] = []
        self.size = 0

    def linear(
        self, num_inputs: int, num_outputs: int, *, init: Init = "uniform", scale: float = 1.0
    ) -> int:
        """Add a linear layer, its first weights times ``scale``; return its width."""
        if init == "uniform":
            # Uniform on +-1/sqrt(I), as torch.nn.Linear draws.
            bound = scale * num_inputs**-0.5
            draw_weight = draw_bias = uniform(bound)
        else:
            draw_weight, draw_bias = orthogonal(scale), constant(0.0)
        self._add((num_inputs, num_outputs), draw_weight)
        self._add((1, num_outputs), draw_bias)
        self.kinds.append("linear")
        return num_outputs

    def norm(self, width: int, kind: Literal["batch_norm", "layer_norm"]) -> None:
        """Add a norm that changes nothing at first."""
        self._add((1, width), constant(1.0))
        self._add((1, width), constant(0.0))
        self.kinds.append(kind)
        if kind == "batch_norm":
            self.statistics_widths.append(width)

    def _add(self, shape: tuple[int, int], draw: Callable[[Tensor], Tensor]) -> None:
        part = Part(self.size, shape, draw)
        self.parts.append(part)
        self.size = part.columns.stop

    def draw(self, stream: Stream) -> Tensor:
        """Return first weights float32 (P, W); ``stream`` has a row a member."""
        noise = stream.uniform(self.size)
        drawn = [part.draw(noise[:, part.columns].unflatten(1, part.shape)) for part in self.parts]
        return torch.cat([weights.flatten(1) for weights in drawn], dim=1)

    def initial_statistics(self, num_members: int, device: torch.device) -> Tensor:
        """Return mean 0 and variance 1 for every batch norm, float32 (P, S)."""
        rows = [torch.cat([torch.zeros(w), torch.ones(w)]) for w in self.statistics_widths]
        row = torch.cat(rows) if rows else torch.zeros(0)
        return row.to(device).repeat(num_members, 1)


def constant(value: float) -> Callable[[Tensor], Tensor]:
    """Return a draw that is always ``value``."""
    return lambda noise: torch.full_like(noise, value)


def uniform(bound: float) -> Callable[[Tensor], Tensor]:
    """Return a draw that is uniform on +-``bound``."""
    return lambda noise: (noise * 2.0 - 1.0) * bound


def orthogonal(gain: float) -> Callable[[Tensor], Tensor]:
    """Return a draw of orthogonal rows or columns of length ``gain`` (Saxe et al., 1312.6120)."""

    def draw(noise: Tensor) -> Tensor:
        # Noise 0 would become minus infinity. Factored member by member on the CPU, so that neither
        # the device nor the other members change what a member begins with.
        normal = torch.special.ndtri(noise.cpu().double().clamp(min=2.0**-33))
        is_wide = normal.shape[1] < normal.shape[2]
        factored = [torch.linalg.qr(one) for one in (normal.mT if is_wide else normal)]
        q, r = (torch.stack(parts) for parts in zip(*factored, strict=True))
        # With the signs of r's diagonal q is uniform among all orthogonal matrices.
        q = torch.where(r.diagonal(dim1=1, dim2=2)[:, None] < 0, -q, q)
        weights: Tensor = gain * (q.mT if is_wide else q)
        return weights.float().to(noise.device)

    return draw
