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
    begin: int
    """step at which it began to go on from its parents: where a copy took its place, that one"""
    operator: str
    adopted: bool | None
    """whether the operator's child was; else it is a copy of the first parent"""
    is_child: bool
    """whether selection put it in its place; else it goes on there"""
    strength: float | None
    """in the first match that it played, in logarithms of rho"""
    changes: dict[str, Any]
    """hyperparameters that differ from the first parent's: before and after"""
    params: Mapping[str, Any]
    """all hyperparameters since then, as Optuna stores them"""
    step: int
    """of the checkpoint that it left: at its end, or where a copy of it took another's place"""
    sha256: str
    """of that checkpoint"""
    seed: int
    founder: Founder | None = None
    """whom it goes on from, where it has no parents here"""

    @property
    def has_trained(self) -> bool:
        """Whether it made a step of its own; children of a closing did not."""
        return self.step > self.begin


@dataclass(frozen=True)
class Descent:
    """Who descends from whom: everybody who has finished, and the champion."""

    relatives: Mapping[int, Relative]
    """by trial: as they ended"""
    by_content: Mapping[str, Relative]
    """by the sha256 of what they left, also where copies of them took places on islands"""
    first_parents: Mapping[str, str]
    """content of the first parent's checkpoint, by content"""
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
                f"no trial {trial} of the population has finished; those that have: {known}"
            )
        line = [self.relatives[trial]]
        while (parent := self._first_parent(line[-1])) is not None:
            line.append(parent)
        return line[::-1]

    def _first_parent(self, child: Relative) -> Relative | None:
        content = self.first_parents.get(child.sha256)
        return None if content is None else self.by_content.get(content)


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
    # The graph is read after the state: what a running study has added since is of no known trial.
    nodes = [node for node in _nodes(view) if node.trial in view.state.trials]
    strengths = _strengths(view)
    founders = [_founder(view, place) for place in spec.population.founders]
    by_content = {
        node.sha256: _relative(view.state.trials[node.trial], node, strengths, founders)
        for node in nodes
    }
    ended = [node for node in nodes if node.sha256 == view.state.trials[node.trial].sha256]
    champions = view.state.population.archive
    return Descent(
        relatives={node.trial: by_content[node.sha256] for node in ended},
        by_content=by_content,
        first_parents={node.sha256: node.parents[0] for node in nodes if node.parents},
        champion=champions[-1] if champions else None,
    )


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
    origin = trial.origin
    assert origin is not None, "nodes are trials of a population"
    takeovers = [one for one in trial.takeovers if one.step < node.step]
    last = takeovers[-1] if takeovers else None
    begun_by = None if origin.parents or last else origin.founder
    return Relative(
        trial=trial.number,
        generation=origin.generation,
        member=origin.member,
        parents=origin.parents if last is None else (last.source,),
        begin=origin.first_step if last is None else last.step,
        operator=node.operator,
        adopted=node.adopted,
        is_child=origin.is_child or last is not None,
        strength=strengths.get(trial.number),
        changes=node.changes,
        params=trial.params if last is None else last.params,
        step=node.step,
        sha256=node.sha256,
        seed=node.seed,
        founder=None if begun_by is None else founders[begun_by],
    )
