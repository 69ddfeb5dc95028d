"""Where the trials of a job begin, or go on from."""

from collections.abc import Mapping
from pathlib import Path

from hpsearch.cluster.member import Member
from hpsearch.cluster.supply import steps_to_resume
from hpsearch.errors import ConflictError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.best_checkpoint import forget_best
from hpsearch.trainers.trainer import AnyTrainer


def go_on(trainer: AnyTrainer, members: Mapping[int, Member], *, in_step: bool) -> dict[int, int]:
    """Let members, by row, begin or go on from their newest checkpoint; return steps, by trial.

    With ``in_step`` they always trained together, as `steps_to_resume` explains.

    Raises:
        ConflictError: if a checkpoint is of another configuration, or one must be there and is not.
        CorruptError: if a checkpoint was damaged after it had been found whole.
    """
    found = [_found_steps(member) for member in members.values()]
    begun: dict[int, int] = {}
    steps = steps_to_resume(found, in_step=in_step)
    for (row, member), step in zip(members.items(), steps, strict=True):
        if step is None:
            _begin(trainer, row, member)
        else:
            begun[member.assignment.trial] = step
            trainer.load(checkpoint.path_of(member.trial.checkpoints, step), row)
        _tidy(member)
        member.trial.forget_metrics_after(step or 0)
        print(f"{member.name} {_where(member, step)}", flush=True)
    return begun


def first_step(member: Member) -> int:
    """Return the step from which a member goes on by itself."""
    if member.config.checkpoint.resume == "never":
        return 0
    return next(checkpoint.valid_steps(member.trial.checkpoints), 0)


def _found_steps(member: Member) -> list[int]:
    """Return the steps of the checkpoints from which a member may go on, newest first."""
    folder = member.trial.checkpoints
    if member.config.checkpoint.resume == "never":
        forget_best(folder)
        checkpoint.remove_all(folder)
    return list(checkpoint.valid_steps(folder))


def _begin(trainer: AnyTrainer, row: int, member: Member) -> None:
    """Begin at step 0, with networks that were trained before where the member says so."""
    rules = member.config.checkpoint
    if rules.resume == "must":
        raise ConflictError(
            f"checkpoint.resume is must, but {member.trial.checkpoints} holds no whole "
            "checkpoint; write auto to begin at step 0"
        )
    if rules.warm_start is not None:
        trainer.warm_start(Path(rules.warm_start), row)


def _tidy(member: Member) -> None:
    """Remove what killed attempts left half-written, and tell of what is damaged."""
    folder = member.trial.checkpoints
    checkpoint.remove_leftovers(folder)
    for damaged in checkpoint.damaged_steps(folder):
        where = checkpoint.path_of(folder, damaged)
        print(f"the checkpoint {where} is damaged and left out", flush=True)


def _where(member: Member, step: int | None) -> str:
    if step is None:
        return "begins at step 0"
    unused = member.config.checkpoint.warm_start is not None
    return f"goes on from step {step}{'; warm_start is for a fresh one' if unused else ''}"
