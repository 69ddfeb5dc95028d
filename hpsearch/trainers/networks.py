"""Networks of a whole population: the weights of P members in one flat bank, layer by layer.

Weights lie in the bank as `config.weight_layout` says. Member p of a network computes what the same
member would compute alone, up to rounding.

Axes: P members, R rows (games, or games times points), B games, F features, I inputs, O outputs, W
weights and S statistics of one member.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE, threads
from hpsearch.game.stream import Stream
from hpsearch.trainers import layers_cpu
from hpsearch.trainers.config.players import EncoderExtension
from hpsearch.trainers.config.weight_layout import (
    SUMMED_IN_ORDER,
    Inputs,
    Tower,
    num_read,
    weight_layout,
)
from hpsearch.trainers.first_weights import first_statistics, first_weights
from hpsearch.trainers.graphs import compiled
from hpsearch.trainers.layers import (
    EncoderReader,
    QuickReader,
    apply_encoder,
    apply_layers,
    apply_tower,
)
from hpsearch.trainers.products_cpu import LinearViews
from hpsearch.trainers.ranks import ALONE, Ranks

WIDE = 128
"""outputs of a layer from which it is quicker on a CPU to pass one member after another"""
MANY_GAMES = 128
"""games of a member from which that is quicker in play, too: several threads share their rows"""


def _members(bank: Tensor) -> Sequence[Tensor]:
    """Return the rows (1, ...) of (P, ...); gradients of a single one need no copy."""
    return bank.split(1) if len(bank) > 1 else [bank]


@dataclass(frozen=True)
class _ByMember:
    """A tower of which each member's weights are views of their own."""

    num_encoder_tensors: int  # of the encoder's weights, which come first
    encoders: Sequence[Sequence[LinearViews]]  # linear layers of each member
    layers: Sequence[Sequence[layers_cpu.Views]]  # all that come after the encoder, of each member


PullBack: TypeAlias = Callable[[Sequence[Tensor], Tensor], Tensor]
"""fills its second argument (P, W) with the derivatives of something by all weights, by those of
the values (P, R, O) of each tower, and returns it"""


@dataclass(frozen=True)
class Arithmetic:
    precision: Literal["fp32", "tf32", "bf16"]
    compile: Literal["off", "default"]


