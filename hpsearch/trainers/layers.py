"""How layers and encoders are applied to P members at once, whose weights a reader hands out.

Axes: P members, R rows (games, or games times points), B games, N points, D coordinates, E features
beside the points (the host's subset where the player is an agent), F features of a point, I inputs,
O outputs. Padding is -1 and takes no part.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, assert_never

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hpsearch.trainers import layers_cpu
from hpsearch.trainers.config import players
from hpsearch.trainers.config.net_arch import (
    BATCH_NORM_MOMENTUM,
    NORM_EPS,
    Layer,
    Linear,
    Norm,
    NormKind,
    Residual,
)
from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.products_cpu import LinearViews
from hpsearch.trainers.ranks import ALONE, Ranks


class _NormByBatch(torch.autograd.Function):
    """Batch normalisation and its derivative (Ioffe and Szegedy, arXiv 1502.03167, section 3).

    Written out, because torch's variance and its derivative take longer than the products of
    matrices around them.
    """

    @staticmethod
    def forward(
        context: Any, x: Tensor, scale: Tensor, shift: Tensor, ranks: Ranks
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the output (P, R, O), and all ranks' means and variances (P, 1, O)."""
        mean = x.mean(dim=1, keepdim=True)
        centred = x - mean
        var = centred.square().mean(dim=1, keepdim=True)
        if ranks.size > 1:
            mean, var = ranks.moments(torch.stack([mean, var])).unbind(0)
            centred = x - mean
        inverse = torch.rsqrt(var + NORM_EPS)
        normal = centred.mul_(inverse)
        context.ranks = ranks
        context.save_for_backward(normal, inverse * scale)
        context.mark_non_differentiable(mean, var)
        return torch.addcmul(shift, normal, scale), mean, var

    @staticmethod
    def backward(context: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Return the gradients of x (P, R, O), scale and shift (P, 1, O); they have none."""
        normal, factor = context.saved_tensors
        grad_scale = (grad * normal).sum(dim=1, keepdim=True)
        grad_shift = grad.sum(dim=1, keepdim=True)
        # Every row moves the moments, by which all ranks' rows are normalised.
        means = torch.stack([grad_scale, grad_shift]) / grad.shape[1]
        mean_grad_normal, mean_grad = context.ranks.average(means).unbind(0)
        grad_x = torch.addcmul(grad - mean_grad, normal, mean_grad_normal, value=-1).mul_(factor)
        return grad_x, grad_scale, grad_shift, None


class Reader:
    """Applies the next layer of a network, whichever kind the network's structure says it is."""

    _activations: ClassVar[Mapping[players.Activation, Callable[[Tensor], Tensor]]] = {
        "relu": torch.relu,
        "tanh": torch.tanh,
    }

    def __init__(
        self,
        views: Iterator[Tensor],
        statistics: Tensor,
        *,
        activation: players.Activation,
        training: bool,
        ranks: Ranks = ALONE,
    ) -> None:
        self._views = views
        self._ranks = ranks
        self._statistics = statistics
        self._training = training
        self._position = 0
        self._activation = activation
        self.activation = self._activations[activation]

    def flatten(self, encoder: players.FlattenEncoder, inputs: Inputs, x: Tensor) -> Tensor:
        """Return the first points' coordinates and the rest, (P, B, F), of (P, B, I).

        Exported programs, which are certified byte for byte, have these operations.
        """
        points, more = split(inputs, x)
        return torch.cat([points[:, :, : encoder.num_points].flatten(2), more], dim=2)

    def linear(self, x: Tensor) -> Tensor:
        """Return (P, R, O) for (P, R, I)."""
        weight, bias = next(self._views), next(self._views)
        return torch.baddbmm(bias, x, weight)

    def hidden(self, x: Tensor) -> Tensor:
        """Return (P, R, O) for (P, R, I), activated."""
        return self.activation(self.linear(x))

    def norm(self, x: Tensor, kind: NormKind) -> Tensor:
        """Return (P, R, I) of mean 0 and variance 1, scaled and shifted."""
        scale, shift = next(self._views), next(self._views)
        x = x.to(scale.dtype)  # sums want full precision
        if kind == "batch_norm":
            mean, var = self._next_statistics(x.shape[2])
            if self._training:
                return self._norm_by_batch(x, scale, shift, mean, var)
        else:
            mean, var = x.mean(dim=2, keepdim=True), x.var(dim=2, keepdim=True, correction=0)
        return (x - mean) * torch.rsqrt(var + NORM_EPS) * scale + shift

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        return x + other

    def dueling(self, x: Tensor) -> Tensor:
        """Return (P, R, O): the first of (P, R, 1 + O), plus the others with mean 0."""
        value, advantages = x[..., :1], x[..., 1:]
        return value + advantages - advantages.mean(dim=2, keepdim=True)

    def _norm_by_batch(
        self, x: Tensor, scale: Tensor, shift: Tensor, running_mean: Tensor, running_var: Tensor
    ) -> Tensor:
        """Return ``x`` normalised by the batch's own moments, which the running ones follow."""
        y: Tensor
        y, mean, var = _NormByBatch.apply(x, scale, shift, self._ranks)  # type: ignore[no-untyped-call]
        num_rows = x.shape[1] * self._ranks.size
        unbiased = var * (num_rows / max(num_rows - 1, 1))
        running_mean.lerp_(mean, BATCH_NORM_MOMENTUM)
        running_var.lerp_(unbiased, BATCH_NORM_MOMENTUM)
        return y

    def _next_statistics(self, width: int) -> tuple[Tensor, Tensor]:
        # Exported programs are certified byte for byte, so their operations must stay these.
        start = self._position
        self._position += 2 * width
        mean = self._statistics[:, None, start : start + width]
        var = self._statistics[:, None, start + width : start + 2 * width]
        return mean, var


class QuickReader(Reader):
    """Applies the layers of what is not exported, so that operations may be others."""

    # In place: the input is a new tensor each time, and derivatives need the output alone.
    _activations: ClassVar[Mapping[players.Activation, Callable[[Tensor], Tensor]]] = {
        "relu": torch.relu_,
        "tanh": torch.tanh_,
    }

    def linear(self, x: Tensor) -> Tensor:
        weight, bias = next(self._views), next(self._views)
        if layers_cpu.is_quicker_transposed(x, weight):
            return layers_cpu.transposed_linear(x, weight, bias)
        return torch.baddbmm(bias, x, weight)

    def flatten(self, encoder: players.FlattenEncoder, inputs: Inputs, x: Tensor) -> Tensor:
        if inputs.num_more > 0:
            return super().flatten(encoder, inputs, x)
        size = encoder.num_points * inputs.dimension
        return x if x.shape[2] == size else x[..., :size]


NO_STATISTICS = torch.empty(1, 0)  # as encoders have no batch norms


class EncoderReader(QuickReader):
    """Applies an encoder to one member, as is quickest on a CPU."""

    def __init__(
        self,
        views: Iterator[Tensor],
        linear_views: Iterator[LinearViews],
        *,
        activation: players.Activation,
    ) -> None:
        super().__init__(views, NO_STATISTICS, activation=activation, training=False)
        self._linear_views = linear_views

    def linear(self, x: Tensor) -> Tensor:
        return layers_cpu.linear(x, *self._next_linear(), "none")

    def hidden(self, x: Tensor) -> Tensor:
        return layers_cpu.linear(x, *self._next_linear(), self._activation)

    def _next_linear(self) -> tuple[Tensor, Tensor, LinearViews]:
        return next(self._views), next(self._views), next(self._linear_views)


AnyReader = Reader | layers_cpu.MemberReader


def apply_layer(reader: AnyReader, layer: Layer, x: Tensor) -> Tensor:
    """Return the layer's output (..., R, O) for (..., R, I)."""
    match layer:
        case Linear():
            return reader.hidden(x)
        case Norm(kind):
            return reader.norm(x, kind)
        case Residual(width, kind):
            y = reader.activation(reader.norm(reader.linear(x), kind))
            y = reader.norm(reader.linear(y), kind)
            skip = x if x.shape[-1] == width else reader.norm(reader.linear(x), kind)
            return reader.activation(reader.add(y, skip))


def split(inputs: Inputs, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return points (P, B, N, D) and the rest (P, B, E) of observations (P, B, I).

    These may hold fewer than ``num_points``, but not fewer than an encoder looks at.
    """
    points, more = x.split([x.shape[2] - inputs.num_more, inputs.num_more], dim=2)
    return points.unflatten(2, (-1, inputs.dimension)), more


def apply_encoder(reader: Reader, encoder: players.Encoder, inputs: Inputs, x: Tensor) -> Tensor:
    """Return features (P, B, F) of observations (P, B, I)."""
    if isinstance(encoder, players.FlattenEncoder):
        return reader.flatten(encoder, inputs, x)
    points, more = split(inputs, x)
    if isinstance(encoder, players.EncoderExtension):
        return torch.cat([encoder.features(points), more], dim=2)
    is_live = points[..., 0] >= 0
    rows = torch.cat([points, more[:, :, None].expand(*points.shape[:3], -1)], dim=3)
    match encoder:
        case players.DeepSetsEncoder(widths=widths, pool=pool):
            features = rows.flatten(1, 2)
            for _ in widths:
                features = reader.hidden(features)
            return _pool(features.unflatten(1, rows.shape[1:3]), is_live, pool)
        case players.AttentionEncoder():
            return _attend(reader, encoder, rows, is_live)
        case _:
            assert_never(encoder)


def _attend(
    reader: Reader, encoder: players.AttentionEncoder, rows: Tensor, is_live: Tensor
) -> Tensor:
    """Return the mean (P, B, W) of the live points' features after all blocks."""
    x = reader.linear(rows.flatten(1, 2))
    for _ in range(encoder.blocks):
        x = x + _attention(reader, reader.norm(x, "layer_norm"), is_live, encoder.heads)
        hidden = reader.hidden(reader.norm(x, "layer_norm"))
        x = x + reader.linear(hidden)
    x = reader.norm(x, "layer_norm")
    return _pool(x.unflatten(1, is_live.shape[1:]), is_live, "mean")


def _attention(reader: Reader, x: Tensor, is_live: Tensor, heads: int) -> Tensor:
    """Return (P, B * N, W): every point attends to the live points of its game."""
    projected = reader.linear(x).unflatten(1, is_live.shape[1:])
    # (P, B, N, 3, heads, W / heads) -> three times (P, B, heads, N, W / heads)
    query, key, value = projected.unflatten(3, (3, heads, -1)).permute(3, 0, 1, 4, 2, 5).unbind(0)
    mask = is_live[:, :, None, None, :]
    attended = scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return reader.linear(attended.transpose(2, 3).flatten(3).flatten(1, 2))


def _pool(features: Tensor, is_live: Tensor, how: str) -> Tensor:
    """Return (P, B, F) over the live points of (P, B, N, F); there is always one."""
    live = is_live[..., None]
    if how == "max":
        return features.masked_fill(~live, -torch.inf).amax(dim=2)
    total = (features * live).sum(dim=2)
    return total if how == "sum" else total / live.sum(dim=2)


def apply_tower(reader: Reader, tower: Tower, inputs: Inputs, x: Tensor) -> Tensor:
    """Return float32 (P, B, O) for observations float32 (P, B, I)."""
    return apply_layers(reader, tower, apply_encoder(reader, tower.encoder, inputs, x), x.dtype)


def apply_layers(reader: AnyReader, tower: Tower, x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return (..., B, O) for features (..., B, F)."""
    for layer in tower.layers:
        x = apply_layer(reader, layer, x)
    x = reader.linear(x).to(dtype)
    return reader.dueling(x) if tower.dueling else x
