"""The tables of hpsearch beside Optuna's, which migrations/ creates; transactions; studies."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.mysql import MEDIUMTEXT
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from hpsearch.errors import ConflictError, StorageError, StorageUnavailableError
from hpsearch.study.engine import (
    FIRST_PATIENCE,
    PATIENCE,
    create_directory,
    engine_options,
    is_away,
    persist,
)
from hpsearch.study.url import hide_password

if TYPE_CHECKING:
    from alembic.config import Config

# MySQL's TEXT ends at 64 kB, its FLOAT has four bytes; SQLite counts up INTEGER keys alone.
LongText = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


class Base(DeclarativeBase):
    metadata = sa.MetaData()


class StudyRow(Base):
    __tablename__ = "hpsearch_studies"

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(64), unique=True)
    spec: Mapped[str] = mapped_column(LongText)  # JSON text, see `stored_spec.spec_json`
    spec_hash: Mapped[str] = mapped_column(sa.String(64))
    state: Mapped[str] = mapped_column(sa.String(32))
    created_at: Mapped[float] = mapped_column(sa.Double)  # seconds since the epoch


class EventRow(Base):
    """One thing that happened; never changed, and read in the order of the ids."""

    __tablename__ = "hpsearch_events"
    __table_args__ = (
        sa.Index("hpsearch_events_of_study", "study_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    study_id: Mapped[int] = mapped_column(sa.ForeignKey("hpsearch_studies.id"))
    at: Mapped[float] = mapped_column(sa.Double)  # seconds since the epoch
    kind: Mapped[str] = mapped_column(sa.String(64))
    trial: Mapped[int | None] = mapped_column(sa.Integer)
    attempt: Mapped[int | None] = mapped_column(sa.Integer)
    job: Mapped[str | None] = mapped_column(sa.String(255))
    data: Mapped[str] = mapped_column(LongText)  # JSON text


class LeaseRow(Base):
    __tablename__ = "hpsearch_leases"

    study_id: Mapped[int] = mapped_column(
        sa.ForeignKey("hpsearch_studies.id"), primary_key=True, autoincrement=False
    )
    holder: Mapped[str] = mapped_column(sa.String(255))  # empty if none
    token: Mapped[int] = mapped_column(Id)  # counts the holders
    expires_at: Mapped[float] = mapped_column(sa.Double)  # seconds since the epoch


class SnapshotRow(Base):
    """A part of what the events up to one of them add up to; see `snapshots`."""

    __tablename__ = "hpsearch_snapshots"

    study_id: Mapped[int] = mapped_column(
        sa.ForeignKey("hpsearch_studies.id"), primary_key=True, autoincrement=False
    )
    kind: Mapped[str] = mapped_column(sa.String(16), primary_key=True)
    """trial, job or match of one that changes no more; lines of many such trials, as the list of
    all trials prints them; head, which is all the rest"""
    name: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    """of a job; the number of a trial or match; the place in the head, which is cut in pieces"""
    event: Mapped[int] = mapped_column(Id)  # the last that was known when the row was written
    data: Mapped[str] = mapped_column(LongText)  # JSON text, but for lines


class CheckpointRow(Base):
    """A node of the graph of descent: the last checkpoint of a trial, or one that was copied."""

    __tablename__ = "hpsearch_checkpoints"
    __table_args__ = (sa.UniqueConstraint("study_id", "trial", "step"),)

    id: Mapped[int] = mapped_column(Id, primary_key=True)
    study_id: Mapped[int] = mapped_column(sa.ForeignKey("hpsearch_studies.id"))
    trial: Mapped[int] = mapped_column(sa.Integer)
    step: Mapped[int] = mapped_column(sa.BigInteger)
    sha256: Mapped[str] = mapped_column(sa.String(64), index=True)  # of its content
    operator: Mapped[str] = mapped_column(sa.String(64))
    adopted: Mapped[bool | None] = mapped_column(sa.Boolean)  # NULL where no child was tried
    seed: Mapped[int] = mapped_column(sa.BigInteger)
    changes: Mapped[str] = mapped_column(LongText)  # JSON text, see `events.Node`


class ParentRow(Base):
    __tablename__ = "hpsearch_parents"

    checkpoint_id: Mapped[int] = mapped_column(
        sa.ForeignKey("hpsearch_checkpoints.id"), primary_key=True, autoincrement=False
    )
    position: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    """0 for the first parent"""
    sha256: Mapped[str] = mapped_column(sa.String(64), index=True)  # of the parent's content


T = TypeVar("T")

VERSION_TABLE = "hpsearch_version"
_SCHEMA_LOCK = 0x68707365  # any number that no other program locks in the same database


class Database:
    def __init__(self, url: str, engine: sa.Engine) -> None:
        self.url = url
        self.engine = engine

    @classmethod
    def open(cls, url: str) -> "Database":
        """Return the database at a URL; SQLite's directory is created. Raises as `transaction`."""
        create_directory(url)
        database = cls(url, persist(url, lambda: sa.create_engine(url, **engine_options(url))))

        def ask_for_tables(session: Session) -> None:  # at which SQLite looks at its file first
            sa.inspect(session.connection()).get_table_names()

        persist(url, lambda: database._attempt(ask_for_tables), patience=FIRST_PATIENCE)
        return database

    def close(self) -> None:
        self.engine.dispose()

    def transaction(self, work: Callable[[Session], T]) -> T:
        """Return what ``work`` returns, once everything it did is written; else nothing is.

        Raises StorageUnavailableError if the database stayed away, or was lost while a change was
        written, which may have arrived; StorageError if it cannot be used; DiskError if it cannot
        be written.
        """
        return persist(self.url, lambda: self._attempt(work))

    def find_or_insert(self, work: Callable[[Session], T]) -> T:
        """As `transaction`, again where another process has inserted the row since the question."""
        try:
            return self.transaction(work)
        except IntegrityError:
            return self.transaction(work)

    def migrate(self) -> None:
        """Bring the tables to the newest version; a StorageError if they are of a newer one."""
        persist(self.url, self._migrate, creates=True)

    def _attempt(self, work: Callable[[Session], T]) -> T:
        with Session(self.engine, expire_on_commit=False) as session:
            result = work(session)
            session.flush()
            try:
                session.commit()
            except DBAPIError as error:
                if is_away(error):
                    raise StorageUnavailableError(
                        f"the connection to {hide_password(self.url)} was lost while a change was "
                        f"written; run the command again, it finds out whether the change arrived"
                    ) from error
                raise
            return result

    def _migrate(self) -> None:
        # Imported here, because only commands that write need it.
        from alembic import command
        from alembic.util import CommandError

        config = migrations_config()
        with self.engine.begin() as connection, _schema_lock(connection):
            config.attributes |= {"connection": connection, "version_table": VERSION_TABLE}
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise StorageError(
                    f"the tables in {hide_password(self.url)} were made by a newer hpsearch; "
                    f"update hpsearch"
                ) from error


