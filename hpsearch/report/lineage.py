"""Who descends from whom in a population, and which line led to its champion."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from hpsearch.cluster.study_dir import owner_of
from hpsearch.errors import UsageError
from hpsearch.report.view import StudyView
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.descent import Node, read_nodes
from hpsearch.study.records import Trial
from hpsearch.study.spec import storage_url


@dataclass(frozen=True)
class Founder:
    """The checkpoint of another study with which a line began."""

    study: str | None
    """None where the checkpoint is of no trial"""
    trial: int | None
    checkpoint: str


@dataclass(frozen=True)
class Relative:
    """A trial of a population that has finished."""

    trial: int
    generation: int
    """matches that decided over its ancestors"""
    member: int
    """place in the population"""
    parents: tuple[int, ...]
    """trials; the first gives all that the operator does not make"""
    operator: str
    adopted: bool | None
    """whether the operator's child was; else it is a copy of the first parent"""
    is_child: bool
    """whether selection put it in its place; else it goes on there"""
    strength: float | None
    """in the first match that it played, in logarithms of rho"""
    changes: dict[str, Any]
    """hyperparameters that differ from the first parent's: before and after"""
    step: int
    sha256: str
    """of its last checkpoint"""
    seed: int
    founder: Founder | None = None
    """whom it goes on from, where it has no parents here"""


@dataclass(frozen=True)
class Descent:
    """Who descends from whom: everybody who has finished, and the champion."""

    relatives: Mapping[int, Relative]
    """by trial"""
    champion: int | None
    """of the last match, None before the first"""

    def line(self, trial: int) -> list[Relative]:
        """Return the line of first parents that leads to a trial, the oldest first.

        Raises:
            UsageError: if it has not finished, or is no trial of the population.
        """
        if trial not in self.relatives:
            known = ", ".join(map(str, self.relatives)) or "none"
            raise UsageError(
                f"trial {trial} has no descent, for it has not finished; those that have: {known}"
            )
        line = [self.relatives[trial]]
        while line[-1].parents and line[-1].parents[0] in self.relatives:
            line.append(self.relatives[line[-1].parents[0]])
        return line[::-1]


def read_lineage(view: StudyView) -> Descent:
    """Return the descent in a population.

    Raises:
        UsageError: if the study is no population.
    """
    spec = view.study.spec
    if spec.population is None:
        raise UsageError(
            f"{spec.name} is no population, so nobody descends from anybody; "
            f"a study file becomes one by its key population"
        )
    nodes = _nodes(view)
    strengths = _strengths(view)
    founders = [_founder(view, place) for place in spec.population.founders]
    relatives = {
        node.trial: _relative(view.state.trials[node.trial], node, strengths, founders)
        for node in nodes
    }
    champions = view.state.population.archive
    return Descent(relatives, champions[-1] if champions else None)


def _nodes(view: StudyView) -> Sequence[Node]:
    spec = view.study.spec
    with closing(Database.open(storage_url(spec.name, spec.storage))) as database:
        record = StudyRecords(database).get(spec.name)
        return [] if record is None else read_nodes(database, record.id)


def _strengths(view: StudyView) -> dict[int, float]:
    found: dict[int, float] = {}
    for match in view.state.population.matches.values():
        for trial, strength in match.strengths.items():
            found.setdefault(trial, strength)
    return found


def _founder(view: StudyView, place: str) -> Founder:
    path = (view.study.path.parent / place).absolute()
    study, trial = owner_of(path) or (None, None)
    return Founder(study, trial, str(path))


def _relative(
    trial: Trial, node: Node, strengths: Mapping[int, float], founders: Sequence[Founder]
) -> Relative:
    assert trial.origin is not None, "nodes are trials of a population"
    begun_by = None if trial.origin.parents else trial.origin.founder
    return Relative(
        trial=trial.number,
        generation=trial.origin.generation,
        member=trial.origin.member,
        parents=trial.origin.parents,
        operator=node.operator,
        adopted=node.adopted,
        is_child=trial.origin.is_child,
        strength=strengths.get(trial.number),
        changes=node.changes,
        step=node.step,
        sha256=node.sha256,
        seed=node.seed,
        founder=None if begun_by is None else founders[begun_by],
    )