class Network:
    """One or more towers of P members over the same observations.

    Attributes:
        weights: float32 (P, W), every weight of every member; layers are views of it.
        statistics: float32 (P, S), running means and variances of the batch norms.
        layout: where each of them lies.
        inputs, towers, arithmetic: what it sees, its towers as first drawn, how it computes.
        observation_size: how many numbers of the points' observation it looks at, the first ones.
    """

    def __init__(
        self,
        inputs: Inputs,
        towers: Sequence[Tower],
        arithmetic: Arithmetic,
        stream: Stream,
        ranks: Ranks = ALONE,
    ) -> None:
        """Draw fresh weights; batch norms use the moments of all ``ranks``' batches."""
        self._ranks = ranks
        self.inputs = inputs
        self.towers = tuple(towers)
        self.observation_size = max(num_read(tower.encoder, inputs) for tower in towers)
        self.arithmetic = arithmetic
        self.layout = weight_layout(inputs, self.towers)
        self.weights = first_weights(self.layout, stream)
        self.statistics = first_statistics(self.layout, stream.keys.shape[0], stream.keys.device)
        parts = iter(self.parts(self.weights).values())
        # Of each tower: two of an affine, in the order in which a `Reader` takes them.
        self._views: list[list[Tensor]] = []
        for tower in range(len(self.towers)):
            of_tower = islice(parts, 2 * len(self.layout.of_tower(tower)))
            self._views.append([view.detach().requires_grad_() for view in of_tower])
        # The bank written last, with each member's views of it: to make them takes time.
        self._last_gradients: tuple[Tensor | None, list[tuple[Tensor, ...]]] = None, []
        self._statistics = [self.layout.statistics(tower) for tower in range(len(self.towers))]
        uses_cpu = self.weights.device.type == "cpu"
        self._is_plain = uses_cpu and arithmetic.compile == "off" and arithmetic.precision != "bf16"
        encoders = [tower.encoder for tower in self.towers]
        most_summed = max(affine.shape[0] for affine in self.layout.affines)
        # So that by member neither the number of threads nor other rows change a row's digits.
        self._adds_in_order = most_summed <= SUMMED_IN_ORDER and not any(
            isinstance(encoder, EncoderExtension) for encoder in encoders
        )
        # torch.compile takes no calls between ranks, which batch norms make.
        calls_ranks = ranks.size > 1 and self.statistics.numel() > 0
        self._update = compiled(self._forward, "off" if calls_ranks else arithmetic.compile)
        self._by_member: list[_ByMember] = []  # of each tower, where that is quicker
        if self._is_quicker_by_member():
            self._update = self._forward_by_member
            self._by_member = [self._views_by_member(tower) for tower in range(len(self.towers))]
        # Autograd goes through encoders that have weights.
        has_weights_before = any(tower.num_encoder_tensors for tower in self._by_member)
        self._is_by_hand = self.has_layers_by_member and not has_weights_before

    def __call__(self, x: Tensor, *, tower: int = 0, training: bool = False) -> Tensor:
        """Return float32 (P, B, O) for float32 (P, B, I).

        Of the points an observation needs only `observation_size` numbers. Of `MANY_GAMES` games or
        more layers pass as those of updates do, where several threads give the same digits.

        In ``training`` batch norms use the batch's own statistics and move the running ones; an
        argument instead of a mode, so that no pass can find the mode that another one left.
        """
        if self.has_layers_by_member and self._adds_in_order and x.shape[1] >= MANY_GAMES:
            return self.update_pass(x, tower=tower, training=training)
        if not (self._is_plain and THREADS_MAY_CHANGE.is_set()):
            return self._apply(self._forward, x, tower, training)
        with threads(min(torch.get_num_threads(), len(x))):  # a member's products by one thread
            return self._apply(self._forward, x, tower, training)

    def update_pass(self, x: Tensor, *, tower: int = 0, training: bool = False) -> Tensor:
        """Return what a call does, up to rounding, as is quickest; compiled where asked for.

        For the batches of updates, which are of few sizes; games played are of many.
        """
        return self._apply(self._update, x, tower, training)

    def _apply(
        self, run: Callable[[Tensor, int, bool], Tensor], x: Tensor, tower: int, training: bool
    ) -> Tensor:
        kind, is_bf16 = x.device.type, self.arithmetic.precision == "bf16"
        if not (is_bf16 or torch.is_autocast_enabled(kind)):  # to say so again takes a while
            return run(x, tower, training)
        with torch.autocast(kind, torch.bfloat16, enabled=is_bf16):
            return run(x, tower, training)

    def _forward(self, x: Tensor, index: int, training: bool) -> Tensor:
        tower, statistics = self.towers[index], self.statistics[:, self._statistics[index]]
        reader = QuickReader(
            iter(self._views[index]),
            statistics,
            activation=tower.activation,
            training=training,
            ranks=self._ranks,
        )
        return apply_tower(reader, tower, self.inputs, x)

    def _is_quicker_by_member(self) -> bool:
        if not (self._is_plain and layers_cpu.is_available(self.weights.device)):
            return False
        # Ranks average the moments of all members at once.
        shares_moments = self._ranks.size > 1 and self.layout.statistics_size > 0
        return not shares_moments and max(each.shape[1] for each in self.layout.affines) >= WIDE

    def _forward_by_member(self, x: Tensor, index: int, training: bool) -> Tensor:
        x = self._encoded_by_member(x, index)
        run = partial(self._layers_by_member, index, training)
        if not torch.is_grad_enabled():
            return run(x.unbind(), [None] * len(x))
        weights = self._views[index][self._by_member[index].num_encoder_tensors :]
        y: Tensor = layers_cpu.Taped.apply(run, x, *weights)  # type: ignore[no-untyped-call]
        return y

    def _encoded_by_member(self, x: Tensor, index: int) -> Tensor:
        """Return the features (P, R, F) of a tower."""
        tower, encoders = self.towers[index], self._by_member[index].encoders
        views = self._views[index][: self._by_member[index].num_encoder_tensors]
        if not views:
            reader = EncoderReader(iter(()), iter(()), activation=tower.activation)
            return apply_encoder(reader, tower.encoder, self.inputs, x)
        outs = []
        members = zip(*map(_members, [x, *views]), strict=True)
        for (rows, *own), linear_views in zip(members, encoders, strict=True):
            reader = EncoderReader(iter(own), iter(linear_views), activation=tower.activation)
            outs.append(apply_encoder(reader, tower.encoder, self.inputs, rows))
        return torch.cat(outs) if len(outs) > 1 else outs[0]

    def _layers_by_member(
        self,
        index: int,
        training: bool,
        members: Sequence[Tensor],
        tapes: Sequence[layers_cpu.Tape | None],
    ) -> Tensor:
        """Return (P, R, O) of each member's features (R, F), noted on its tape."""
        tower, outs = self.towers[index], []
        for x, views, tape in zip(members, self._by_member[index].layers, tapes, strict=True):
            reader = layers_cpu.MemberReader(
                iter(views), tape, activation=tower.activation, training=training
            )
            outs.append(apply_layers(reader, tower, x, x.dtype))
        return torch.stack(outs) if len(outs) > 1 else outs[0][None]

    def _views_by_member(self, tower: int) -> _ByMember:
        *layers, _ = self.layout.towers[tower]
        encoder = layers[: len(layers) - len(self.towers[tower].layers)]
        num_affines = sum(len(layer.affines) for layer in encoder)
        pairs = list(zip(self._views[tower][::2], self._views[tower][1::2], strict=True))
        affines, statistics = self.layout.of_tower(tower), self.statistics
        encoders, rest = [], []
        for p in range(len(self.weights)):
            views = [
                layers_cpu.views_of(affine, weight[p], bias[p, 0], statistics[p])
                for affine, (weight, bias) in zip(affines, pairs, strict=True)
            ]
            encoding = views[:num_affines]
            encoders.append([each for each in encoding if isinstance(each, LinearViews)])
            rest.append(views[num_affines:])
        return _ByMember(2 * num_affines, encoders, rest)

    def tensors_of(self, tower: int) -> tuple[list[Tensor], Tensor]:
        """Return what a `Reader` of one tower takes: weights, layer after layer, and statistics.

        Views (P, rows, columns) and (P, S) of the network's own, without gradients.
        """
        views = [view.detach() for view in self._views[tower]]
        return views, self.statistics[:, self._statistics[tower]]

    @property
    def has_independent_rows(self) -> bool:
        """Return whether an update's pass values a position alike in every digit in any batch."""
        return self._is_by_hand and self._adds_in_order

    @property
    def has_layers_by_member(self) -> bool:
        """Return whether each member's layers are computed for itself, on a CPU."""
        return len(self._by_member) > 0

    @property
    def structure(self) -> tuple[object, ...]:
        """Return what two networks must share for one to take over the other's weights."""
        drawn_alike = [replace(tower, init="uniform", last_scale=1.0) for tower in self.towers]
        return (self.inputs, *drawn_alike)

    def differentiable_pass(self, x: Tensor, *, training: bool) -> tuple[list[Tensor], PullBack]:
        """Return the values (P, B, O) of each tower in an update, and what goes back through.

        Where layers are written out, autograd has no part in it.
        """
        towers = range(len(self.towers))
        if self._is_by_hand:
            with torch.no_grad():
                passes = [self._taped_pass(x, tower, training) for tower in towers]
            values, tapes = map(list, zip(*passes, strict=True))
            return values, partial(self._pull_back, tapes)
        values = [self.update_pass(x, tower=tower, training=training) for tower in towers]
        return [value.detach() for value in values], partial(self.gradients, values)

    def _pull_back(
        self, tapes: list[list[layers_cpu.Tape]], grad_values: Sequence[Tensor], out: Tensor
    ) -> Tensor:
        bank, views = self._last_gradients
        if out is not bank:
            views = list(zip(*self.parts(out).values(), strict=True))
            self._last_gradients = out, views
        layers_cpu.gradients(views, tapes, grad_values)
        return out

    def _taped_pass(
        self, x: Tensor, tower: int, training: bool
    ) -> tuple[Tensor, list[layers_cpu.Tape]]:
        members = self._encoded_by_member(x, tower).unbind()
        tapes = [layers_cpu.Tape(rows, derives_given=False) for rows in members]
        return self._layers_by_member(tower, training, members, tapes), tapes

    def gradients(
        self,
        outputs: Tensor | Sequence[Tensor],
        grad_outputs: Sequence[Tensor] | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return the gradient of a loss by every weight, float32 (P, W).

        ``outputs`` are the loss, a scalar, or other things with the loss's gradient by each,
        ``grad_outputs``. Weights that they do not depend on get 0. If ``out`` is given, it lies
        there.
        """
        views = [view for tower in self._views for view in tower]
        parts = torch.autograd.grad(outputs, views, grad_outputs, materialize_grads=True)
        return torch.cat([part.flatten(1) for part in parts], dim=1, out=out)

    def follow_statistics(self, other: "Network", share: Tensor) -> None:
        """Move batch norms' statistics by ``share`` float32 (P,) of the way to ``other``'s."""
        if self.statistics.shape[1]:
            self.statistics.lerp_(other.statistics, share[:, None])

    def copy_(self, other: "Network") -> None:
        self.weights.copy_(other.weights)
        self.statistics.copy_(other.statistics)

    def copy_member_(self, member: int, other: "Network") -> None:
        self.weights[member].copy_(other.weights[0])
        self.statistics[member].copy_(other.statistics[0])

    def like(self, num_members: int) -> "Network":
        """Return a network of the same structure for another number of members, weights 0."""
        keys = torch.zeros(num_members, dtype=torch.int64, device=self.weights.device)
        other = Network(self.inputs, self.towers, self.arithmetic, Stream(keys))
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

        Raises ValueError if they are of other names or shapes.
        """
        own = self.layers(member)  # views of the weights
        shapes = {name: tuple(tensor.shape) for name, tensor in own.items()}
        new = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if shapes != new:
            raise ValueError(f"the network has the tensors {shapes}, but got {new}")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights, "statistics": self.statistics}
