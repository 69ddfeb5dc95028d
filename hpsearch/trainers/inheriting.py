"""Inheriting: a member that begins with the state of another one, and then trains by itself.

A child may learn by other rates than its parent, and has its own randomness: the keys of its
streams and of its starts are settings, which follow from its own seed. The counters are the
parent's, so that even a child with its parent's seed draws no number and meets no start that its
parent has learned from. Its games begin anew, each at the next start of its lane.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from torch import Tensor

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint_name import STATE
from hpsearch.trainers.config import TrainerConfig, read_config, shape_differences
from hpsearch.trainers.trainer import AnyTrainer

DRAWN: Final = ("counters", "starts")
"""last parts of the names of state that counts the random numbers drawn"""
OF_NETWORKS: Final = ("net.", "target_net.", "optimizer.", "snapshots.")
"""first parts of the names of a role's state whose shape follows its networks"""


def inherit(trainer: AnyTrainer, path: Path, member: int) -> None:
    """Let one member begin as the checkpoint at ``path`` stands, of whatever rates and seed.

    It takes networks, targets, optimizers, snapshots, the step, and the memory where checkpoints
    hold it. Raises CorruptError or ConfigError if the checkpoint is missing, damaged or of another
    version, ConflictError if it is of another shape, naming what differs.
    """
    tensors, differing = _inherited(trainer, path, member)
    _check_same_shape(path, differing)
    _begin(trainer, member, tensors)


def inherit_around(trainer: AnyTrainer, path: Path, member: int) -> str:
    """Let one member begin as `inherit`, but for the role whose net_arch differs; return the role.

    That role keeps its own networks, target, optimizer and snapshots, and takes all the rest: the
    memory, where checkpoints hold it, and what was drawn. Raises CorruptError or ConfigError as
    `inherit`, ConflictError if the checkpoint differs in more than the net_arch of one role, or not
    at all, naming what differs.
    """
    tensors, differing = _inherited(trainer, path, member)
    names: list[str] = [learner.name for learner in trainer.learners]
    role = next((name for name in names if differing == [f"{name}.net_arch"]), None)
    if role is None:
        raise ConflictError(
            "a child that grows must differ from its parent in the net_arch of one role alone, but "
            f"{path} differs in {', '.join(differing) or 'nothing'}; name a parent of such a shape"
        )
    own = tuple(f"{role}.{part}" for part in OF_NETWORKS)
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(own)}
    _begin(trainer, member, kept)
    return role


def inherit_role(trainer: AnyTrainer, path: Path, role: str, member: int) -> None:
    """Let one role of a member begin as it stands in the checkpoint at ``path``, the rest stays.

    Raises as `inherit`.
    """
    tensors, differing = _inherited(trainer, path, member)
    _check_same_shape(path, differing)
    state = {name: tensor for name, tensor in tensors.items() if name.startswith(f"{role}.")}
    _begin(trainer, member, _redated(state, tensors["step"], trainer.step[member]))


def copy_of(trainer: AnyTrainer, member: int) -> dict[str, Tensor]:
    """Return the whole state of a member by name, in new memory on the same device."""
    return {name: tensor[member].clone() for name, tensor in trainer.state().items()}


def take_place(
    trainer: AnyTrainer, member: int, config: TrainerConfig, state: Mapping[str, Tensor]
) -> None:
    """Let a copy of another member, as `copy_of` held it, take one's place.

    It learns by ``config``, of the others' shape. The place keeps counting its steps, and draws no
    random number that it or the other has drawn from its stream. Raises ValueError if ``config`` or
    ``state`` is of another shape.
    """
    step = trainer.step[member].clone()
    drawn = {
        name: tensor[member].maximum(state[name])
        for name, tensor in trainer.state().items()
        if name.rpartition(".")[2] in DRAWN
    }
    trainer.begin(member, config)
    redated = _redated(dict(state), state["step"], step)
    _begin(trainer, member, redated | drawn | {"step": step})


def _redated(state: dict[str, Tensor], then: Tensor, now: Tensor) -> dict[str, Tensor]:
    """Return state in which snapshots are as old as they were, though the step is another one."""
    moved = {}
    for name, taken in state.items():
        if name.endswith("snapshots.taken"):
            since = (now.to(taken.device) - (then.to(taken.device) - taken)).clamp(min=0)
            moved[name] = since.where(taken >= 0, taken)
    return state | moved


def _inherited(trainer: AnyTrainer, path: Path, member: int) -> tuple[dict[str, Tensor], list[str]]:
    """Return the state that a checkpoint holds, by name, and how it differs in shape."""
    saved = checkpoint.load(path)
    parent = read_config(saved.config, source=str(path / STATE))
    missing = trainer.saved_state().keys() - saved.tensors.keys()
    if missing:
        raise CorruptError(f"the checkpoint {path} lacks {', '.join(sorted(missing))}")
    return trainer.own_part(saved.tensors), shape_differences(parent, trainer.configs[member])


def _check_same_shape(path: Path, differing: list[str]) -> None:
    if differing:
        raise ConflictError(
            f"a child must have its parent's shape, but {path} differs in {', '.join(differing)}; "
            "name a parent of this shape"
        )


def _begin(trainer: AnyTrainer, member: int, state: Mapping[str, Tensor]) -> None:
    trainer.load_member(member, state)
    trainer.fused_game.restart(member)
    for learner in trainer.learners:
        learner.leave_games(member)
