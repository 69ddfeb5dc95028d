"""How first weights are drawn, and how each layer and encoder is applied to what comes to it.

Weights are taken in the order in which `config.weight_layout` has them.

Axes: P members, R rows (games, or games times points), B games, N points, D coordinates, E features
beside the points (the host's subset where the player is an agent), F features of a point, I inputs,
O outputs, W weights of one member. Padding is -1 and takes no part.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hpsearch.game.stream import Stream
from hpsearch.trainers.config.net_arch import BatchNorm, Layer, LayerNorm, Linear, Norm, Residual
from hpsearch.trainers.config.players import (
    AttentionEncoder,
    DeepSetsEncoder,
    Encoder,
    FlattenEncoder,
)
from hpsearch.trainers.config.weight_layout import Affine, Inputs, WeightLayout

Draw = Callable[[Tensor], Tensor]
"""from uniform noise (P, rows, columns) to first weights"""


def first_weights(layout: WeightLayout, stream: Stream) -> Tensor:
    """Return first weights float32 (P, W); ``stream`` has a row a member."""
    noise = stream.uniform(layout.size)
    drawn = []
    for affine in layout.affines:
        for draw, place, rows in zip(
            _draws(affine), (affine.weight, affine.bias), (affine.shape[0], 1), strict=True
        ):
            drawn.append(draw(noise[:, place].unflatten(1, (rows, -1))).flatten(1))
    return torch.cat(drawn, dim=1)


def _draws(affine: Affine) -> tuple[Draw, Draw]:
    """Return how a layer's weight and bias are drawn; a norm changes nothing at first."""
    if affine.kind != "linear":
        return constant(1.0), constant(0.0)
    if affine.init == "orthogonal":
        return orthogonal(affine.scale), constant(0.0)
    # Uniform on +-1/sqrt(I), as torch.nn.Linear draws.
    draw = uniform(affine.scale * affine.shape[0] ** -0.5)
    return draw, draw


def first_statistics(layout: WeightLayout, num_members: int, device: torch.device) -> Tensor:
    """Return mean 0 and variance 1 for every batch norm, float32 (P, S)."""
    row = torch.zeros(layout.statistics_size)
    for affine in layout.affines:
        if affine.statistics is not None:
            width = affine.shape[1]
            row[affine.statistics + width : affine.statistics + 2 * width] = 1.0
    return row.to(device).repeat(num_members, 1)


def constant(value: float) -> Draw:
    """Return a draw that is always ``value``."""
    return lambda noise: torch.full_like(noise, value)


def uniform(bound: float) -> Draw:
    """Return a draw that is uniform on +-``bound``."""
    return lambda noise: (noise * 2.0 - 1.0) * bound


def orthogonal(gain: float) -> Draw:
    """Return a draw of orthogonal rows or columns of length ``gain`` (Saxe et al., 1312.6120)."""

    def draw(noise: Tensor) -> Tensor:
        # Noise 0 would become minus infinity. Factored member by member on the CPU, so that neither
        # the device nor the other members change what a member begins with.
        normal = torch.special.ndtri(noise.cpu().double().clamp(min=2.0**-33))
        is_wide = normal.shape[1] < normal.shape[2]
        factored = [torch.linalg.qr(matrix) for matrix in (normal.mT if is_wide else normal)]
        q, r = (torch.stack(parts) for parts in zip(*factored, strict=True))
        # With the signs of r's diagonal q is uniform among all orthogonal matrices.
        q = torch.where(r.diagonal(dim1=1, dim2=2)[:, None] < 0, -q, q)
        weights: Tensor = gain * (q.mT if is_wide else q)
        return weights.float().to(noise.device)

    return draw


NORM_EPS = 1e-5
BATCH_NORM_MOMENTUM = 0.1

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


class Reader:
    """Applies the next layer of a network, whichever kind the network's structure says it is."""

    def __init__(
        self, views: Iterator[Tensor], statistics: Tensor, *, activation: str, training: bool
    ) -> None:
        """Begin with the first of ``views``; ``statistics`` (P, S) are of its batch norms."""
        self._views = views
        self._statistics = statistics
        self._training = training
        self._position = 0
        self.activation = _ACTIVATIONS[activation]

    def linear(self, x: Tensor) -> Tensor:
        """Return (P, R, O) for (P, R, I)."""
        weight, bias = next(self._views), next(self._views)
        return torch.baddbmm(bias, x, weight)

    def norm(self, x: Tensor, kind: Literal["batch_norm", "layer_norm"]) -> Tensor:
        """Return (P, R, I) of mean 0 and variance 1, scaled and shifted."""
        scale, shift = next(self._views), next(self._views)
        x = x.to(scale.dtype)  # sums want full precision
        mean, var = self._batch_moments(x) if kind == "batch_norm" else _moments(x, dim=2)
        return (x - mean) * torch.rsqrt(var + NORM_EPS) * scale + shift

    def _batch_moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a batch's own moments and let the running ones follow; else the running ones."""
        running_mean, running_var = self._next_statistics(x.shape[2])
        if not self._training:
            return running_mean, running_var
        mean, var = _moments(x, dim=1)
        with torch.no_grad():
            unbiased = var * (x.shape[1] / max(x.shape[1] - 1, 1))
            running_mean.lerp_(mean, BATCH_NORM_MOMENTUM)
            running_var.lerp_(unbiased, BATCH_NORM_MOMENTUM)
        return mean, var

    def _next_statistics(self, width: int) -> tuple[Tensor, Tensor]:
        start = self._position
        self._position += 2 * width
        mean = self._statistics[:, None, start : start + width]
        var = self._statistics[:, None, start + width : start + 2 * width]
        return mean, var


