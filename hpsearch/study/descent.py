"""The graph of descent in SQL: checkpoints that others may descend from, and their parents.

It is written together with the event that tells how a trial of a population ended, so that graph
and events never disagree.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hpsearch.study.database import Database
from hpsearch.study.tables import CheckpointRow, ParentRow


@dataclass(frozen=True)
class Node:
    """A checkpoint and where it comes from."""

    trial: int
    step: int
    sha256: str
    """of its content"""
    parents: tuple[str, ...]
    """their sha256; the first gives all that the operator does not make"""
    operator: str
    adopted: bool | None
    """whether the operator's child was; None where there was none to try"""
    seed: int
    changes: dict[str, Any]
    """what differs from the first parent's configuration, by path: before and after"""

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Node":
        """Return what an event holds."""
        return cls(**{**data, "parents": tuple(data["parents"])})


def add_node(session: Session, study_id: int, node: Node) -> None:
    """Write a checkpoint and its parents."""
    row = CheckpointRow(
        study_id=study_id,
        trial=node.trial,
        step=node.step,
        sha256=node.sha256,
        operator=node.operator,
        adopted=node.adopted,
        seed=node.seed,
        changes=json.dumps(node.changes),
    )
    session.add(row)
    session.flush()
    for position, parent in enumerate(node.parents):
        session.add(ParentRow(checkpoint_id=row.id, position=position, sha256=parent))


def read_nodes(database: Database, study_id: int) -> list[Node]:
    """Return the checkpoints of a study, by trial and step."""
    checkpoints = (
        select(CheckpointRow)
        .where(CheckpointRow.study_id == study_id)
        .order_by(CheckpointRow.trial, CheckpointRow.step)
    )
    edges = (
        select(ParentRow)
        .join(CheckpointRow, ParentRow.checkpoint_id == CheckpointRow.id)
        .where(CheckpointRow.study_id == study_id)
        .order_by(ParentRow.checkpoint_id, ParentRow.position)
    )

    def work(session: Session) -> list[Node]:
        parents: dict[int, list[str]] = {}
        for edge in session.scalars(edges):
            parents.setdefault(edge.checkpoint_id, []).append(edge.sha256)
        return [_node(row, parents.get(row.id, [])) for row in session.scalars(checkpoints)]

    return database.transaction(work)


def _node(row: CheckpointRow, parents: list[str]) -> Node:
    return Node(
        trial=row.trial,
        step=row.step,
        sha256=row.sha256,
        parents=tuple(parents),
        operator=row.operator,
        adopted=row.adopted,
        seed=row.seed,
        changes=json.loads(row.changes),
    )
