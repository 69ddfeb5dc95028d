"""Drivers that stop wherever a process may be suspended or die, and what they share.

A puppet is the real driver in a thread of its own. It runs from one point to the next when it is
told to, so a test decides how two of them interleave. All share one database, one folder, one clock
and one cluster, whose jobs do a step when they are told to.

A point is *guarded* where the driver has just looked at its lease and is about to write what no
transaction protects: a file, or Optuna's tables. There it may die, but the clock does not pass over
half of the lease: that is what the protocol asks of the machine on which a driver runs.
"""

import itertools
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from drives import METRIC, Clock, Killed
from optuna.storages._rdb.storage import _VersionManager
from sqlalchemy import Engine, event

from hpsearch import files
from hpsearch.cluster.executor import JobStatus
from hpsearch.cluster.records import Assignment, AttemptResult
from hpsearch.cluster.study_dir import JobDir, StudyDir, TrialDir
from hpsearch.errors import ConflictError
from hpsearch.study import opening
from hpsearch.study import space as space_module
from hpsearch.study.database import Database
from hpsearch.study.driver import Driver
from hpsearch.study.events import Event, EventLog, Lease, Leases
from hpsearch.study.recorder import LEASE_SECONDS, EventRecorder
from hpsearch.study.spec import Study
from hpsearch.study.storage import MirroredStorage
from hpsearch.study.trials import Trials

HALF_LEASE = LEASE_SECONDS / 2
PATIENCE_SECONDS = 60.0
"""for which an array that was not confirmed may still appear in the queue"""
MAX_TICKS = 300
GUARDED = (
    (Trials, "tell"),
    (TrialDir, "end"),
    (files, "_replace"),
)
UNGUARDED = (
    (EventRecorder, "keep_lease"),
    (EventRecorder, "renew_lease"),
    (space_module, "_suggest"),
    (MirroredStorage, "keep"),
)
DECISIVE = ("/control.json", "/job.json")  # files before which it is worth stopping
PLACES = (
    *("acquire", "append", "appended", "look", "submit", "submitted", "release"),
    *(name for _, name in (*UNGUARDED, *GUARDED)),
)
"""the names of all points"""

_here = threading.local()


def point(name: str, *, guarded: bool = False) -> None:
    """Stop here, if a puppet runs this."""
    puppet = getattr(_here, "puppet", None)
    if puppet is not None:
        puppet.stop(name, guarded=guarded)


@dataclass
class Cluster:
    """Jobs that were submitted; each step of one ends an attempt, as `Member` would.

    Attributes:
        submitted: names of the jobs, as often as each was submitted.
        written: the value that an attempt wrote, by trial and token.
    """

    submitted: list[str] = field(default_factory=list)
    written: dict[tuple[int, str], float] = field(default_factory=dict)
    live: dict[str, list[Assignment]] = field(default_factory=dict)
    """what running jobs still train"""
    gone: dict[str, list[Assignment]] = field(default_factory=dict)
    """what jobs would still train that were given up, on a node that is out of sight"""
    folder: StudyDir = field(default_factory=lambda: StudyDir(Path()))
    _values: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def enter(self, job: JobDir) -> None:
        """Take a job into the queue."""
        self.submitted.append(job.name)
        self.live[job.name] = list(job.plan.required().assignments)

    def work(self, name: str) -> None:
        """End the next attempt of a job, out of sight or not; a fenced one is ignored."""
        left = self.live.get(name) or self.gone.get(name)
        if left:
            self._end(left.pop(0))
        if name in self.live and not self.live[name]:
            self.end(name, is_zombie=False)

    def end(self, name: str, *, is_zombie: bool) -> None:
        """End a job; as a zombie, it may go on unseen."""
        left = self.live.pop(name)
        self.gone[name] = left if is_zombie else []

    def _end(self, assignment: Assignment) -> None:
        trial = self.folder.trial(assignment.trial)
        control = trial.control.read()
        if control is None or control.token != assignment.token:
            return
        value = float(next(self._values))
        measured = {"value": value, "low": value, "high": value, "capped": 0.0, "games": 1.0}
        status = control.stop or "finished"
        if status == "finished":
            self.written[assignment.trial, assignment.token] = value
        metrics = {METRIC: measured} if status == "finished" else {}
        result = AttemptResult(assignment.token, status, 16, None, "", metrics)
        trial.attempt(assignment.attempt).write_result(result)


