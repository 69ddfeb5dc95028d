"""What a CPU computes in another way than layers.py does, because it is quicker there.

A member's layers with their derivatives are written out: autograd takes long beside products of
these sizes. So are layers of few outputs, of all members at once.

Axes: P members, R rows, I inputs, O outputs.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from hpsearch.trainers.config.net_arch import NORM_EPS, NormKind
from hpsearch.trainers.config.weight_layout import SUMMED_IN_ORDER, Affine
from hpsearch.trainers.norms_cpu import batch_norm, derive_batch_norm, derive_layer_norm
from hpsearch.trainers.products_cpu import (
    FEW,
    Activation,
    LinearViews,
    apply_linear,
    derive_activation,
    derive_biased,
    product,
)


def is_available(device: torch.device) -> bool:
    return device.type == "cpu" and torch.backends.mkldnn.is_available()


class NormViews(NamedTuple):
    """A norm of one member."""

    scale: Tensor  # (O,)
    shift: Tensor  # (O,)
    moments: tuple[Tensor, Tensor] | None  # a batch norm's running mean and variance, (O,) each


Views: TypeAlias = LinearViews | NormViews


def views_of(affine: Affine, weight: Tensor, bias: Tensor, statistics: Tensor) -> Views:
    """Return views, without gradients, of one member's weight (I, O) and bias (O,).

    ``statistics`` (S,) are those of all its batch norms.
    """
    weight, bias = weight.detach(), bias.detach()
    if affine.kind == "linear":
        return LinearViews(weight, weight.T, bias)
    if affine.statistics is None:
        return NormViews(weight[0], bias, None)
    mean, var = statistics[affine.statistics :][: 2 * len(bias)].chunk(2)
    return NormViews(weight[0], bias, (mean, var))


GradientViews: TypeAlias = list[Tensor]
"""where derivatives of weights are to lie: weight (I, O) and bias (1, O) of layer after layer"""


class TapeEntry(NamedTuple):
    """An operation, and what computes its derivatives from that of its output.

    ``derive`` returns those of the inputs, None where none is asked for. It pops the views of its
    own weights off the end of the list, bias before weight, and fills them.
    """

    output: Tensor
    inputs: tuple[Tensor, ...]
    derive: Callable[[Tensor, GradientViews], tuple[Tensor | None, ...]]


class Tape:
    """The operations that some rows went through, to go back through."""

    def __init__(self, given: Tensor, *, derives_given: bool) -> None:
        """Begin with the rows ``given`` (R, I), whose own derivative may be asked for, too."""
        self._given, self._derives_given = given, derives_given
        self._entries: list[TapeEntry] = []

    def needs(self, x: Tensor) -> bool:
        """Return whether the derivative of ``x`` is asked for."""
        return self._derives_given or x is not self._given

    def note(self, entry: TapeEntry) -> None:
        self._entries.append(entry)

    def derive(self, grad: Tensor, gradient_views: GradientViews) -> Tensor | None:
        """Return the derivative of what was given; fill those of all weights, and pop their views.

        ``grad`` is that of the last output. No weight may have moved since.
        """
        # An operation in place gives the tensor that it got, which then stands here twice in turn.
        by_tensor = {id(self._entries[-1].output): grad}
        for output, inputs, derive in reversed(self._entries):
            parts = derive(by_tensor.pop(id(output)), gradient_views)
            for x, part in zip(inputs, parts, strict=True):
                if part is not None:
                    more = by_tensor.get(id(x))
                    by_tensor[id(x)] = part if more is None else part + more
        return by_tensor.get(id(self._given))


class MemberReader:
    """Applies the next layer of one member to (R, I), as `layers.Reader` does of all members."""

    def __init__(
        self,
        views: Iterator[Views],
        tape: Tape | None,
        *,
        activation: Literal["relu", "tanh"],
        training: bool,
    ) -> None:
        self._views, self._tape = views, tape
        self._activation, self._training = activation, training

    def linear(self, x: Tensor) -> Tensor:
        return self._apply(x, "none")

    def hidden(self, x: Tensor) -> Tensor:
        return self._apply(x, self._activation)

    def _apply(self, x: Tensor, then: Activation) -> Tensor:
        views = next(self._views)
        assert isinstance(views, LinearViews)
        return _taped_linear(x, views, then, self._tape)

    def norm(self, x: Tensor, kind: NormKind) -> Tensor:
        y: Tensor
        views = next(self._views)
        assert isinstance(views, NormViews)
        if views.moments is None:
            y, *of_batch = torch.ops.aten.native_layer_norm.default(
                x, [x.shape[1]], views.scale, views.shift, NORM_EPS
            )
        else:
            y, *of_batch = batch_norm(
                x, views.scale, views.shift, views.moments, training=self._training
            )
        if self._tape is not None:
            derive = partial(
                _derive_norm,
                x=x,
                views=views,
                of_batch=of_batch,
                training=self._training,
                needs_x=self._tape.needs(x),
            )
            self._tape.note(TapeEntry(y, (x,), derive))
        return y

    def activation(self, x: Tensor) -> Tensor:
        """Return ``x`` itself, changed: what comes before an activation, no derivative needs."""
        y: Tensor = torch.relu_(x) if self._activation == "relu" else torch.tanh_(x)
        if self._tape is not None:
            derive = partial(derive_activation, y=y, then=self._activation)
            self._tape.note(TapeEntry(y, (x,), lambda grad, _: (derive(grad),)))
        return y

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        y = x + other
        if self._tape is not None:
            self._tape.note(TapeEntry(y, (x, other), lambda grad, _: (grad, grad)))
        return y

    def dueling(self, x: Tensor) -> Tensor:
        y = x[:, :1] + x[:, 1:] - x[:, 1:].mean(dim=1, keepdim=True)
        if self._tape is not None:
            self._tape.note(TapeEntry(y, (x,), lambda grad, _: (_derive_dueling(grad),)))
        return y


def _derive_linear(
    grad: Tensor,
    gradient_views: GradientViews,
    *,
    x: Tensor,
    y: Tensor,
    views: LinearViews,
    then: Activation,
    needs_x: bool,
) -> tuple[Tensor | None]:
    grad = derive_biased(grad, y, then, gradient_views.pop())
    derive_weight(x, grad, gradient_views.pop())
    return (product(grad, views.transposed) if needs_x else None,)


def derive_weight(x: Tensor, grad: Tensor, of_weight: Tensor) -> None:
    """Fill ``of_weight`` (I, O), a weight's derivative, by inputs ``x`` (R, I) and ``grad`` (R, O).

    In pieces, as the sums of longer products depend on the number of threads.
    """
    if len(x) > SUMMED_IN_ORDER:
        of_weight.zero_()
        of_piece = torch.empty_like(of_weight)
        for rows in zip(x.split(SUMMED_IN_ORDER), grad.split(SUMMED_IN_ORDER), strict=True):
            derive_weight(*rows, of_piece)
            of_weight += of_piece
        return
    if grad.shape[1] < x.shape[1]:  # the first factor is the smaller one: oneDNN copies it
        of_weight.copy_(product(grad.T, x).T)
    else:
        product(x.T, grad, out=of_weight)


def _derive_norm(
    grad: Tensor,
    gradient_views: GradientViews,
    *,
    x: Tensor,
    views: NormViews,
    of_batch: Sequence[Tensor],
    training: bool,
    needs_x: bool,
) -> tuple[Tensor | None]:
    grad_x: Tensor | None = None
    mean, inverse = of_batch
    if views.moments is not None:
        grad_x, of_scale, of_shift = derive_batch_norm(
            grad, x, views.scale, mean, inverse, training=training
        )
    else:
        of_scale, of_shift = derive_layer_norm(grad, x, mean, inverse)
        if needs_x:
            mask = [True, False, False]  # torch shares the sums of the others out between threads
            grad_x, *_ = torch.ops.aten.native_layer_norm_backward.default(
                grad, x, [x.shape[1]], mean, inverse, views.scale, views.shift, mask
            )
    gradient_views.pop().copy_(of_shift)
    gradient_views.pop().copy_(of_scale)
    return (grad_x,)


def _derive_dueling(grad: Tensor) -> Tensor:
    advantages = grad - grad.mean(dim=1, keepdim=True)
    return torch.cat([grad.sum(dim=1, keepdim=True), advantages], dim=1)


class Taped(torch.autograd.Function):
    """Passes of members whose tapes autograd goes back through."""

    @staticmethod
    def forward(
        context: Any,
        run: Callable[[Sequence[Tensor], Sequence[Tape]], Tensor],
        x: Tensor,
        *weights: Tensor,
    ) -> Tensor:
        """Return what ``run`` makes of each member's x (R, I), and notes on its tape.

        ``weights`` (P, rows, columns), in the order of the tapes, only take the derivatives.
        """
        members, needs_x = x.unbind(), context.needs_input_grad[1]
        tapes = [Tape(rows, derives_given=needs_x) for rows in members]
        context.tapes, context.shapes = tapes, [weight.shape for weight in weights]
        return run(members, tapes)

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        of_weights = [grad.new_empty(shape) for shape in context.shapes]
        of_x = [
            tape.derive(rows, [each[member] for each in of_weights])
            for member, (tape, rows) in enumerate(zip(context.tapes, grad, strict=True))
        ]
        return None, torch.stack(of_x) if context.needs_input_grad[1] else None, *of_weights


def linear(x: Tensor, weight: Tensor, bias: Tensor, views: LinearViews, then: Activation) -> Tensor:
    """Return (1, R, O) for x (1, R, I), weight (1, I, O) and bias (1, 1, O), activated.

    ``views`` are of the same memory; ``weight`` and ``bias`` only take the gradients.
    """
    if not torch.is_grad_enabled():
        return apply_linear(x[0], views, then)[None]
    y: Tensor = Taped.apply(partial(_run_linear, views, then), x, weight, bias)  # type: ignore[no-untyped-call]
    return y


def _run_linear(
    views: LinearViews, then: Activation, members: Sequence[Tensor], tapes: Sequence[Tape]
) -> Tensor:
    return _taped_linear(members[0], views, then, tapes[0])[None]


def _taped_linear(x: Tensor, views: LinearViews, then: Activation, tape: Tape | None) -> Tensor:
    y = apply_linear(x, views, then)
    if tape is not None:
        needs_x = tape.needs(x)
        derive = partial(_derive_linear, x=x, y=y, views=views, then=then, needs_x=needs_x)
        tape.note(TapeEntry(y, (x,), derive))
    return y


MANY_ROWS = 2048
"""rows of all members from which `transposed_linear` saves more than its call by autograd costs"""


def is_quicker_transposed(x: Tensor, weight: Tensor) -> bool:
    """Return whether `transposed_linear` is quicker for x (P, R, I) and weight (P, I, O)."""
    return (
        weight.shape[2] < FEW
        and x.shape[0] * x.shape[1] >= MANY_ROWS
        and x.device.type == "cpu"
        and torch.backends.mkl.is_available()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def transposed_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return (P, R, O) of x (P, R, I), weight (P, I, O) and bias (P, 1, O), up to rounding.

    For few outputs: MKL takes several times as long for a product of few columns as for its
    transpose, of few rows.
    """
    y: Tensor = _TransposedLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _TransposedLinear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        context.save_for_backward(x, weight)
        y = torch.baddbmm(bias.mT, weight.mT, x.mT).mT
        # Also of a single output, where a view lies in one piece: activations change it in place.
        return y.clone(memory_format=torch.contiguous_format)

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        x, weight = context.saved_tensors
        grad_x = None
        if context.needs_input_grad[0]:
            # By a single output all products are of two numbers, and MKL takes several times as
            # long for them.
            is_single = weight.shape[2] == 1
            grad_x = grad * weight.mT if is_single else torch.bmm(grad, weight.mT)
        return grad_x, torch.bmm(grad.mT, x).mT, grad.sum(dim=1, keepdim=True)


def gradients(
    views: Sequence[Sequence[Tensor]],
    tapes: Sequence[Sequence[Tape]],
    grad_values: Sequence[Tensor],
) -> None:
    """Fill the ``views`` of each member: the derivatives by its weights, in the layout's order.

    ``grad_values`` (P, R, O) are those by each tower's values, ``tapes`` its members'.
    """
    for member, of_member in enumerate(views):
        left = list(of_member)
        for of_tower, grad in reversed(list(zip(tapes, grad_values, strict=True))):
            of_tower[member].derive(grad[member], left)
