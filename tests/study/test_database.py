"""Our tables: transactions, migrations, faults, and the rows of studies."""

import json
import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateTable

from hpsearch.errors import (
    ConflictError,
    DiskError,
    HpsearchError,
    StorageError,
    StorageUnavailableError,
)
from hpsearch.study import engine
from hpsearch.study.database import (
    VERSION_TABLE,
    Base,
    Database,
    StudyRecords,
    StudyRow,
    _schema_lock,
)
from hpsearch.study.storage import open_storage


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/studies.db"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database.open(url)
    opened.migrate()
    yield opened
    opened.close()


def create(database: Database, *, name: str = "quick", spec: str = "{}", hash_: str = "h") -> int:
    records = StudyRecords(database)
    return records.create_or_get(name=name, spec=spec, spec_hash=hash_, state="new", now=1.0).id


# Tables.


def test_migrations_give_the_tables_that_the_code_uses(database: Database) -> None:
    options = {
        "version_table": VERSION_TABLE,
        "compare_type": True,
        "include_name": lambda name, kind, _: kind != "table" or name.startswith("hpsearch_"),
    }
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
        assert context.get_current_revision() == "0003"


def test_tables_stand_beside_those_of_optuna(database: Database, url: str) -> None:
    open_storage(url).close()
    database.migrate()
    names = sqlalchemy.inspect(database.engine).get_table_names()
    assert {"hpsearch_studies", "hpsearch_version", "studies", "alembic_version"} <= set(names)


@pytest.mark.parametrize("dialect", [postgresql.dialect(), mysql.dialect()], ids=["pg", "mysql"])
def test_tables_can_be_created_on_servers(dialect: sqlalchemy.Dialect) -> None:
    text = "".join(
        str(CreateTable(table).compile(dialect=dialect)) for table in Base.metadata.sorted_tables
    )
    assert ("MEDIUMTEXT" in text) == (dialect.name == "mysql")
    assert text.count("BIGINT") + text.count("BIGSERIAL") == 12
    assert "FLOAT" not in text  # four bytes on MySQL


