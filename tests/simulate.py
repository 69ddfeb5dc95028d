"""Studies on a simulated cluster and file system on which everything fails, with fresh seeds.

    python tests/simulate.py --minutes 10      as `make simulate MINUTES=10`
    python tests/simulate.py --seed 1234       one of them again

Each seed draws a study and which faults there are, how many of each. Drivers, jobs, nodes, the
database and the power go away, calls of the scheduler get no answer, writes fail, are torn, are
reordered or lost, other machines see old files, clocks jump and differ by minutes, and a second
driver comes in between. Whatever happens, the study ends, and its books are right. All time is
virtual, and all is drawn from the seed, so a failure comes again.

The books are those of tests/study/drives.py and of `hpsearch audit`, without its rules on
checkpoints: the simulated jobs leave empty folders for them. Where a disk lies about what it has
flushed, files that were told of may be lost, so the tables alone are checked.
"""

import argparse
import copy
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "study")]

import pytest
from drives import SPACE, Killed, check_study, new_study, opened
from fakes import smooth_curve
from faulty_files import FaultyFiles, FileFaults
from optuna.storages._rdb.storage import _VersionManager
from virtual_cluster import CallFaults, Faults, SimulatedCluster, SimulatedExecutor, Work
from virtual_job import Course, SimulatedJob, teaches_nothing

from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import ConflictError, DiskError, HpsearchError, StorageUnavailableError
from hpsearch.study.database import Database
from hpsearch.study.driver import Driver
from hpsearch.study.events import Event, EventLog, Lease, Leases
from hpsearch.study.spec import load_spec
from hpsearch.study.storage import MirroredStorage
from hpsearch.trainers.config import TrainerConfig

POLL_SECONDS = 15.0
MAX_ROUNDS = 4000
HOSTS = ("alpha", "beta")


@dataclass(frozen=True)
class World:
    """What one seed draws: each fault is there or not, and often or seldom."""

    trials: int
    jobs: int
    members: int
    pilot_seconds: float
    sampler: str
    machines: Faults
    calls: CallFaults
    files: FileFaults
    deaths: float
    """share of the moments at which the driver or the database dies"""
    rivals: float
    """share of the moments at which the other host's driver comes in between"""
    power_cuts: float
    """share of the rounds"""
    clock_jumps: float
    """share of the rounds"""
    ahead: Mapping[str, float]
    """seconds by which the clock of each host is ahead"""

    @classmethod
    def drawn(cls, random: Random) -> "World":
        """Return one world."""

        def some(most: float) -> float:
            return random.uniform(0.0, most) if random.random() < 0.6 else 0.0

        machines = Faults(
            queue_seconds=some(60.0),
            preemptions=some(4.0),
            node_failures=some(4.0),
            repair_seconds=60.0,
            zombies=some(1.0),
            crashes=some(2.0),
            out_of_memory=some(1.0),
            hangs=some(1.0),
            walltime=900.0,
        )
        calls = CallFaults(some(0.1), 20.0, some(0.1), 60.0, some(0.1), some(0.1), some(0.1))
        files = FileFaults(some(0.01), some(0.01), some(0.3), some(0.05), _skew(random))
        return cls(
            trials=random.randint(4, 12),
            jobs=random.randint(1, 4),
            members=random.randint(1, 3),
            pilot_seconds=random.choice((0.0, 30.0)),
            sampler=random.choice(("random", "tpe")),
            machines=machines,
            calls=calls,
            files=files,
            deaths=some(0.02),
            rivals=some(0.02),
            power_cuts=some(0.02),
            clock_jumps=some(0.02),
            ahead={host: _skew(random) for host in HOSTS},
        )


def _skew(random: Random) -> float:
    """Return by how many seconds a clock is ahead: by none, or up to a quarter of an hour."""
    return random.choice((0.0, random.uniform(-900.0, 900.0)))


def seconds_of(config: TrainerConfig) -> float:
    """Return how long a whole trial takes."""
    return 160.0 * Random(config.seed).uniform(0.5, 1.5)


