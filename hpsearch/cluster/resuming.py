"""From which state the trials of a job begin or continue; how children are made of parents.

A child follows from its lineage, its configuration and its parents' checkpoints: an attempt that is
killed while it makes one is repeated by the next, with the same result.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hpsearch.cluster.failures import RankLostError
from hpsearch.cluster.member import Member, steps_to_resume
from hpsearch.cluster.records import Birth, Fresh, Start
from hpsearch.cluster.schedule import settle_best
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError, CorruptError, HpsearchError
from hpsearch.extensions import packages
from hpsearch.population.offspring import ByRole, chance_stronger, grown, offspring
from hpsearch.population.operators import options
from hpsearch.schema import apply, to_plain, value_at
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import forget_after, forget_best
from hpsearch.trainers.config import read_config
from hpsearch.trainers.inheriting import inherit, inherit_around, inherit_role
from hpsearch.trainers.networks import Network
from hpsearch.trainers.opponents import load_opponent
from hpsearch.trainers.trainer import AnyTrainer, Trainer


def start_step(member: Member) -> int:
    """Return the step of a member's first parent, 0 without one or where it cannot be read."""
    with suppress(CorruptError, OSError):
        return checkpoint.saved_step(member.parents[0]) if member.parents else 0
    return 0


def init_from_parents(team: Team, row: int, member: Member) -> int:
    """Make a member that has parents, and save it; return the step at which it begins.

    It is its first parent but for what the operator makes, with its own rates, seed and randomness.
    Raises ConflictError if the parents do not fit, CorruptError if a checkpoint is missing or
    damaged.
    """
    operator = member.lineage.operator
    assert not isinstance(operator, Fresh), "a fresh trial has no parents"
    _check_operator(operator, member)
    names = [checkpoint.identity(path) for path in member.parents]
    if isinstance(operator, options.Grow):
        birth = team.do(_grow, row, member, operator)
    else:
        birth = _breed(team, row, member, operator)
    # Before the checkpoint: an attempt that finds the checkpoint goes on from it and never writes
    # the birth again.
    member.trial.birth.write(birth)
    team.do_together(Trainer.save, member.trial.checkpoints, row, checkpoint.BORN, names)
    return int(team.trainer.step[row])


def _breed(team: Team, row: int, member: Member, operator: options.SameShape) -> Birth:
    """Make a child of its first parent's shape; a copy of it where that is the stronger one."""
    acceptance_test = member.lineage.trying
    team.do(inherit, member.parents[0], row)
    chance, adopted = None, True
    if acceptance_test is not None and not isinstance(operator, options.Clone):
        # By one rank for all, since results of different GPUs may differ by rounding.
        parent = _parents(team.trainer, member)[0]
        nets = _nets(team.trainer, member, operator)
        child = {role: replace(parent[role], net=net) for role, net in nets.items()}
        seed = member.lineage.seed
        chance = chance_stronger(parent, child, num_games=acceptance_test.num_games, seed=seed)
        adopted = chance <= acceptance_test.confidence  # else the copy of the first parent stays
    if adopted:
        team.do(_become, row, member, operator)
    return Birth(operator.name, adopted, chance)


def _parents(trainer: AnyTrainer, member: Member) -> list[ByRole]:
    return [
        {
            learner.name: load_opponent(path, learner.name, trainer.config, trainer.device)
            for learner in trainer.learners
        }
        for path in member.parents
    ]


def _nets(
    trainer: AnyTrainer, member: Member, operator: options.SameShape
) -> Mapping[str, Network]:
    """Return the child's networks by role."""
    parents = _parents(trainer, member)
    if isinstance(operator, options.MixingWeights):
        first, second = parents
        unlike = [role for role in first if first[role].net.structure != second[role].net.structure]
        if unlike:
            raise ConflictError(
                f"{operator.name} mixes networks of one structure, but those of the "
                f"{' and the '.join(unlike)} in {member.parents[0]} and {member.parents[1]} differ"
            )
    return offspring(operator, parents, member.lineage.seed)


def _grow(trainer: AnyTrainer, row: int, member: Member, operator: options.Grow) -> Birth:
    """Make a child of which one role is larger; it is not tried: it plays what its parent plays."""
    (path,) = member.parents
    role = inherit_around(trainer, path, row)
    (learner,) = (learner for learner in trainer.learners if learner.name == role)
    parent = load_opponent(path, role, trainer.config, trainer.device)
    try:
        net = grown(operator, role, parent, learner.net.like(1), member.lineage.seed)
    except ValueError as error:
        raise ConflictError(f"the {role} of {path} cannot become {member.name}: {error}") from error
    learner.begin_with(net, row)
    learner.forget_optimizer(row)
    trainer.begin_snapshots(role, row)  # older ones would not fit
    return Birth(operator.name, adopted=True, chance=None)


def _check_operator(operator: options.OperatorOptions, member: Member) -> None:
    needed, given = 2 if isinstance(operator, options.TwoParents) else 1, len(member.parents)
    if given != needed:
        raise ConflictError(
            f"{operator.name} makes a child of {needed} parents, but the lineage of {member.name} "
            f"names {given}"
        )
    if isinstance(operator, options.HostAndAgent) and len(member.config.learning()) < 2:
        raise ConflictError(
            f"{operator.name} takes the host of one parent and the agent of another, but of "
            f"{member.name} only the {', '.join(member.config.learning())} learns"
        )


