"""Encoders: from points to features; how each is laid out, and how it is applied.

Axes: P members, B games, N points, D coordinates, E features beside the points (the host's subset
where the player is an agent), F features of a point. Padding is -1 and takes no part.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from hpsearch.trainers.config.players import (
    AttentionEncoder,
    DeepSetsEncoder,
    Encoder,
    FlattenEncoder,
)
from hpsearch.trainers.networks.layers import plan_hidden
from hpsearch.trainers.networks.plan import Init, Plan
from hpsearch.trainers.networks.reader import Reader


@dataclass(frozen=True)
class Inputs:
    """What an observation holds: N points of D coordinates, then E more numbers."""

    num_points: int
    dimension: int
    num_more: int

    @property
    def num_features(self) -> int:
        """Return the length of the observation."""
        return self.num_points * self.dimension + self.num_more

    def split(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return points (P, B, N, D) and the rest (P, B, E) of observations (P, B, I).

        These may hold fewer than ``num_points``, but not fewer than an encoder looks at.
        """
        points, more = x.split([x.shape[2] - self.num_more, self.num_more], dim=2)
        return points.unflatten(2, (-1, self.dimension)), more


def plan_encoder(plan: Plan, encoder: Encoder, inputs: Inputs, init: Init) -> int:
    """Add an encoder; return the number of features that it gives."""
    num_features = inputs.dimension + inputs.num_more
    match encoder:
        case FlattenEncoder(num_points=num_points):
            return num_points * inputs.dimension + inputs.num_more
        case DeepSetsEncoder(widths=widths):
            for width in widths:
                num_features = plan_hidden(plan, num_features, width, init)
            return num_features
        case AttentionEncoder(width=width, blocks=blocks):
            plan.linear(num_features, width, init=init)
            for _ in range(blocks):
                plan.norm(width, "layer_norm")
                plan.linear(width, 3 * width, init=init)
                plan.linear(width, width, init=init)
                plan.norm(width, "layer_norm")
                plan_hidden(plan, width, width, init)
                plan.linear(width, width, init=init)
            plan.norm(width, "layer_norm")
            return width


def num_read(encoder: Encoder, inputs: Inputs) -> int:
    """Return how many numbers of the points an encoder looks at, the first ones."""
    num_points = encoder.num_points if isinstance(encoder, FlattenEncoder) else inputs.num_points
    return num_points * inputs.dimension


def apply_encoder(reader: Reader, encoder: Encoder, inputs: Inputs, x: Tensor) -> Tensor:
    """Return features (P, B, F) of observations (P, B, I)."""
    points, more = inputs.split(x)
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