class Hands:
    """One driver's calls of the cluster's scheduler."""

    max_batch = 2
    num_threads = ranks = 1
    num_calls = 0
    patience = PATIENCE_SECONDS
    gpus_per_job = 0.0
    max_jobs = None
    pilot_seconds = 0.0

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._strays: set[str] = set()

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        """Submit jobs; a driver may be suspended or die before or after."""
        point("submit")
        for job in jobs:
            self._cluster.enter(job)
        point("submitted")
        return {job.name: f"id-{job.name}" for job in jobs}

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Return how the jobs are of which the cluster knows."""
        point("look")
        wanted = {job.name for job, _ in jobs}
        self._strays = self._cluster.live.keys() - wanted
        phases = dict.fromkeys(self._cluster.gone, "ended")
        phases |= dict.fromkeys(self._cluster.live, "running")
        return {
            name: JobStatus(f"id-{name}", phase)  # type: ignore[arg-type]
            for name, phase in phases.items()
            if name in wanted
        }

    def cancel_strays(self) -> None:
        """End the jobs that the last look found and that were never announced."""
        self._end(self._strays)
        self._strays = set()

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End jobs."""
        self._end({job.name for job, _ in jobs})

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End jobs."""
        self._end({job.name for job, _ in jobs})

    def log(self, job: JobDir, job_id: str) -> Path:
        """Return a file that is never written."""
        return job.root / "no.log"

    def _end(self, names: set[str]) -> None:
        for name in names & self._cluster.live.keys():
            self._cluster.end(name, is_zombie=False)


@dataclass
class World:
    """What all drivers of a study share.

    Attributes:
        known_dead: holders of the lease of which every host knows that they are dead.
        faults: what was seen that must never happen.
    """

    study: Study
    clock: Clock
    cluster: Cluster
    known_dead: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return Path(self.study.spec.storage.removeprefix("sqlite:///"))

    def query(self, question: str) -> list[tuple[Any, ...]]:
        """Return the rows that plain SQL finds."""
        with closing(sqlite3.connect(self.database)) as file:
            return file.execute(question).fetchall()

    def valid_token(self) -> int:
        """Return the token of the newest lease."""
        return int(self.query("SELECT token FROM hpsearch_leases")[0][0])

    @contextmanager
    def open(self) -> Iterator[Driver]:
        """Give a driver that has begun."""
        with opening.open_driver(
            self.study,
            self.study.path.parent / "runs",
            Hands(self.cluster),
            on_event=lambda event: None,
            clock=self.clock,
        ) as driver:
            driver.start()
            yield driver


class Puppet:
    """A driver in a thread of its own.

    Attributes:
        at: the point at which it stands.
        lease: that it believes to hold.
        error: with which it ended, None if it ended by itself.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.at = "begin"
        self.is_guarded = False
        self.since = world.clock.now
        self.lease: Lease | None = None
        self.error: BaseException | None = None
        self.is_over = False
        self._is_killed = False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Let it run to the next point, or to its end."""
        if not self.is_over:
            self._go.release()
            self._stopped.acquire()

    def kill(self, *, is_known: bool) -> None:
        """Let it die where it stands, as by kill -9; its host may know that it is dead."""
        self._is_killed = True
        self.step()
        self._thread.join()
        if is_known:
            self.world.known_dead.add(self.name)

    def stop(self, name: str, *, guarded: bool) -> None:
        """Stand at a point until it goes on."""
        if self._is_killed:
            raise Killed
        self.at, self.is_guarded, self.since = name, guarded, self.world.clock.now
        self._stopped.release()
        self._go.acquire()
        if self._is_killed:
            raise Killed

    def has_died(self) -> bool:
        """Return whether it was killed: then it does nothing more, not even to tidy up."""
        return self._is_killed

    def _run(self) -> None:
        _here.puppet = self
        self._go.acquire()
        try:
            if not self._is_killed:
                with self.world.open() as driver:
                    while driver.is_busy:
                        driver.tick()
        except (Killed, ConflictError) as error:
            self.error = error
        except BaseException as error:
            self.error = error
            self.world.faults.append(f"a driver ended at {self.at} by {error!r}")
        self.is_over, self.lease = True, None
        self._stopped.release()


def drive_to_the_end(world: World) -> None:
    """Let a driver that is never disturbed drive the study, and jobs work, until it is over."""
    with world.open() as driver:
        for _ in range(MAX_TICKS):
            driver.tick()
            if not driver.is_busy:
                return
            for name in list(world.cluster.live):
                world.cluster.work(name)
            world.clock.now += 15.0
    raise AssertionError(f"no end after {MAX_TICKS} rounds: {driver.state}")


@contextmanager
def strings(world: World) -> Iterator[None]:
    """Let puppets stop at every point, and note what must never happen."""
    with pytest.MonkeyPatch.context() as patch:
        _watch_the_log(patch, world)
        _follow_leases(patch, world)
        for owner, name in (*GUARDED, *UNGUARDED):
            _stop_before(patch, owner, name, guarded=(owner, name) in GUARDED)
        # The tables are those of a template; to look at their versions takes the most time.
        patch.setattr(Database, "migrate", lambda self: None)
        patch.setattr(_VersionManager, "check_table_schema_compatibility", lambda self: None)
        patch.setattr(os, "fsync", lambda descriptor: None)  # machines don't die here
        event.listen(Engine, "connect", _spare_the_disk)
        try:
            yield
        finally:
            event.remove(Engine, "connect", _spare_the_disk)


def _spare_the_disk(connection: Any, record: Any) -> None:
    connection.execute("PRAGMA synchronous = OFF")


def _stop_before(patch: pytest.MonkeyPatch, owner: Any, name: str, *, guarded: bool) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def stopping(*arguments: Any, **named: Any) -> Any:
        if owner is not files or arguments[0].endswith(DECISIVE):
            point(name, guarded=guarded)
        return original(*arguments, **named)

    patch.setattr(owner, name, stopping)


def _watch_the_log(patch: pytest.MonkeyPatch, world: World) -> None:
    write = EventLog.append

    def append(
        log: EventLog, study_id: int, events: Sequence[Event], *, lease: Lease | None = None
    ) -> list[Event]:
        point("append")
        valid = world.valid_token()
        written = write(log, study_id, events, lease=lease)
        if lease is None or lease.token != valid:
            kinds = [event.kind for event in events]
            world.faults.append(f"a driver without the lease wrote {kinds}")
        point("appended")
        return written

    patch.setattr(EventLog, "append", append)


def _follow_leases(patch: pytest.MonkeyPatch, world: World) -> None:
    acquire, renew, release = Leases.acquire, Leases.renew, Leases.release

    def acquired(leases: Leases, study_id: int, **options: Any) -> Lease:
        point("acquire")
        return _hold(acquire(leases, study_id, **options))

    def renewed(leases: Leases, lease: Lease, **options: Any) -> Lease:
        return _hold(renew(leases, lease, **options))

    def released(leases: Leases, lease: Lease) -> None:
        puppet = getattr(_here, "puppet", None)
        if puppet is None or not puppet.has_died():
            point("release")
            release(leases, lease)

    patch.setattr(Leases, "acquire", acquired)
    patch.setattr(Leases, "renew", renewed)
    patch.setattr(Leases, "release", released)
    patch.setattr(opening, "own_name", lambda: _name())
    patch.setattr(opening, "is_dead", lambda name: name in world.known_dead)


def _hold(lease: Lease) -> Lease:
    puppet = getattr(_here, "puppet", None)
    if puppet is not None:
        puppet.lease = lease
    return lease


def _name() -> str:
    puppet = getattr(_here, "puppet", None)
    return "undisturbed" if puppet is None else puppet.name
