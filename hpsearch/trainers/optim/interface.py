"""What an optimizer is given, and what every one does.

Axes: P members, W weights of one member.
"""

from typing import NamedTuple, Protocol

from torch import Tensor


class Update(NamedTuple):
    """One update of every member."""

    gradients: Tensor
    """float32 (P, W)"""
    scale: Tensor
    """float32 (P,), what the gradients are multiplied by, from `clipping`"""
    lr: Tensor
    """float32 (P,), learning rates"""
    active: Tensor
    """bool (P,), whose weights move"""


class TargetWeights(NamedTuple):
    """The weights of a target network, which follow those that have just moved."""

    weights: Tensor
    """float32 (P, W), changed in place"""
    tau: Tensor
    """float32 (P,), the share of the way that they go (Polyak averaging); 0 leaves them"""


class Optimizer(Protocol):
    """Moves a bank of weights along a gradient."""

    def step(self, weights: Tensor, update: Update, target: TargetWeights | None) -> None:
        """Move ``weights`` (P, W) in place, then the ``target``'s towards them."""
        ...

    def forget(self) -> None:
        """Begin with empty averages again."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        ...

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        ...
