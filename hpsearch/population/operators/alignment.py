"""Alignment: the hidden units of one parent, ordered like the similar units of the other.

A network computes the same when the units of a group trade places, so averaging and crossover by
unit need one common order. Weight matching of Ainsworth et al., Git Re-Basin (arXiv 2209.04836,
algorithm 1), by permutations, of heads too; not by the scales of ReLU, the signs of tanh, or the
linear maps between queries and keys.
Axes: P members, U units of a group.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from hpsearch.population.operators import base
from hpsearch.trainers.config.weight_layout import Affine, Heads, WeightLayout
from hpsearch.trainers.networks import Network

MAX_ROUNDS = 100
"""of coordinate descent, which ends by itself after a few; each makes the parents more alike"""

_SURELY_BETTER = 1e-9
"""relative gain below which an order is kept: rounding must not undo an exact match"""


def aligned(net: Network, reference: Network) -> Network:
    """Return ``net`` with its hidden units in the order in which ``reference`` has the like.

    It computes the same, to rounding; ``reference`` itself in another order comes back bit for bit,
    where no two units are the same. ValueError if both are not alike.
    """
    base.check_alike(net, reference)
    orders = [
        _match(net.layout, own.double().cpu(), other.double().cpu())
        for own, other in zip(net.weights, reference.weights, strict=True)
    ]
    units = [torch.stack(of_members) for of_members in zip(*orders, strict=True)]
    return permuted(net, [unit.to(net.weights.device) for unit in units])


def permuted(net: Network, units: Sequence[Tensor]) -> Network:
    """Return ``net`` with its units in another order: ``units`` int64 (P, U) for each group.

    Those of inputs and outputs must be 0, 1, ..., and heads must stay together.
    """
    return base.child_of_bank(net, base.bank(net).gather(1, base.places(net.layout, units)))


def _match(body: WeightLayout, own: Tensor, other: Tensor) -> list[Tensor]:
    """Return for each group which of its own units, int64 (U,), comes to each place.

    Each group is first matched by what writes it alone, from the inputs on: the best match already
    where one parent is the other in another order. The descent then takes groups in their order,
    not at random as in algorithm 1, so that it needs no seed.
    """
    order = [torch.arange(group.width) for group in body.groups]
    matching = _Matching(body, own, other, order)
    known = [g for g, group in enumerate(body.groups) if not group.is_hidden]
    for groups in _together(body):
        matching.improve(groups, known)
        known += groups
    for _ in range(MAX_ROUNDS):
        if not any([matching.improve(groups, known) for groups in _together(body)]):
            break
    return order


def _together(body: WeightLayout) -> Iterator[tuple[int, ...]]:
    """Yield the hidden groups in the order of the forward pass, those of one attention at once."""
    partner = {heads.query_key: heads.value for heads in body.heads}
    values = set(partner.values())
    for index, group in enumerate(body.groups):
        if group.is_hidden and index not in values:
            yield (index, partner[index]) if index in partner else (index,)


@dataclass(frozen=True)
class _Matching:
    """Two members' weights, float64 (W,), and the order of the first one's units so far."""

    body: WeightLayout
    own: Tensor
    other: Tensor
    order: list[Tensor]

    def improve(self, groups: tuple[int, ...], known: Collection[int]) -> bool:
        """Reorder ``groups`` as is best while ``known`` ones stay; return whether that changed."""
        similar = [self._similarity(group, known) for group in groups]
        orders = self._best(groups, similar)
        gains = [
            _value(table, new) - _value(table, self.order[group])
            for group, table, new in zip(groups, similar, orders, strict=True)
        ]
        size = sum(float(table.abs().amax(dim=1).sum()) for table in similar)
        if sum(gains) <= _SURELY_BETTER * size:
            return False
        for group, new in zip(groups, orders, strict=True):
            self.order[group] = new
        return True

    def _best(self, groups: tuple[int, ...], similar: Sequence[Tensor]) -> list[Tensor]:
        if len(groups) == 1:
            return [_assign(similar[0])]
        heads = next(heads for heads in self.body.heads if heads.query_key == groups[0])
        return _assign_heads(heads, similar)

    def _similarity(self, group: int, known: Collection[int]) -> Tensor:
        """Return how alike unit i of the other and own unit j are, (U, U).

        The sum of the products of their weights, by inputs and outputs that are ``known``.
        """
        width = self.body.groups[group].width
        table = torch.zeros(width, width, dtype=torch.float64)
        for affine in self.body.affines:
            if group in affine.columns and (affine.rows is None or affine.rows in known):
                table += self._written(affine, group)
            if affine.rows == group and all(column in known for column in affine.columns):
                table += self._read(affine)
        return table

    def _written(self, affine: Affine, group: int) -> Tensor:
        """Return the likeness of units by the weights that write them."""
        widths = [self.body.groups[column].width for column in affine.columns]
        # A bias follows its weight in the bank, as one more row.
        own, other = (
            values[affine.start : affine.bias.stop].unflatten(0, (-1, affine.shape[1]))
            for values in (self.own, self.other)
        )
        if affine.rows is not None:
            own = own[[*self.order[affine.rows].tolist(), -1]]
        parts = zip(affine.columns, own.split(widths, 1), other.split(widths, 1), strict=True)
        products = [theirs.T @ mine for column, mine, theirs in parts if column == group]
        return torch.stack(products).sum(dim=0)

    def _read(self, affine: Affine) -> Tensor:
        """Return the likeness of units by the weights that read them."""
        columns = base.columns_from(self.body, affine, self.order)
        return _weight(self.other, affine) @ _weight(self.own, affine)[:, columns].T


def _weight(bank: Tensor, affine: Affine) -> Tensor:
    weight: Tensor = bank[affine.weight].unflatten(0, affine.shape)
    return weight


def _assign(similar: Tensor) -> Tensor:
    """Return the column int64 (U,) for each row of (U, U) that makes the sum the largest."""
    # Imported where it is needed, so that a machine without it can train.
    from scipy.optimize import linear_sum_assignment

    _, columns = linear_sum_assignment(similar.numpy(), maximize=True)
    return torch.from_numpy(columns).long()


def _assign_heads(heads: Heads, similar: Sequence[Tensor]) -> list[Tensor]:
    """Return the best order of both groups of an attention: heads, and the units in each.

    Exact: how alike two heads are is the value of the best order of their units.
    """
    size, places = similar[0].shape[0] // heads.count, range(heads.count)
    # (heads of the other, own heads, units, units)
    tables = [table.unfold(0, size, size).unfold(1, size, size) for table in similar]
    inner = [[[_assign(table[i, j]) for j in places] for i in places] for table in tables]
    alike = torch.zeros(heads.count, heads.count, dtype=torch.float64)
    for table, orders in zip(tables, inner, strict=True):
        for i, j in product(places, places):
            alike[i, j] += _value(table[i, j], orders[i][j])
    chosen = _assign(alike).tolist()
    return [torch.cat([j * size + orders[i][j] for i, j in enumerate(chosen)]) for orders in inner]


def _value(similar: Tensor, order: Tensor) -> float:
    return float(similar.gather(1, order[:, None]).sum())
