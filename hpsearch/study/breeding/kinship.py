"""Kinship: whose networks began as the same ones."""

from collections.abc import Mapping

from hpsearch.population.operators.options import HostAndAgent
from hpsearch.study.records import Trial


def families(trial: Trial, roles: tuple[str, ...], known: Mapping[int, Trial]) -> tuple[str, ...]:
    """Return what a trial's networks began as, of each role a name that all share who did too.

    Along first parents, which give all that an operator does not make, and along the copies that
    took a trial's place on its island. A mixture of two families counts to its first parent's.

    Args:
        trial: of a population.
        roles: that learn.
        known: the study's trials, by number.
    """
    return tuple(_family(trial, role, known) for role in roles)


def _family(trial: Trial, role: str, known: Mapping[int, Trial]) -> str:
    before = None  # copies that came earlier than this step count; None: all
    while True:
        copies = [one for one in trial.takeovers if before is None or one.step < before]
        origin = trial.origin
        if copies:
            # What a source gives at a step, it had before it took anything at that step.
            trial, before = known[copies[-1].source], copies[-1].source_step
        elif origin is not None and origin.parents:
            trial, before = known[_parent(trial, role)], None
        elif origin is not None and origin.founder is not None:
            return f"founder {origin.founder}"
        else:
            return f"trial {trial.number}"


def _parent(trial: Trial, role: str) -> int:
    """Return the parent from which a role's networks come."""
    assert trial.origin is not None, "who has parents was planned"
    is_joined = trial.origin.operator["name"] == HostAndAgent.name and trial.is_adopted
    return trial.origin.parents[1 if is_joined and role == "agent" else 0]