class Job(SimulatedJob):
    """A job whose files may fail; it ends as the real worker does, which tells what it can."""

    def __init__(self, job: JobDir, course: Course, files: FaultyFiles) -> None:
        super().__init__(job, course)
        self._files = files
        self._client = f"job {job.name}"
        self._is_over = False

    def begin(self, now: float) -> float | None:
        return self._tried(lambda: super(Job, self).begin(now))

    def go_on(self, now: float) -> float | None:
        return self._tried(lambda: super(Job, self).go_on(now))

    def leave(self, now: float) -> None:
        self._tried(lambda: super(Job, self).leave(now))

    def vanish(self, now: float) -> None:
        self._is_over = True
        super().vanish(now)

    def _tried(self, work: Callable[[], float | None]) -> float | None:
        if self._is_over:
            return None
        before, self._files.client = self._files.client, self._client
        try:
            return work()
        except Killed:
            self._is_over = True
        except (HpsearchError, OSError) as error:
            self._is_over = True
            self._fail(error)
        finally:
            self._files.client = before
        return None

    def _fail(self, error: Exception) -> None:
        for member in self._members:
            try:
                member.fail(error, self._step.get(member.assignment.trial, 0))
            except (DiskError, Killed):
                continue


class Executor(SimulatedExecutor):
    """Notes what the books are checked against."""

    def __init__(self, cluster: SimulatedCluster, files: FaultyFiles, **options: Any) -> None:
        self.course = Course(seconds_of, smooth_curve, teaches_nothing)
        super().__init__(cluster, self.course, **options)
        self.submitted: list[str] = []
        self._files = files

    def _enter(self, jobs: Sequence[JobDir]) -> None:
        super()._enter(jobs)
        self.submitted += [job.name for job in jobs]

    def _work(self, job: JobDir) -> Work:
        return Job(job, self.course, self._files)


@dataclass
class Host:
    """A machine on which a driver may run."""

    name: str
    executor: Executor
    clock: Callable[[], float]
    ahead: float
    stack: ExitStack | None = None
    driver: Driver | None = None

    def now(self) -> float:
        return self.clock() + self.ahead