def _moments(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return x.mean(dim=dim, keepdim=True), x.var(dim=dim, keepdim=True, correction=0)


def apply_layer(reader: Reader, layer: Layer, x: Tensor) -> Tensor:
    """Return the layer's output (P, R, O) for (P, R, I)."""
    match layer:
        case Linear():
            return reader.activation(reader.linear(x))
        case BatchNorm() | LayerNorm():
            return reader.norm(x, _kind(layer))
        case Residual(width, norm):
            y = reader.activation(reader.norm(reader.linear(x), _kind(norm)))
            y = reader.norm(reader.linear(y), _kind(norm))
            skip = x if x.shape[2] == width else reader.norm(reader.linear(x), _kind(norm))
            return reader.activation(y + skip)


def _kind(norm: Norm) -> Literal["batch_norm", "layer_norm"]:
    return "batch_norm" if isinstance(norm, BatchNorm) else "layer_norm"


def split(inputs: Inputs, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return points (P, B, N, D) and the rest (P, B, E) of observations (P, B, I).

    These may hold fewer than ``num_points``, but not fewer than an encoder looks at.
    """
    points, more = x.split([x.shape[2] - inputs.num_more, inputs.num_more], dim=2)
    return points.unflatten(2, (-1, inputs.dimension)), more


def apply_encoder(reader: Reader, encoder: Encoder, inputs: Inputs, x: Tensor) -> Tensor:
    """Return features (P, B, F) of observations (P, B, I)."""
    points, more = split(inputs, x)
    if isinstance(encoder, FlattenEncoder):
        return torch.cat([points[:, :, : encoder.num_points].flatten(2), more], dim=2)
    is_live = points[..., 0] >= 0
    rows = torch.cat([points, more[:, :, None].expand(*points.shape[:3], -1)], dim=3)
    if isinstance(encoder, DeepSetsEncoder):
        features = rows.flatten(1, 2)
        for _ in encoder.widths:
            features = reader.activation(reader.linear(features))
        return _pool(features.unflatten(1, rows.shape[1:3]), is_live, encoder.pool)
    return _attend(reader, encoder, rows, is_live)


def _attend(reader: Reader, encoder: AttentionEncoder, rows: Tensor, is_live: Tensor) -> Tensor:
    """Return the mean (P, B, W) of the live points' features after all blocks."""
    x = reader.linear(rows.flatten(1, 2))
    for _ in range(encoder.blocks):
        x = x + _attention(reader, reader.norm(x, "layer_norm"), is_live, encoder.heads)
        hidden = reader.activation(reader.linear(reader.norm(x, "layer_norm")))
        x = x + reader.linear(hidden)
    x = reader.norm(x, "layer_norm")
    return _pool(x.unflatten(1, is_live.shape[1:]), is_live, "mean")


def _attention(reader: Reader, x: Tensor, is_live: Tensor, heads: int) -> Tensor:
    """Return (P, B * N, W): every point attends to the live points of its game."""
    projected = reader.linear(x).unflatten(1, is_live.shape[1:])
    # (P, B, N, 3, heads, W / heads) -> three times (P, B, heads, N, W / heads)
    query, key, value = projected.unflatten(3, (3, heads, -1)).permute(3, 0, 1, 4, 2, 5).unbind(0)
    attended = scaled_dot_product_attention(
        query, key, value, attn_mask=is_live[:, :, None, None, :]
    )
    return reader.linear(attended.transpose(2, 3).flatten(3).flatten(1, 2))


def _pool(features: Tensor, is_live: Tensor, how: str) -> Tensor:
    """Return (P, B, F) over the live points of (P, B, N, F); there is always one."""
    live = is_live[..., None]
    if how == "max":
        return features.masked_fill(~live, -torch.inf).amax(dim=2)
    total = (features * live).sum(dim=2)
    return total if how == "sum" else total / live.sum(dim=2)
