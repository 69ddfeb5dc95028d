"""What users of a trainer may have called around the parts of training."""

from pathlib import Path
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class Callbacks(Generic[T]):
    """Methods that a trainer of type T calls, none of which does anything: a subclass defines some.

    Give an instance to a trainer as ``trainer.callbacks``; trainers made of it have none. They may
    read the trainer, and change what `Trainer` lets others change; what they do is no part of
    checkpoints. Looking at a tensor's value waits for the device. Each of several ranks calls its
    own. An error that one raises ends the training. The state is whole between two steps, and after
    an error in `before_step` or `after_step`; after one in another method it may be half changed.

    On a GPU rollouts and updates are replayed as a whole, so what is called within an update,
    `before_epoch` and `after_epoch`, would not be called: a subclass that defines one of them has
    updates launched one by one, which is slower.
    """

    def before_training(self, trainer: T) -> None:
        """`Trainer.train` begins."""

    def after_training(self, trainer: T) -> None:
        """`Trainer.train` ends, all its steps made; not after an error."""

    def before_step(self, trainer: T) -> None:
        """A step begins, of all members."""

    def after_step(self, trainer: T) -> None:
        """A step has ended, and is counted in ``trainer.step``."""

    def before_rollout(self, trainer: T) -> None:
        """The moves of a step begin."""

    def after_rollout(self, trainer: T) -> None:
        """All games have made the moves of a step."""

    def before_update(self, trainer: T) -> None:
        """The updates of a step begin, of all roles."""

    def after_update(self, trainer: T) -> None:
        """All updates of a step are made."""

    def before_epoch(self, trainer: T, role: str, epoch: int) -> None:
        """A pass of PPO over the moves of a step begins; ``epoch`` counts from 0."""

    def after_epoch(self, trainer: T, role: str, epoch: int) -> None:
        """A pass of PPO over the moves of a step has ended."""

    def before_checkpoint(self, trainer: T, member: int) -> None:
        """`Trainer.save` begins to write a member."""

    def after_checkpoint(self, trainer: T, member: int, path: Path) -> None:
        """A member's checkpoint lies at ``path``, whole."""


NO_CALLBACKS: Final = Callbacks[Any]()


def look_into_updates(callbacks: Callbacks[Any]) -> bool:
    """Return whether anything is called within an update, which then cannot be replayed."""
    kind = type(callbacks)
    own = kind.before_epoch, kind.after_epoch
    return own != (Callbacks.before_epoch, Callbacks.after_epoch)