@dataclass
class Run:
    """One seed's study, driven to its end by two hosts.

    Attributes:
        problems: what is wrong, a sentence each.
        counts: how often each fault happened.
    """

    seed: int
    folder: Path
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed}/simulate")
        self.world = world = World.drawn(self.random)
        self.study = new_study(
            self.folder,
            budget={"trials": world.trials},
            seed=self.seed % 1000,
            sampler={"name": world.sampler},
            executor={"name": "local", "jobs": world.jobs, "members_per_job": world.members},
            space=SPACE | {"steps": {"type": "int", "low": 8, "high": 24, "step": 4}},
            max_failures=0,
        )
        runs = self.folder / "runs"
        runs.mkdir(parents=True)
        self.cluster = SimulatedCluster(3, 2, seed=self.seed, faults=world.machines)
        self.files = FaultyFiles(runs, world.files, self.random, self.cluster.clock)
        executor = Executor(
            self.cluster,
            self.files,
            seed=self.seed,
            faults=world.calls,
            max_batch=3,
            pilot_seconds=world.pilot_seconds,
        )
        self.hosts = [
            # One memory of the queue each: only what they submitted is shared.
            Host(name, copy.copy(executor), self.cluster.clock, world.ahead[name])
            for name in HOSTS
        ]
        self._is_between = False

    def play(self) -> None:
        """Drive the study to its end and check its books."""
        with self._faults(), self.files.mounted():
            self._drive()
        if not self.problems and not self.world.files.lies:
            self.problems += check_books(self.folder / "runs" / self.study.spec.name, self.url)
        elif not self.problems:  # files that were told of may be lost, as nothing could prevent
            self.problems += _failures(lambda: check_study(self.study, with_files=False))
        self.counts.update({name: n for name, n in self.files.counts.items() if n})

    @property
    def url(self) -> str:
        return self.study.spec.storage

    def _drive(self) -> None:
        for _ in range(MAX_ROUNDS):
            host = self.hosts[self.random.random() < 0.2]
            try:
                if self._round(host):
                    return
            except Exception:  # whatever it is, it is what this looks for
                self.problems.append(traceback.format_exc())
                return
            finally:
                self.files.strike = lambda: None
            self.cluster.advance(POLL_SECONDS)
            self._misfortune()
        self.problems.append(f"no end after {MAX_ROUNDS} rounds")

    def _round(self, host: Host) -> bool:
        """Let a host's driver do one round; return whether the study has ended."""
        self.files.client, self.files.strike = host.name, self._strike
        try:
            if host.driver is None:
                self._open(host)
            assert host.driver is not None
            host.driver.tick()
            if not host.driver.is_busy:
                self._close(host)
                return True
        except Killed:
            self._close(host, dies=True)
        except (StorageUnavailableError, DiskError, ConflictError) as error:
            self.counts[type(error).__name__] += 1
            self._close(host)
        return False

    def _open(self, host: Host) -> None:
        host.stack = ExitStack()
        host.driver = host.stack.enter_context(opened(self.study, host.executor, host.now))

    def _close(self, host: Host, *, dies: bool = False) -> None:
        """End a driver; one that dies by a kill does not give its lease back."""
        stack, host.stack, host.driver = host.stack, None, None
        if stack is None:
            return
        self.files.strike = lambda: None
        with pytest.MonkeyPatch.context() as patch:
            if dies:
                patch.setattr(Leases, "release", lambda self, lease: None)
            stack.close()

    # Faults.

    def _misfortune(self) -> None:
        """Cut the power or set a clock, perhaps."""
        if self.random.random() < self.world.power_cuts:
            self.cluster.lose_power()
            for host in self.hosts:
                self._close(host, dies=True)
            self.files.crash()
        if self.random.random() < self.world.clock_jumps:
            self.counts["jump"] += 1
            host = self.random.choice(self.hosts)
            host.ahead += self.random.uniform(-600.0, 600.0)

    def _strike(self) -> None:
        """Perhaps let the process die that is writing now."""
        if self.random.random() < self.world.deaths / 5:
            self.counts["killed"] += 1
            raise Killed

    def _between(self) -> None:
        """Perhaps let the driver or the database die here, or the other host's driver come in."""
        if self._is_between:
            return
        if self.random.random() < self.world.deaths:
            victim = self.random.choice(("driver", "database"))
            self.counts[victim] += 1
            raise Killed if victim == "driver" else StorageUnavailableError("the database is away")
        if self.random.random() < self.world.rivals:
            self.counts["rival"] += 1
            client, strike = self.files.client, self.files.strike
            self._is_between = True
            try:
                for host in self.hosts:
                    if host.name != client:
                        self._round(host)
            finally:
                self._is_between = False
                self.files.client, self.files.strike = client, strike

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Strike before and after everything that is written into the database."""
        append, persist = EventLog.append, MirroredStorage._persist

        def written(
            log: EventLog, study_id: int, events: Sequence[Event], *, lease: Lease | None = None
        ) -> list[Event]:
            self._between()
            result = append(log, study_id, events, lease=lease)
            self._between()
            return result

        def persisted(storage: MirroredStorage, operation: Callable[[], Any]) -> Any:
            self._between()
            result = persist(storage, operation)
            self._between()
            return result

        with pytest.MonkeyPatch.context() as patch:
            with opened(self.study, self.hosts[0].executor, self.hosts[0].now):
                pass  # the tables are made once; to look at their versions takes the most time
            patch.setattr(Database, "migrate", lambda self: None)
            patch.setattr(_VersionManager, "check_table_schema_compatibility", lambda self: None)
            patch.setattr(EventLog, "append", written)
            patch.setattr(MirroredStorage, "_persist", persisted)
            yield


def check_books(study: Path, url: str) -> list[str]:
    """Return what is wrong with the books of a study that has ended, a sentence each.

    Args:
        study: its folder.
        url: of its database.
    """
    described = load_spec(Path(json.loads((study / "study.json").read_text())["file"]))
    assert described.spec.storage == url
    return _failures(lambda: check_study(described, with_checkpoints=False))


def _failures(check: Callable[[], None]) -> list[str]:
    try:
        check()
    except (AssertionError, OSError, ValueError):
        return [traceback.format_exc()]
    return []


def simulate(seed: int, folder: Path) -> Run:
    """Play one seed in an empty folder."""
    run = Run(seed, folder)
    run.play()
    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="for which to draw fresh seeds")
    parser.add_argument("--seed", type=int, help="play this one alone, again")
    wanted = parser.parse_args()
    end = time.monotonic() + 60 * wanted.minutes
    seeds = iter([wanted.seed]) if wanted.seed is not None else _fresh(end)
    num_played = 0
    for seed in seeds:
        # What drivers say of the faults that they meet is no fault.
        with tempfile.TemporaryDirectory() as folder, redirect_stderr(StringIO()):
            run = simulate(seed, Path(folder))
        num_played += 1
        print(f"seed {seed}: {run.world.trials} trials, {dict(run.counts)}", flush=True)
        if run.problems:
            print(*run.problems, sep="\n", file=sys.stderr)
            print(f"again: python tests/simulate.py --seed {seed}", file=sys.stderr)
            return 1
    print(f"{num_played} studies, and what the audit reads of them is right")
    return 0


def _fresh(end: float) -> Iterator[int]:
    while time.monotonic() < end:
        yield SystemRandom().randrange(2**32)


if __name__ == "__main__":
    sys.exit(main())
