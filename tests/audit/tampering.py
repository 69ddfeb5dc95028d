"""Recorded studies to tamper with, and what an audit says of them."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from recorded import DATABASE

from hpsearch.audit.auditing import find_faults
from hpsearch.audit.books import read_books
from hpsearch.audit.disk import Disk
from hpsearch.audit.finding import Fault, Open
from hpsearch.audit.ledger import read_ledger
from hpsearch.study.database import Database
from hpsearch.study.events import EventLog, Leases
from hpsearch.study.snapshots import SnapshotWriter
from hpsearch.study.state import StudyState


class Tampered:
    """A study on disk and in SQLite that may be changed in one place."""

    def __init__(self, source: Path, folder: Path) -> None:
        shutil.copytree(source, folder)
        self.folder = folder
        self.root = folder / "runs/tiny"

    def sql(self, statement: str, *values: Any) -> None:
        """Change some rows, at least one."""
        with closing(sqlite3.connect(self.folder / DATABASE)) as database:
            assert database.execute(statement, values).rowcount > 0, statement
            database.commit()

    def data(self, kind: str, trial: int | None, change: Any, *, last: bool = True) -> None:
        """Change the data of the last, or the first, event of a kind."""
        order = "DESC" if last else "ASC"
        with closing(sqlite3.connect(self.folder / DATABASE)) as database:
            row = database.execute(
                "SELECT id, data FROM hpsearch_events WHERE kind = ? AND trial IS ? "
                f"ORDER BY id {order}",
                (kind, trial),
            ).fetchone()
        data = json.loads(row[1])
        change(data)
        self.sql("UPDATE hpsearch_events SET data = ? WHERE id = ?", json.dumps(data), row[0])

    def json(self, path: str, change: Any) -> None:
        """Change a JSON file."""
        data = json.loads((self.root / path).read_text())
        change(data)
        (self.root / path).write_text(json.dumps(data))

    def text(self, path: str, before: str, after: str) -> None:
        """Change a text."""
        text = (self.root / path).read_text()
        assert before in text, path
        (self.root / path).write_text(text.replace(before, after, 1))

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def remove(self, path: str) -> None:
        """Remove a file or a folder."""
        (target,) = self.root.glob(path)
        shutil.rmtree(target) if target.is_dir() else target.unlink()

    def add_snapshot(self) -> None:
        """Write two snapshots, as a driver does now and then: half way, and after all events."""
        with closing(sqlite3.connect(self.folder / DATABASE)) as database:
            (lease,) = database.execute("SELECT * FROM hpsearch_leases").fetchall()
        with closing(Database.open(f"sqlite:///{self.folder / DATABASE}")) as opened:
            opened.migrate()
            events, state = list(EventLog(opened).read(lease[0])), StudyState()
            held = Leases(opened).acquire(lease[0], holder="a", now=1e12, ttl=1.0)
            half = len(events) // 2
            for part in (events[:half], events[half:]):
                state.apply(part)
                SnapshotWriter(opened).write(held, state, lambda trial: f"{trial.told}\t0.5\t1e-3")
        with closing(sqlite3.connect(self.folder / DATABASE)) as database:
            database.execute("DELETE FROM hpsearch_leases")
            marks = ", ".join("?" * len(lease))
            database.execute(f"INSERT INTO hpsearch_leases VALUES ({marks})", lease)
            database.commit()

    def snapshot(self, kind: str, name: str, change: Any) -> None:
        """Change the JSON of a row of a snapshot."""
        with closing(sqlite3.connect(self.folder / DATABASE)) as database:
            ((text,),) = database.execute(
                "SELECT data FROM hpsearch_snapshots WHERE kind = ? AND name = ?", (kind, name)
            )
        data = json.loads(text)
        change(data)
        self.sql(
            "UPDATE hpsearch_snapshots SET data = ? WHERE kind = ? AND name = ?",
            *(json.dumps(data), kind, name),
        )

    def findings(self) -> list[Fault | Open]:
        """Return what an audit finds."""
        books = read_books("tiny", f"sqlite:///{self.folder / DATABASE}")
        disk = Disk(self.root, pointed_to={}, deep=True)
        return find_faults(books, read_ledger(books.events), disk)

    def faults(self) -> list[Fault]:
        """Return its faults."""
        return [finding for finding in self.findings() if isinstance(finding, Fault)]
