"""What networks begin with: random weights, and the statistics of batch norms.

Axes: P members, W weights and S statistics of one member.
"""

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.trainers.config.weight_layout import Affine, WeightLayout


def first_weights(layout: WeightLayout, stream: Stream) -> Tensor:
    """Return random initial weights float32 (P, W); ``stream`` has a row for each member."""
    noise = stream.uniform(layout.size)
    drawn = []
    for affine in layout.affines:
        weight = noise[:, affine.weight].unflatten(1, (affine.shape[0], -1))
        drawn += [part.flatten(1) for part in _drawn(affine, weight, noise[:, affine.bias])]
    return torch.cat(drawn, dim=1)


def _drawn(affine: Affine, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return a layer's initial weight and bias, made of uniform noise; a norm begins as 1 and 0."""
    if affine.kind != "linear":
        return torch.ones_like(weight), torch.zeros_like(bias)
    if affine.init == "orthogonal":
        return orthogonal(weight, affine.scale), torch.zeros_like(bias)
    bound = affine.scale * affine.shape[0] ** -0.5  # as torch.nn.Linear draws
    return uniform(weight, bound), uniform(bias, bound)


def first_statistics(layout: WeightLayout, num_members: int, device: torch.device) -> Tensor:
    """Return mean 0 and variance 1 for every batch norm, float32 (P, S)."""
    row = torch.zeros(layout.statistics_size)
    for affine in layout.affines:
        if affine.statistics is not None:
            width = affine.shape[1]
            row[affine.statistics + width : affine.statistics + 2 * width] = 1.0
    return row.to(device).repeat(num_members, 1)


def uniform(noise: Tensor, bound: float) -> Tensor:
    return (noise * 2.0 - 1.0) * bound


def orthogonal(noise: Tensor, gain: float) -> Tensor:
    """Return orthogonal rows or columns of length ``gain`` (Saxe et al., 1312.6120).

    Uniform ``noise`` (P, rows, columns) is factored member by member on the CPU, so that neither
    the device nor the other members change what a member begins with.
    """
    normal = torch.special.ndtri(noise.cpu().double().clamp(min=2.0**-33))  # 0 would be infinite
    is_wide = normal.shape[1] < normal.shape[2]
    factored = [torch.linalg.qr(matrix) for matrix in (normal.mT if is_wide else normal)]
    q, r = (torch.stack(parts) for parts in zip(*factored, strict=True))
    # With the signs of r's diagonal q is uniform among all orthogonal matrices.
    q = torch.where(r.diagonal(dim1=1, dim2=2)[:, None] < 0, -q, q)
    weights: Tensor = gain * (q.mT if is_wide else q)
    return weights.float().to(noise.device)
