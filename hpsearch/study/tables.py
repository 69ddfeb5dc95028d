"""The tables beside Optuna's in the same database; migrations/ creates them."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# MySQL's TEXT ends at 64 kB, its FLOAT has four bytes; SQLite counts up INTEGER keys alone.
LongText = Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
Id = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """The tables of hpsearch."""

    metadata = MetaData()


class StudyRow(Base):
    """One study: what defines it and whether it runs."""

    __tablename__ = "hpsearch_studies"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    spec: Mapped[str] = mapped_column(LongText)
    """JSON text"""
    spec_hash: Mapped[str] = mapped_column(String(64))
    state: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[float] = mapped_column(Double)
    """seconds since the epoch"""


class EventRow(Base):
    """One thing that happened; never changed, and read in the order of the ids."""

    __tablename__ = "hpsearch_events"
    __table_args__ = (
        Index("hpsearch_events_of_study", "study_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("hpsearch_studies.id"))
    at: Mapped[float] = mapped_column(Double)
    """seconds since the epoch"""
    kind: Mapped[str] = mapped_column(String(64))
    trial: Mapped[int | None] = mapped_column(Integer)
    attempt: Mapped[int | None] = mapped_column(Integer)
    job: Mapped[str | None] = mapped_column(String(255))
    data: Mapped[str] = mapped_column(LongText)
    """JSON text"""


class LeaseRow(Base):
    """Who may write a study now."""

    __tablename__ = "hpsearch_leases"

    study_id: Mapped[int] = mapped_column(
        ForeignKey("hpsearch_studies.id"), primary_key=True, autoincrement=False
    )
    holder: Mapped[str] = mapped_column(String(255))
    """empty if nobody"""
    token: Mapped[int] = mapped_column(Id)
    """counts the holders"""
    expires_at: Mapped[float] = mapped_column(Double)
    """seconds since the epoch"""


class SnapshotRow(Base):
    """A part of what the events up to one of them add up to; see `snapshots`."""

    __tablename__ = "hpsearch_snapshots"

    study_id: Mapped[int] = mapped_column(
        ForeignKey("hpsearch_studies.id"), primary_key=True, autoincrement=False
    )
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    """trial, job or match of one that changes no more; lines of many such trials, as the list of
    all trials prints them; head, which is all the rest"""
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    """of a job; the number of a trial or match; the place in the head, which is cut in pieces"""
    event: Mapped[int] = mapped_column(Id)
    """the last that was known when the row was written"""
    data: Mapped[str] = mapped_column(LongText)
    """JSON text, but for lines"""


class CheckpointRow(Base):
    """A checkpoint that others may descend from: a node of the graph of descent.

    Of each trial of a population the last one, and on islands those whose copies took places.
    """

    __tablename__ = "hpsearch_checkpoints"
    __table_args__ = (UniqueConstraint("study_id", "trial", "step"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey("hpsearch_studies.id"))
    trial: Mapped[int] = mapped_column(Integer)
    step: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    """of its content"""
    operator: Mapped[str] = mapped_column(String(64))
    adopted: Mapped[bool | None] = mapped_column(Boolean)
    """whether the operator's child was; NULL where there was none to try"""
    seed: Mapped[int] = mapped_column(BigInteger)
    changes: Mapped[str] = mapped_column(LongText)
    """JSON text: what differs from the first parent's configuration, by path: before and after"""


class ParentRow(Base):
    """An edge of the graph of descent."""

    __tablename__ = "hpsearch_parents"

    checkpoint_id: Mapped[int] = mapped_column(
        ForeignKey("hpsearch_checkpoints.id"), primary_key=True, autoincrement=False
    )
    position: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    """0 for the first parent"""
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    """of the parent's content"""
