"""Drivers, jobs, nodes and the database die at random; every study ends as if none had.

All is drawn from seeds and happens in virtual time, so a failure comes again.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from drives import (
    SPACE,
    TRAINER,
    Killed,
    check_books,
    deaths_at_all_events,
    new_study,
    opened,
    refills,
    schedule,
    stored_events,
)
from fakes import smooth_curve
from optuna.storages._rdb.storage import _VersionManager
from tried import tried
from virtual_cluster import CallFaults, Faults, SimulatedCluster, SimulatedExecutor
from virtual_job import Course, teaches_nothing

from hpsearch.cluster.executor import JobStatus
from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import StorageUnavailableError
from hpsearch.study.database import Database
from hpsearch.study.events import Event, EventLog, Lease
from hpsearch.study.spec import Study
from hpsearch.study.state import StudyState
from hpsearch.study.storage import MirroredStorage
from hpsearch.trainers.config import TrainerConfig

NUM_STUDIES, NUM_KILLS = 10, 200
POLL_SECONDS = 15.0
MAX_LIVES, MAX_TICKS = 400, 2000
MACHINES = Faults(
    queue_seconds=10.0,
    preemptions=4.0,
    node_failures=4.0,
    repair_seconds=60.0,
    zombies=0.5,
    crashes=2.0,
    out_of_memory=1.0,
    hangs=2.0,
    walltime=900.0,
)
CALLS = CallFaults(slow=0.1, lost=0.1, refused=0.1, stale=0.1, repeated=0.1)


def seconds_of(config: TrainerConfig) -> float:
    return 160.0 * Random(config.seed).uniform(0.5, 1.5)


class Watched(SimulatedExecutor):
    """Notes what `check_books` wants to know."""

    def __init__(self, cluster: SimulatedCluster, **options: Any) -> None:
        self.course = Course(seconds_of, smooth_curve, teaches_nothing)
        super().__init__(cluster, self.course, **options)
        self.cluster = cluster
        self.submitted: list[str] = []
        self.looks: list[tuple[str, ...]] = []
        self.most_alive = 0

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        self.looks.append(tuple(job.name for job, _ in jobs))
        return super().look(jobs)

    def _enter(self, jobs: Sequence[JobDir]) -> None:
        super()._enter(jobs)
        self.submitted += [job.name for job in jobs]
        self.most_alive = max(self.most_alive, len(self.cluster.live))


@dataclass
class Chaos:
    """Kills the driver and takes the database away, at random moments.

    Attributes:
        share: of the moments at which something dies.
        kills: how many did, by what died.
    """

    random: Random
    share: float
    kills: Counter[str] = field(default_factory=Counter)

    def strike(self, *victims: str) -> None:
        """Perhaps let one of them die here."""
        if self.random.random() >= self.share:
            return
        victim = self.random.choice(victims)
        self.kills[victim] += 1
        raise Killed if victim == "driver" else StorageUnavailableError("the database is away")

    @contextmanager
    def at_large(self, executor: Watched) -> Iterator[None]:
        """Strike before and after everything that is written or submitted."""
        append, persist, submit = EventLog.append, MirroredStorage._persist, executor.submit

        def written(
            log: EventLog, study_id: int, events: Sequence[Event], *, lease: Lease | None = None
        ) -> list[Event]:
            self.strike("driver", "database")
            result = append(log, study_id, events, lease=lease)
            self.strike("driver", "database")
            return result

        def persisted(storage: MirroredStorage, operation: Callable[[], Any]) -> Any:
            self.strike("driver", "database")
            result = persist(storage, operation)
            self.strike("driver", "database")
            return result

        def submitted(jobs: Sequence[JobDir]) -> Mapping[str, str]:
            self.strike("driver")
            result = submit(jobs)
            self.strike("driver")
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EventLog, "append", written)
            patch.setattr(MirroredStorage, "_persist", persisted)
            patch.setattr(executor, "submit", submitted)
            yield


def drive(study: Study, executor: Watched, pause: Callable[[], float]) -> StudyState:
    """Drive the study to its end; ``pause`` says after how long a dead driver is followed."""
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(MAX_LIVES):
            try:
                with opened(study, executor, executor.cluster.clock) as driver:
                    for _ in range(MAX_TICKS):
                        driver.tick()
                        if not driver.is_busy:
                            return driver.state
                        executor.cluster.advance(POLL_SECONDS)
            except (Killed, StorageUnavailableError):
                executor.cluster.advance(pause())
                patch.setattr(Database, "migrate", lambda self: None)
                patch.setattr(
                    _VersionManager, "check_table_schema_compatibility", lambda self: None
                )
    raise AssertionError(f"no end after {MAX_LIVES} drivers")


def died_on_the_cluster(study: Study) -> Counter[str]:
    """Return how many jobs ended without a result or early, by the reason."""
    ended = [event[3] for event in stored_events(study, "attempt_ended")]
    return Counter(
        data["kind"] or data["status"]
        for data in ended
        if data["status"] in ("lost", "interrupted") and data["message"] != "never began"
    )


@pytest.mark.slow
def test_two_hundred_random_kills(tmp_path: Path) -> None:
    kills: Counter[str] = Counter()
    num_refills = 0
    for seed in range(NUM_STUDIES):
        study = new_study(
            tmp_path / str(seed),
            budget={"trials": 16},
            seed=seed,
            executor={"name": "local", "jobs": 4, "members_per_job": 1 + seed % 2},
            space=SPACE | {"steps": {"type": "int", "low": 8, "high": 24, "step": 4}},
            max_failures=0,
        )
        cluster = SimulatedCluster(3, 2, seed=seed, faults=MACHINES)
        pilot = 0.0 if seed % 3 == 0 else 30.0
        executor = Watched(cluster, seed=seed, faults=CALLS, max_batch=3, pilot_seconds=pilot)
        chaos = Chaos(Random(f"{seed}/chaos"), share=0.02)
        with chaos.at_large(executor):
            state = drive(study, executor, lambda: chaos.random.uniform(0.0, 60.0))  # noqa: B023
        assert state.status == "finished", (seed, state)
        assert state.counts()["finished"] == 16
        check_books(study, executor)  # none lost, none told twice
        assert max(executor.course.repeated) <= TRAINER["checkpoint.interval"]
        kills += chaos.kills + died_on_the_cluster(study)
        num_refills += len(refills(study))
    print(dict(kills), num_refills)
    assert num_refills > 5
    assert sum(kills.values()) >= NUM_KILLS
    assert {
        "driver",
        "database",
        "node_fail",
        "preempted",
        "lost",
        "oom_host",
        "silent",
    } <= kills.keys()


@pytest.mark.parametrize("sampler", tried(["random", "tpe"], slow=["tpe"]))
def test_a_death_at_every_event_of_batches(tmp_path: Path, sampler: str) -> None:
    def study_in(folder: str) -> tuple[Study, Watched]:
        study = new_study(
            tmp_path / folder,
            budget={"trials": 8},
            sampler={"name": sampler},
            executor={"name": "local", "jobs": 4, "members_per_job": 1},
        )
        cluster = SimulatedCluster(num_nodes=2, gpus_per_node=2)
        return study, Watched(cluster, max_batch=3, patience=0.0)

    study, executor = study_in("whole")
    drive(study, executor, lambda: 0.0)
    check_books(study, executor)
    killed, executor = study_in("killed")
    with deaths_at_all_events() as died:
        drive(killed, executor, lambda: 0.0)
    check_books(killed, executor)
    assert schedule(killed) == schedule(study)
    assert set(died) == {event[0] for event in stored_events(study)}
