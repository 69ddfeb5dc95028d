"""What the checkpoints of a trial of a population descend from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hpsearch.cluster.island import Exchanges
from hpsearch.cluster.lineage import Birth
from hpsearch.population.operators.options import Clone
from hpsearch.study.descent import Node
from hpsearch.study.records import Trial


@dataclass(frozen=True)
class Descent:
    """A trial, and what is known of its parents."""

    trial: Trial
    known: Mapping[int, Trial]
    """all trials by number"""
    seed: int
    birth: Birth | None
    exchanges: Exchanges

    def node(self, step: int, sha256: str) -> Node:
        """Return the node of the checkpoint of a step: a copy's, once one took the place."""
        takeovers = self.exchanges.before(step).takeovers
        if not takeovers:
            return self._born(step, sha256)
        return Node(
            trial=self.trial.number,
            step=step,
            sha256=sha256,
            parents=(takeovers[-1].sha256,),
            operator=Clone().name,
            adopted=None,
            seed=self.seed,
            changes={path: list(pair) for path, pair in takeovers[-1].changes.items()},
        )

    def _born(self, step: int, sha256: str) -> Node:
        """Return the node of a checkpoint that descends from the trial's own parents."""
        origin = self.trial.origin
        assert origin is not None, "it is a trial of a population"
        parents = [self.known[number] for number in origin.parents]
        before = parents[0].last_params if parents else self.trial.params
        return Node(
            trial=self.trial.number,
            step=step,
            sha256=sha256,
            parents=tuple(parent.sha256 or "" for parent in parents),
            operator=origin.operator["name"],
            adopted=None if self.birth is None else self.birth.adopted,
            seed=self.seed,
            changes=_changes(before, self.trial.params),
        )


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ, by path, before and after; None where there was none."""
    names = [*before, *(name for name in after if name not in before)]
    return {
        name: [before.get(name), after.get(name)]
        for name in names
        if before.get(name) != after.get(name)
    }
