"""How far a copy is: two tables beside Optuna's in its file."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, MetaData, Table

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