def test_tables_of_a_newer_version_are_refused(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(StorageError, match="made by a newer hpsearch; update"):
        database.migrate()


def migrate_at_once(url: str, barrier: threading.Barrier, outcomes: "multiprocessing.Queue[str]"):
    barrier.wait()
    try:
        database = Database.open(url)
        database.migrate()
        database.close()
        open_storage(url).close()
        outcomes.put("done")
    except Exception as error:
        outcomes.put(repr(error))


def test_processes_may_create_the_tables_at_once(url: str) -> None:
    assert race(migrate_at_once, url, count=3) == ["done"] * 3


def race(target: Callable[..., None], url: str, *, count: int) -> list[str]:
    """Return what each process puts into the queue; all begin at the same moment."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["alembic.command", "optuna", "hpsearch.study.database"])
    barrier, outcomes = context.Barrier(count), context.Queue()
    workers = [context.Process(target=target, args=(url, barrier, outcomes)) for _ in range(count)]
    for worker in workers:
        worker.start()
    answers = [outcomes.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    return answers


# Studies.


def test_study_is_created_once(database: Database) -> None:
    first = create(database, spec='{"space": 1, "budget": 1}')
    assert create(database, spec='{"space": 1, "budget": 2}') == first
    records = StudyRecords(database)
    record = records.get("quick")
    assert record is not None
    # A process that does not hold the study yet changes nothing.
    assert json.loads(record.spec) == {"space": 1, "budget": 1}
    records.set_spec(first, '{"space": 1, "budget": 2}')
    record = records.get("quick")
    assert record is not None
    assert json.loads(record.spec) == {"space": 1, "budget": 2}
    assert (record.spec_hash, record.state, record.created_at) == ("h", "new", 1.0)


def test_other_search_under_the_same_name_is_refused(database: Database) -> None:
    create(database, spec='{"space": 1, "seed": 3, "name": "quick"}')
    with pytest.raises(ConflictError, match=r"\(what changed: seed, space\); give the study"):
        create(database, spec='{"space": 2, "name": "quick"}', hash_="other")


def test_studies_change_their_state(database: Database) -> None:
    records = StudyRecords(database)
    ids = [create(database, name=name) for name in ("b", "a")]
    records.set_state(ids[1], "running")
    assert [records.get(name).state for name in ("b", "a")] == ["new", "running"]
    assert records.get("c") is None


# Transactions.


def test_nothing_of_a_failed_transaction_is_written(database: Database) -> None:
    row = {"spec": "", "spec_hash": "", "state": "", "created_at": 0.0}

    def work(session: Session) -> None:
        session.add(StudyRow(name="one", **row))
        session.flush()
        session.add(StudyRow(name="one", **row))

    with pytest.raises(IntegrityError):
        database.transaction(work)
    assert StudyRecords(database).get("one") is None


def test_lock_that_is_released_is_waited_for(
    database: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT", 0.0)  # so that the repetition has to wait
    impatient = Database.open(url)
    blocker = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
    blocker.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.5, blocker.rollback).start()
    began = time.monotonic()
    create(impatient)
    assert time.monotonic() - began > 0.4
    blocker.close()
    impatient.close()


def test_lock_that_stays_is_reported(database: Database, url: str) -> None:
    with pytest.raises(StorageUnavailableError, match="locked by another process for 0 seconds"):
        engine.persist(url, lambda: fail("database is locked"), patience=0.2)


def test_nothing_is_waited_for_beyond_patience(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    clock = {"monotonic": lambda: now[0], "sleep": lambda wait: now.append(now.pop() + wait)}
    monkeypatch.setattr(engine, "time", SimpleNamespace(**clock))
    monkeypatch.setattr(engine, "random", SimpleNamespace(uniform=lambda low, high: high))
    with pytest.raises(StorageUnavailableError):
        engine.persist(url, lambda: fail("database is locked"), patience=0.075)
    assert now == [pytest.approx(1.5 * 0.02)], "the next wait would end too late"


def test_lost_connection_is_repeated_but_not_in_the_commit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = iter([lost()])

    def work(session: Session) -> int:
        for fault in faults:
            raise fault
        return 5

    assert database.transaction(work) == 5

    def lose(_: Session) -> None:
        raise lost()

    monkeypatch.setattr(Session, "commit", lose)
    with pytest.raises(StorageUnavailableError, match="lost while a change was written"):
        database.transaction(lambda _: None)


def lost() -> OperationalError:
    return OperationalError("", {}, Exception("server closed"), connection_invalidated=True)


def fail(message: str) -> None:
    raise OperationalError("", {}, Exception(message))


# Faults.


@pytest.mark.parametrize("opening", [Database.open, open_storage], ids=["ours", "optuna"])
@pytest.mark.parametrize(
    ("bad_url", "error", "message"),
    [
        ("sqlite:///{tmp}", StorageError, "cannot be opened; check that it is a file"),
        ("sqlite:///{tmp}/text.db", StorageError, "no intact SQLite database"),
        ("sqlite:///{tmp}/text.db/x/y.db", DiskError, "cannot be created"),
        ("nonsense", StorageError, "no database URL that SQLAlchemy knows"),
        ("oracel://me:secret@host/x", StorageError, "no database URL that SQLAlchemy knows"),
        ("postgresql+psycopg2://me:secret@h/x", StorageError, "is not installed (psycopg2); pip"),
        ("mysql+mysqldb://me:secret@h/x", StorageError, "is not installed (MySQLdb); pip"),
    ],
)
def test_database_that_cannot_be_used_is_explained(
    tmp_path: Path,
    opening: Callable[[str], object],
    bad_url: str,
    error: type[HpsearchError],
    message: str,
) -> None:
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(error) as caught:
        opening(bad_url.format(tmp=tmp_path))
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ('could not extend file "x": No space left on device', DiskError, "is full; free"),
        ("attempt to write a readonly database", DiskError, "can be read but not written"),
        ("disk I/O error", DiskError, "network file system"),
        ("database disk image is malformed", StorageError, "no intact SQLite database"),
        ('password authentication failed for user "me"', StorageError, "does not permit"),
        ("(1045, \"Access denied for user 'me'\")", StorageError, "does not permit"),
        ("permission denied for table studies", StorageError, "does not permit"),
        ('FATAL: database "nope" does not exist', StorageError, "has no such database or user"),
        ("(1049, \"Unknown database 'nope'\")", StorageError, "has no such database or user"),
        ("something secret and more\nsecond line", StorageError, "something *** and more"),
    ],
)
def test_words_of_drivers_are_translated(
    words: str, error: type[HpsearchError], message: str
) -> None:
    with pytest.raises(error) as caught:
        engine.persist("postgresql://me:secret@host/db", lambda: fail(words))
    assert type(caught.value) is error
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        "connection failed: port 5432 failed: Connection refused, sec ret\n\tIs it running?",
        "consuming input failed: server closed the connection unexpectedly",
        "connection failed: FATAL:  the database system is starting up",
        "connection failed: FATAL:  the database system is shutting down",
        "connection failed: FATAL:  the database system is in recovery mode",
        "failed to resolve host 'db.example': [Errno -2] Name or service not known",
        'could not translate host name "db" to address',
        "connection timeout expired",
        "FATAL:  sorry, too many clients already",
        "(2003, \"Can't connect to MySQL server on 'db' ([Errno 111] Connection refused)\")",
        "(2006, 'MySQL server has gone away')",
        "(2013, 'Lost connection to MySQL server during query')",
    ],
)
def test_a_server_that_is_away_is_tried_again_and_told_apart(words: str) -> None:
    tries = []

    def work() -> None:
        tries.append(1)
        fail(words)

    with pytest.raises(StorageUnavailableError, match="cannot be used now") as caught:
        engine.persist("postgresql://me:sec%20ret@host/db", work, patience=0.2)
    assert len(tries) > 1
    assert "sec ret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_full_disk_is_named(database: Database) -> None:
    with database.engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
    limit = f"PRAGMA max_page_count = {pages}"
    sqlalchemy.event.listen(database.engine, "checkout", lambda dbapi, *_: dbapi.execute(limit))
    with pytest.raises(DiskError, match="is full; free some space"):
        create(database, spec='"' + "x" * 100_000 + '"')


def test_database_without_our_tables_is_named(url: str) -> None:
    database = Database.open(url)
    with pytest.raises(StorageError, match="holds no study of hpsearch"):
        StudyRecords(database).get("quick")
    database.close()


def test_servers_get_few_connections_and_a_time_limit() -> None:
    options = engine.engine_options("postgresql+psycopg://me@host/db")
    assert options["pool_pre_ping"]
    assert options["pool_size"] + options["max_overflow"] <= 3
    limits = options["connect_args"]
    assert limits["connect_timeout"] == 10
    assert limits["tcp_user_timeout"] == 60_000
    pymysql = engine.engine_options("mysql+pymysql://me@host/db")
    assert pymysql["connect_args"] == {
        "connect_timeout": 10,
        "read_timeout": 60,
        "write_timeout": 60,
    }
    assert engine.engine_options("sqlite:///x.db") == {"connect_args": {"timeout": 10.0}}


@pytest.mark.parametrize("answer", [0, None])
def test_tables_of_mysql_are_left_to_the_process_that_changes_them(answer: int | None) -> None:
    """GET_LOCK does not fail where the lock stays away; it answers 0, or NULL after an error."""
    connection = MagicMock()
    connection.dialect.name = "mysql"
    connection.engine.url = sqlalchemy.make_url("mysql+pymysql://me:secret@host/name")
    connection.exec_driver_sql.return_value.scalar.return_value = answer
    with (
        pytest.raises(StorageUnavailableError, match="another process has changed") as error,
        _schema_lock(connection),
    ):
        pytest.fail("the tables were changed without the lock")
    assert "secret" not in str(error.value)
    connection.exec_driver_sql.return_value.scalar.return_value = 1
    with _schema_lock(connection):
        pass
    assert "RELEASE_LOCK" in connection.exec_driver_sql.call_args.args[0]