def migrations_config() -> "Config":
    from alembic.config import Config

    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


class StudyRecords:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create_or_get(
        self, *, name: str, spec: str, spec_hash: str, state: str, now: float
    ) -> StudyRow:
        """Return the study of this name, created if there is none.

        A spec of the same hash is not replaced, see `set_spec`; with another hash a ConflictError.
        """

        def work(session: Session) -> StudyRow:
            row = session.scalar(sa.select(StudyRow).where(StudyRow.name == name))
            if row is None:
                row = StudyRow(
                    name=name, spec=spec, spec_hash=spec_hash, state=state, created_at=now
                )
                session.add(row)
            elif row.spec_hash != spec_hash:
                before, after = json.loads(row.spec), json.loads(spec)
                keys = sorted(before.keys() | after.keys())
                changed = ", ".join(key for key in keys if before.get(key) != after.get(key))
                raise ConflictError(
                    f"the study {name} exists in this database and searches something else (what "
                    f"changed: {changed}); give the study another name, or restore what changed"
                )
            session.flush()
            return row

        return self._database.find_or_insert(work)

    def get(self, name: str) -> StudyRow | None:
        query = sa.select(StudyRow).where(StudyRow.name == name)
        return self._database.transaction(lambda session: session.scalar(query))

    def set_spec(self, study_id: int, spec: str) -> None:
        """Write what may change between runs; only for the process that holds the lease."""
        self._execute(sa.update(StudyRow).where(StudyRow.id == study_id).values(spec=spec))

    def set_state(self, study_id: int, state: str) -> None:
        self._execute(sa.update(StudyRow).where(StudyRow.id == study_id).values(state=state))

    def _execute(self, statement: sa.Update) -> None:
        self._database.transaction(lambda session: session.execute(statement))


@contextmanager
def _schema_lock(connection: sa.Connection) -> Iterator[None]:
    """Let one process at a time change the tables, on a connection that did nothing yet."""
    match connection.dialect.name:
        case "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield
        case "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")
            yield
        case _:  # MySQL ends a transaction at each change of a table, so the lock outlives it
            lock = connection.exec_driver_sql(f"SELECT GET_LOCK('{_SCHEMA_LOCK}', {PATIENCE:.0f})")
            if lock.scalar() != 1:
                raise StorageUnavailableError(
                    f"another process has changed the tables in {connection.engine.url!r} for "
                    f"{PATIENCE:.0f} seconds; run the same command again when it has ended"
                )
            try:
                yield
            finally:
                connection.exec_driver_sql(f"SELECT RELEASE_LOCK('{_SCHEMA_LOCK}')")
