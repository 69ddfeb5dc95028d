"""The tables beside Optuna's in the same database; migrations/ creates them."""

from sqlalchemy import BigInteger, Double, ForeignKey, Index, Integer, MetaData, String, Text
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
