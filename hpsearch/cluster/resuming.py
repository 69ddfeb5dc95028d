"""Where the trials of a job begin, or go on from."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpsearch.cluster.births import give_birth, step_of_birth
from hpsearch.cluster.lineage import Fresh
from hpsearch.cluster.member import Member
from hpsearch.cluster.supply import steps_to_resume
from hpsearch.config_paths import apply, value_at
from hpsearch.errors import ConflictError, HpsearchError
from hpsearch.plain import to_plain
from hpsearch.trainers import checkpoint
from hpsearch.trainers.best_checkpoint import forget_after, forget_best
from hpsearch.trainers.config import read_config
from hpsearch.trainers.trainer import AnyTrainer


@dataclass(frozen=True)
class Begun:
    """How members began."""

    saved: Mapping[int, int]
    """steps of their newest checkpoints, by trial; a child has one when it is born"""
    errors: Mapping[int, HpsearchError]
    """by row: of those that could not begin; what is wrong with one is no matter of the others'"""


def go_on(trainer: AnyTrainer, members: Mapping[int, Member], *, in_step: bool) -> Begun:
    """Let members, by row, begin or go on from their newest checkpoint.

    With ``in_step`` they always trained together, as `steps_to_resume` explains. Errors are a
    ConflictError where a checkpoint is of another configuration, a parent's of another shape, or
    one must be there and is not; a CorruptError where one was damaged after it had been found
    whole, or a parent's is damaged or missing.
    """
    saved: dict[int, int] = {}
    errors: dict[int, HpsearchError] = {}
    for row, step in _chosen_steps(members, in_step=in_step).items():
        member = members[row]
        try:
            first = _begin_or_load(trainer, row, member, step)
        except HpsearchError as error:
            errors[row] = error
        else:
            if first is not None:
                saved[member.assignment.trial] = first
    return Begun(saved, errors)


def _chosen_steps(members: Mapping[int, Member], *, in_step: bool) -> dict[int, int | None]:
    """Return the step of the checkpoint from which each goes on, by row; None where it begins."""
    births = {row: step_of_birth(member) for row, member in members.items()}
    found = {row: _found_steps(member) for row, member in members.items()}
    # Those who trained together are as old, but at other steps where their parents were.
    ages = [[step - births[row] for step in own] for row, own in found.items()]
    if any(member.island is not None for member in members.values()):
        ages = shared_ages(ages)
    chosen = zip(members, steps_to_resume(ages, in_step=in_step), strict=True)
    return {row: None if age is None else births[row] + age for row, age in chosen}


def _begin_or_load(trainer: AnyTrainer, row: int, member: Member, step: int | None) -> int | None:
    """Let one begin, or go on from ``step``; return the step of its newest checkpoint, if any."""
    first = _begin(trainer, row, member) if step is None else step
    if step is not None:
        path = checkpoint.path_of(member.trial.checkpoints, step)
        _learn_as_saved(trainer, row, member, path)
        trainer.load(path, row)
    _tidy(member)
    member.trial.forget_metrics_after(first or 0)
    if member.island is not None:
        _forget_island_after(member, first or 0)
    member.attempt.write_start(first or 0)
    print(f"{member.name} {_where(member, step, first)}", flush=True)
    return first


def _forget_island_after(member: Member, step: int) -> None:
    """Forget what a member of an island became after the step from which all go on.

    Beside others than before, it may become another.
    """
    forget_after(member.trial.checkpoints, step)
    # At the very step of a checkpoint places change again, as they did before.
    member.trial.write_exchanges(member.trial.read_exchanges().before(step))


def _learn_as_saved(trainer: AnyTrainer, row: int, member: Member, path: Path) -> None:
    """Let a member of an island learn as it did at a checkpoint, if it had become another's copy.

    What else differs from its configuration, loading the checkpoint will tell.
    """
    if member.island is None:
        return
    saved = checkpoint.saved_config(path)
    try:
        values = {name: value_at(saved, name) for name in member.island.parameters}
    except KeyError as error:
        raise ConflictError(
            f"the checkpoint {path} was written with another configuration, which does not say "
            f"all of {', '.join(member.island.parameters)}; remove it, or give the study another "
            "name"
        ) from error
    plain = apply(to_plain(member.config), values)
    trainer.begin(row, read_config(plain, source=str(path)))


def age_of(member: Member, step: int) -> int:
    """Return how many steps a member has made by itself when it is at ``step``."""
    return step - step_of_birth(member)


def shared_ages(saved: Sequence[Collection[int]]) -> list[list[int]]:
    """Return for each member the ages at which all were saved.

    Members of an island have become what they are by each other: they go on together or begin anew.
    """
    common = set(saved[0]).intersection(*saved[1:])
    return [sorted(common) for _ in saved]


def first_step(member: Member) -> int:
    """Return the step from which a member goes on by itself: at first, that of its birth."""
    if member.config.checkpoint.resume != "never":
        for step in checkpoint.valid_steps(member.trial.checkpoints):
            return step
    return step_of_birth(member)


def _found_steps(member: Member) -> list[int]:
    """Return the steps of the checkpoints from which a member may go on, newest first."""
    folder = member.trial.checkpoints
    if member.config.checkpoint.resume == "never":
        forget_best(folder)
        checkpoint.remove_all(folder)
    return list(checkpoint.valid_steps(folder))


def _begin(trainer: AnyTrainer, row: int, member: Member) -> int | None:
    """Begin at step 0, with networks that were trained before where the member says so.

    A child is born instead; return the step of its first checkpoint.
    """
    rules = member.config.checkpoint
    if rules.resume == "must":
        raise ConflictError(
            f"checkpoint.resume is must, but {member.trial.checkpoints} holds no whole "
            "checkpoint; write auto to begin at step 0"
        )
    if not isinstance(member.lineage.operator, Fresh):
        return give_birth(trainer, row, member)
    if rules.warm_start is not None:
        trainer.warm_start(Path(rules.warm_start), row)
    return None


def _tidy(member: Member) -> None:
    """Remove what killed attempts left half-written, and tell of what is damaged."""
    folder = member.trial.checkpoints
    checkpoint.remove_leftovers(folder)
    for damaged in checkpoint.damaged_steps(folder):
        where = checkpoint.path_of(folder, damaged)
        print(f"the checkpoint {where} is damaged and left out", flush=True)


def _where(member: Member, step: int | None, first: int | None) -> str:
    if first is None:
        return "begins at step 0"
    unused = member.config.checkpoint.warm_start is not None
    how = "goes on from" if step is not None else f"is born by {member.lineage.operator.name} at"
    return f"{how} step {first}{'; warm_start is for a fresh one' if unused else ''}"
