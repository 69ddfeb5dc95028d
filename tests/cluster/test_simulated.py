"""The simulated cluster: time, queue, every fault of machines and of calls; all by the seed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fakes import smooth_curve
from virtual_cluster import CallFaults, Faults, SimulatedCluster, SimulatedExecutor, Task
from virtual_job import Course, teaches_nothing

from hpsearch import yaml_file
from hpsearch.cluster.executor import SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.records import Assignment, Control, Fresh, JobPlan, Lineage
from hpsearch.cluster.study_dir import JobDir, StudyDir

OFTEN = 3600.0
"""once a second"""


@dataclass
class Diary:
    """Work of so many seconds, which notes what happens to it and when."""

    seconds: float = 100.0
    notes: list[tuple[str, float]] = field(default_factory=list)

    def begin(self, now: float) -> float | None:
        self.notes.append(("begin", now))
        return self.seconds

    def go_on(self, now: float) -> float | None:
        self.notes.append(("done", now))
        return None

    def leave(self, now: float) -> None:
        self.notes.append(("leave", now))

    def vanish(self, now: float) -> None:
        self.notes.append(("vanish", now))

    def words(self) -> list[str]:
        return [word for word, _ in self.notes]


def run(
    faults: Faults | None = None, *, jobs: int = 1, gpus: int = 1, until: float = 1e4, seed: int = 0
) -> tuple[SimulatedCluster, list[Task], list[Diary]]:
    """Let some jobs run on one node of two GPUs."""
    cluster = SimulatedCluster(1, 2, seed=seed, faults=faults, now=0.0)
    works = [Diary() for _ in range(jobs)]
    ids = cluster.submit([str(index) for index in range(jobs)], works, gpus)
    cluster.advance(until)
    return cluster, [cluster.tasks[identifier] for identifier in ids], works


def test_jobs_wait_for_room_and_come_in_order() -> None:
    cluster, tasks, works = run(jobs=5)
    assert [task.state for task in tasks] == ["COMPLETED"] * 5
    assert [work.notes for work in works] == [
        [("begin", at), ("done", at + 100.0)] for at in (0.0, 0.0, 100.0, 100.0, 200.0)
    ]
    assert max(busy for _, busy in cluster.busy) == 2
    assert (cluster.busy[-1], cluster.now) == ((300.0, 0), 1e4)


def test_a_large_job_waits_for_a_whole_node() -> None:
    _, _, works = run(jobs=2, gpus=2)
    assert [work.notes[0] for work in works] == [("begin", 0.0), ("begin", 100.0)]


def test_time_passes_in_advance_alone() -> None:
    cluster, (task,), _ = run(until=0.0)
    assert (cluster.clock(), task.state) == (0.0, "RUNNING")
    cluster.advance(99.0)
    assert task.state == "RUNNING"
    cluster.advance(1.0)
    assert task.state == "COMPLETED"


def test_a_job_may_wait_although_there_is_room() -> None:
    _, _, (work,) = run(Faults(queue_seconds=50.0))
    assert work.notes[0][1] > 0


@pytest.mark.parametrize(
    ("faults", "state", "words"),
    [
        (Faults(walltime=30.0), "TIMEOUT", ["begin", "vanish"]),
        (Faults(preemptions=OFTEN, warned=1.0), "PREEMPTED", ["begin", "leave"]),
        (Faults(preemptions=OFTEN, warned=0.0), "PREEMPTED", ["begin", "vanish"]),
        (Faults(crashes=OFTEN), "FAILED", ["begin", "vanish"]),
        (Faults(out_of_memory=OFTEN), "OUT_OF_MEMORY", ["begin", "vanish"]),
        (Faults(node_failures=OFTEN), "NODE_FAIL", ["begin", "vanish"]),
        (Faults(node_failures=OFTEN, zombies=1.0), "NODE_FAIL", ["begin", "done"]),
    ],
)
def test_what_may_end_a_job(faults: Faults, state: str, words: list[str]) -> None:
    cluster, (task,), (work,) = run(faults)
    assert (task.state, work.words()) == (state, words)
    assert cluster.busy[-1][1] == 0
    assert not cluster.live


def test_a_node_that_failed_comes_back() -> None:
    faults = Faults(node_failures=36.0, repair_seconds=50.0)
    _, tasks, works = run(faults, jobs=40, until=1e5)
    states = [task.state for task in tasks]
    assert {*states} == {"COMPLETED", "NODE_FAIL"}
    failed = {work.notes[-1][1] for work in works if work.words()[-1] == "vanish"}
    begun = [work.notes[0][1] for work in works]
    assert not any(at <= moment < at + 50.0 for at in failed for moment in begun if moment > at)


def test_the_seed_decides() -> None:
    faults = Faults(queue_seconds=20.0, preemptions=20.0, crashes=20.0, node_failures=10.0)
    first, again, other = (run(faults, jobs=30, seed=seed)[2] for seed in (1, 1, 2))
    assert first == again
    assert first != other


# The calls of the scheduler.


@pytest.fixture
def jobs(tmp_path: Path, plain_config: Callable[..., dict[str, Any]]) -> list[JobDir]:
    """Three jobs of a trial each, as a driver leaves them."""
    study, prepared = StudyDir(tmp_path), []
    for number in range(3):
        trial = study.trial(number)
        trial.create(yaml_file.dump(plain_config({"seed": number})), Lineage(Fresh(), 0))
        trial.control.write(Control(f"token-{number}", None))
        job = study.job(f"{number + 1:05d}")
        assignment = Assignment(number, 1, f"token-{number}")
        job.plan.write(JobPlan((assignment,), 1, pilot_seconds=0.0, refills=False))
        prepared.append(job)
    return prepared


def executor(
    faults: CallFaults | None = None, seed: int = 0, course: Course | None = None
) -> tuple[SimulatedExecutor, SimulatedCluster]:
    cluster = SimulatedCluster(1, 2)
    course = course or new_course()
    return SimulatedExecutor(cluster, course, faults=faults, seed=seed), cluster


def new_course() -> Course:
    return Course(lambda config: 100.0, smooth_curve, teaches_nothing)


def asked(jobs: list[JobDir]) -> list[tuple[JobDir, str | None]]:
    return [(job, None) for job in jobs]


def phases(executor: SimulatedExecutor, jobs: list[JobDir]) -> list[str]:
    return [status.phase for status in executor.look(asked(jobs)).values()]


def test_one_call_for_all_jobs(jobs: list[JobDir]) -> None:
    calm, cluster = executor()
    assert sorted(calm.submit(jobs)) == ["00001", "00002", "00003"]
    assert phases(calm, jobs) == ["running", "running", "queued"]
    cluster.advance(101.0)
    assert phases(calm, jobs) == ["ended", "ended", "running"]
    assert calm.num_calls == 3


def test_a_refused_submission_has_no_effect(jobs: list[JobDir]) -> None:
    refusing, cluster = executor(CallFaults(refused=1.0))
    with pytest.raises(SubmissionRefusedError):
        refusing.submit(jobs)
    assert not cluster.tasks


def test_a_submission_without_an_answer_may_have_arrived(jobs: list[JobDir]) -> None:
    num_arrived = []
    for seed in range(10):
        silent, cluster = executor(CallFaults(lost=1.0, late_seconds=60.0), seed)
        with pytest.raises(SchedulerSilentError):
            silent.submit(jobs[:1])
        assert not cluster.tasks
        cluster.advance(60.0)
        num_arrived.append(len(cluster.tasks))
        with pytest.raises(SchedulerSilentError):
            silent.look(asked(jobs))
    assert {*num_arrived} == {0, 1}


def test_a_slow_answer_takes_its_time(jobs: list[JobDir]) -> None:
    slow, cluster = executor(CallFaults(slow=1.0, slow_seconds=20.0))
    before = cluster.now
    slow.submit(jobs)
    assert before < cluster.now <= before + 20.0


def test_a_stale_answer_lacks_what_was_submitted_since(jobs: list[JobDir]) -> None:
    stale, cluster = executor(CallFaults(stale=1.0))
    stale.submit(jobs[:1])
    assert phases(stale, jobs) == []
    cluster.advance(101.0)
    assert phases(stale, jobs) == ["running"]
    assert phases(stale, jobs) == ["ended"]


def test_of_a_job_that_is_told_twice_the_later_state_counts(jobs: list[JobDir]) -> None:
    twice, cluster = executor(CallFaults(repeated=1.0))
    twice.submit(jobs[:1])
    assert phases(twice, jobs) == ["running"]
    cluster.advance(101.0)
    assert phases(twice, jobs) == ["ended"]


def test_a_job_without_a_driver_is_cancelled(jobs: list[JobDir]) -> None:
    calm, cluster = executor()
    calm.submit(jobs)
    calm.look(asked(jobs[:1]))
    calm.cancel_strays()
    assert [task.name for task in cluster.live.values()] == ["00001"]


def test_an_interrupted_job_saves_where_it_is(jobs: list[JobDir]) -> None:
    calm, cluster = executor()
    ids = calm.submit(jobs)
    cluster.advance(10.0)
    calm.interrupt([(job, ids[job.name]) for job in jobs])
    trial = jobs[0].study.trial(0)
    result = trial.attempt(1).read_result()
    assert result is not None
    assert (result.status, result.step) == ("interrupted", 1)  # a tenth of twelve steps
    assert (trial.checkpoints / "step-1").is_dir()
    assert jobs[0].study.trial(2).attempt(1).read_result() is None  # it waited still
    assert phases(calm, jobs) == ["ended"] * 3


def test_heartbeats_bear_the_time_of_the_cluster(jobs: list[JobDir]) -> None:
    calm, cluster = executor()
    calm.submit(jobs)
    cluster.advance(40.0)
    silence = jobs[0].heartbeat.age(cluster.now)
    assert silence is not None
    assert 0 <= silence < 40.0


def test_how_many_trials_train_is_known_at_any_time(jobs: list[JobDir]) -> None:
    """Of three jobs the second is cancelled, whose place the third takes."""
    course = new_course()
    calm, cluster = executor(course=course)
    begin, ids = cluster.now, calm.submit(jobs)
    cluster.advance(50.0)
    calm.cancel([(jobs[1], ids[jobs[1].name])])
    cluster.advance(200.0)
    changes = [(round(at - begin), number) for at, number in course.training]
    assert changes == [(0, 1), (0, 2), (50, 1), (50, 2), (100, 1), (150, 0)]