def _become(trainer: AnyTrainer, row: int, member: Member, operator: options.SameShape) -> None:
    nets = _nets(trainer, member, operator)
    match operator:
        case options.Clone():
            return
        case options.HostAndAgent():
            inherit_role(trainer, member.parents[1], "agent", row)
        case _:
            is_mixed = isinstance(operator, options.TwoParents)
            for learner in trainer.learners:
                learner.begin_with(nets[learner.name], row)
                # The moments of gradients belong to the weights at which they were taken. Noise is
                # small, so that they still tell the scale of each weight's gradient; a mixture is
                # near neither parent.
                if is_mixed:
                    learner.forget_optimizer(row)


def go_on(
    team: Team, members: Mapping[int, Member], *, in_step: bool
) -> tuple[dict[int, int], dict[int, HpsearchError]]:
    """Let members, by row, begin or go on from their newest checkpoint.

    With ``in_step`` they always trained together, as `steps_to_resume` explains. Return the steps
    of their newest checkpoints by trial, and by row the errors of those that could not begin: a
    ConflictError where a checkpoint does not fit, or must be there and is not; a CorruptError where
    one is damaged or missing.
    """
    saved: dict[int, int] = {}
    errors: dict[int, HpsearchError] = {}
    for row, step in _chosen_steps(members, in_step=in_step).items():
        member = members[row]
        try:
            first = _begin_or_load(team, row, member, step)
        except RankLostError:  # not this member's fault
            raise
        except HpsearchError as error:
            errors[row] = error
        else:
            if first is not None:
                saved[member.number] = first
    return saved, errors


def _chosen_steps(members: Mapping[int, Member], *, in_step: bool) -> dict[int, int | None]:
    """Return the steps of the checkpoints from which they go on, by row; None for a beginning."""
    starts = {row: start_step(member) for row, member in members.items()}
    # Members that trained together have made equally many steps, but their counters differ if their
    # parents' did.
    steps_found = {row: _found_steps(member) for row, member in members.items()}
    ages = [[step - starts[row] for step in steps] for row, steps in steps_found.items()]
    if any(member.island is not None for member in members.values()):
        # They may have become copies of each other: all go on from a common step, or begin anew.
        ages = [sorted(set(ages[0]).intersection(*ages[1:]))] * len(ages)
    chosen = zip(members, steps_to_resume(ages, in_step=in_step), strict=True)
    return {row: None if age is None else starts[row] + age for row, age in chosen}


def _begin_or_load(team: Team, row: int, member: Member, step: int | None) -> int | None:
    """Let a member begin, or go on from ``step``; return its newest checkpoint's step, if any."""
    folder = member.trial.checkpoints
    first = _begin(team, row, member) if step is None else step
    if step is not None:
        path = checkpoint.path_of(folder, step)
        _learn_as_saved(team, row, member, path)
        team.do(Trainer.load, path, row)
    checkpoint.remove_leftovers(folder)  # what killed attempts left half-written
    for damaged in checkpoint.damaged_steps(folder):
        where = checkpoint.path_of(folder, damaged)
        print(f"the checkpoint {where} is damaged and left out", flush=True)
    member.trial.forget_metrics_after(first or 0)
    settle_best(folder)
    # Those that go on from a common step make later ones anew, and may measure other values there.
    if next(checkpoint.valid_steps(folder), 0) > (first or 0):
        forget_after(folder, first or 0)
    if member.island is not None:
        # At the very step of a checkpoint places change again, as they did before.
        member.trial.exchanges.write(member.trial.read_exchanges().before(first or 0))
    member.attempt.start.write(Start(first or 0, packages()))
    print(f"{member.name} {_how_it_began(member, step, first)}", flush=True)
    return first


def _learn_as_saved(team: Team, row: int, member: Member, path: Path) -> None:
    """Let a member of an island learn as at a checkpoint, if it had become another's copy."""
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
    config = read_config(apply(to_plain(member.config), values), source=str(path))
    team.do(Trainer.begin, row, config)


def resume_step(member: Member) -> int:
    """Return the step from which a member goes on by itself; without checkpoints, `start_step`."""
    is_anew = member.config.checkpoint.resume == "never"
    newest = None if is_anew else next(checkpoint.valid_steps(member.trial.checkpoints), None)
    return start_step(member) if newest is None else newest


def _found_steps(member: Member) -> list[int]:
    folder = member.trial.checkpoints
    if member.config.checkpoint.resume == "never":
        forget_best(folder)
        checkpoint.remove_after(folder, -1)
    return list(checkpoint.valid_steps(folder))


def _begin(team: Team, row: int, member: Member) -> int | None:
    """Begin fresh, warm-started or by an operator; return the first checkpoint's step, if any."""
    rules = member.config.checkpoint
    if rules.resume == "must":
        raise ConflictError(
            f"checkpoint.resume is must, but {member.trial.checkpoints} holds no whole "
            "checkpoint; write auto to begin at step 0"
        )
    if not isinstance(member.lineage.operator, Fresh):
        return init_from_parents(team, row, member)
    if rules.warm_start is not None:
        team.do(Trainer.warm_start, Path(rules.warm_start), row)
    return None


def _how_it_began(member: Member, step: int | None, first: int | None) -> str:
    if first is None:
        return "begins at step 0"
    unused = member.config.checkpoint.warm_start is not None
    how = "goes on from" if step is not None else f"is created by {member.lineage.operator.name} at"
    return f"{how} step {first}{'; warm_start is for a fresh one' if unused else ''}"
