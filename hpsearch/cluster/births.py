"""How a trial that has parents begins: its job makes the child, tries it, and saves it.

A child is a function of its lineage, its configuration and its parents' checkpoints: an attempt
that is killed while it makes one is repeated by the next, with the same result.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hpsearch.cluster.lineage import Birth, Fresh
from hpsearch.cluster.member import Member
from hpsearch.errors import ConflictError, CorruptError
from hpsearch.population.offspring import ByRole, grown, offspring
from hpsearch.population.operators.options import (
    Clone,
    Grow,
    HostAndAgent,
    OperatorOptions,
    SameShape,
)
from hpsearch.population.operators.table import OPERATORS
from hpsearch.population.options import Adoption, needs_pairs
from hpsearch.population.trying import chance_stronger
from hpsearch.trainers import checkpoint
from hpsearch.trainers.inheriting import inherit, inherit_around, inherit_role
from hpsearch.trainers.networks import Network
from hpsearch.trainers.saved_player import load_opponent, with_net
from hpsearch.trainers.trainer import AnyTrainer


def step_of_birth(member: Member) -> int:
    """Return the step at which a member begins: its first parent's, 0 for one without parents.

    Also 0 where the parent cannot be read, of which `give_birth` will tell.
    """
    with suppress(CorruptError, OSError):
        return checkpoint.saved_step(member.parents[0]) if member.parents else 0
    return 0


def give_birth(trainer: AnyTrainer, row: int, member: Member) -> int:
    """Make a member that has parents, and save it; return the step at which it begins.

    It is its first parent but for what the operator makes, with rates, seed and randomness of its
    own.

    Raises:
        ConflictError: if the parents do not fit the operator, the member's shape, or each other.
        CorruptError: if a parent's checkpoint is missing or damaged.
    """
    operator = member.lineage.operator
    assert not isinstance(operator, Fresh), "a fresh trial is not born"
    _check_operator(operator, member)
    names = [checkpoint.identity(path) for path in member.parents]
    if isinstance(operator, Grow):
        birth = _grow(trainer, row, member, operator)
    else:
        birth = _breed(trainer, row, member, operator)
    # First: whoever finds the checkpoint goes on from it and asks no more.
    member.trial.write_birth(birth)
    trainer.save(member.trial.checkpoints, row, checkpoint.BORN, names)
    return int(trainer.step[row])


def _breed(trainer: AnyTrainer, row: int, member: Member, operator: SameShape) -> Birth:
    """Make a child of its first parent's shape; a copy of it where that is the stronger one."""
    trying = member.lineage.trying
    inherit(trainer, member.parents[0], row)
    parents = [_players(trainer, path) for path in member.parents]
    _check_alike(operator, parents, member)
    nets = offspring(operator, parents, member.lineage.seed)
    chance = None if trying is None else _chance_of_copy(member, trying, parents[0], nets)
    adopted = trying is None or chance is None or chance <= trying.confidence
    if adopted:
        _become(trainer, row, member, nets)
    return Birth(operator.name, adopted, chance)


def _grow(trainer: AnyTrainer, row: int, member: Member, operator: Grow) -> Birth:
    """Make a child of which one role is larger; it is not tried, as it plays what its parent plays.

    What the other role trains against are snapshots of the larger networks from now on: those that
    were taken before would not fit beside them.
    """
    (path,) = member.parents
    role = inherit_around(trainer, path, row)
    (learner,) = (one for one in trainer.learners if one.name == role)
    parent = load_opponent(path, role, trainer.config, trainer.device)
    try:
        net = grown(operator, role, parent, learner.net.like(1), member.lineage.seed)
    except ValueError as error:
        raise ConflictError(f"the {role} of {path} cannot become {member.name}: {error}") from error
    learner.begin_with(net, row)
    learner.forget_optimizer(row)
    trainer.begin_snapshots(role, row)
    return Birth(operator.name, adopted=True, chance=None)


def _check_operator(operator: OperatorOptions, member: Member) -> None:
    needed, given = OPERATORS[operator.name].num_parents, len(member.parents)
    if given != needed:
        raise ConflictError(
            f"{operator.name} makes a child of {needed} parents, but the lineage of {member.name} "
            f"names {given}"
        )
    if needs_pairs(operator) and len(member.config.learning()) < 2:
        raise ConflictError(
            f"{operator.name} takes the host of one parent and the agent of another, but of "
            f"{member.name} only the {', '.join(member.config.learning())} learns"
        )


def _players(trainer: AnyTrainer, path: Path) -> ByRole:
    """Return what a checkpoint plays by in every role that learns here."""
    return {
        one.name: load_opponent(path, one.name, trainer.config, trainer.device)
        for one in trainer.learners
    }


def _check_alike(operator: OperatorOptions, parents: Sequence[ByRole], member: Member) -> None:
    if not OPERATORS[operator.name].parents_alike:
        return
    first, second = parents
    differing = [role for role in first if first[role].net.structure != second[role].net.structure]
    if differing:
        raise ConflictError(
            f"{operator.name} mixes networks of one structure, but those of the "
            f"{' and the '.join(differing)} in {member.parents[0]} and {member.parents[1]} differ"
        )


def _chance_of_copy(
    member: Member, trying: Adoption, parent: ByRole, nets: Mapping[str, Network]
) -> float | None:
    """Return the chance that a copy of the first parent is stronger than the child.

    Of a child that is that copy nobody asks.
    """
    if isinstance(member.lineage.operator, Clone):
        return None
    child = {role: with_net(parent[role], role, net) for role, net in nets.items()}
    seed = member.lineage.seed
    return chance_stronger(parent, child, num_games=trying.num_games, seed=seed)


def _become(trainer: AnyTrainer, row: int, member: Member, nets: Mapping[str, Network]) -> None:
    """Let a copy of the first parent become the child."""
    operator = member.lineage.operator
    match operator:
        case Clone():
            return
        case HostAndAgent():
            inherit_role(trainer, member.parents[1], "agent", row)
        case _:
            is_mixed = OPERATORS[operator.name].num_parents == 2
            for learner in trainer.learners:
                learner.begin_with(nets[learner.name], row)
                # The moments of gradients belong to the weights at which they were taken. Noise is
                # small, so that they still tell the scale of each weight's gradient; a mixture is
                # near neither parent.
                if is_mixed:
                    learner.forget_optimizer(row)
