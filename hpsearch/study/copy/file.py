"""Connections to the file of a copy.

What Optuna knows of a study beside its trials.

How far a copy is: two tables beside Optuna's in its file.

What a copy holds of a trial: all that a dashboard draws, little of what it does not.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial
from sqlalchemy import BigInteger, Boolean, Column, Connection, Integer, MetaData, Table
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

_COMPILED: Final[dict[Any, Any]] = {}
"""statements as SQL, which a connection need not make anew"""


@contextmanager
def connected(file: Path, patience: float) -> Iterator[Connection]:
    """Give a connection to a SQLite file; what the block does is one transaction.

    It begins with the first statement that writes. What is lost with the power is not waited for.

    Args:
        file: which must be there.
        patience: seconds to wait for others.

    Raises:
        OperationalError: if there is no file, or others hold it for too long.
        DatabaseError: if it is damaged.
    """

    def connect() -> sqlite3.Connection:
        # As a URI, since a plain name would make a file where there is none.
        where = f"{file.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(where, uri=True, timeout=patience)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    engine = sqlalchemy.create_engine("sqlite://", creator=connect, poolclass=NullPool)
    with engine.execution_options(compiled_cache=_COMPILED).begin() as connection:
        yield connection


def is_locked(error: OperationalError) -> bool:
    """Return whether others held the file."""
    return "locked" in str(error.orig)


@dataclass(frozen=True)
class Head:
    """A study in Optuna."""

    study_id: int
    name: str
    directions: tuple[StudyDirection, ...]
    metrics: tuple[str, ...]
    """names of the objectives"""


FORMAT = 1
"""of a copy; one of another format is made anew"""

_TABLES = MetaData()

COPY = Table(
    "hpsearch_copy",
    _TABLES,
    Column("format", Integer, nullable=False),
    Column("made", BigInteger, nullable=False),  # when the file was begun, which no other was
    Column("study_id", Integer, nullable=False),
    Column("serial", Integer, nullable=False),  # counts the changes of this file
    Column("event", Integer, nullable=False),  # the study's last one that is told here
    Column("is_whole", Boolean, nullable=False),  # whether all trials are as of that event
)
"""one row"""

COPIED = Table(
    "hpsearch_copied",
    _TABLES,
    Column("trial_id", Integer, primary_key=True),
    Column("serial", Integer, nullable=False, index=True),  # of the trial's last change
)


def own_tables() -> MetaData:
    """Return both."""
    return _TABLES


MAX_VALUES: Final = 8
"""of a learning curve; the dashboard draws all curves at once, and the whole one is in a file"""
MAX_TEXT: Final = 256
"""characters of an attribute"""
CONSTRAINTS: Final = "constraints"
"""as the dashboard asks for them"""


def abridged(trial: FrozenTrial) -> FrozenTrial:
    """Return what the copy holds of a trial."""
    return FrozenTrial(
        number=trial.number,
        state=trial.state,
        value=None,
        values=trial.values,
        datetime_start=trial.datetime_start,
        datetime_complete=trial.datetime_complete,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs={key: attr for key, attr in trial.user_attrs.items() if _is_short(attr)},
        system_attrs=_constraints(trial),
        intermediate_values=thinned(trial.intermediate_values),
        trial_id=trial._trial_id,
    )


def thinned(curve: Mapping[int, float]) -> dict[int, float]:
    """Return at most MAX_VALUES of a curve, evenly, with the first and the last."""
    steps = sorted(curve)
    if len(steps) > MAX_VALUES:
        last = len(steps) - 1
        steps = [steps[round(at * last / (MAX_VALUES - 1))] for at in range(MAX_VALUES)]
    return {step: curve[step] for step in steps}


def _is_short(value: Any) -> bool:
    return len(value if isinstance(value, str) else json.dumps(value)) <= MAX_TEXT


def _constraints(trial: FrozenTrial) -> dict[str, Any]:
    violated = list(trial.constraints.values())
    return {CONSTRAINTS: violated} if violated else {}
