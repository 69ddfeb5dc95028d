"""One suite for every executor: those without processes against the real one.

The cases share two jobs, because a real one takes seconds to start.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeExecutor, smooth_curve
from gpu_tools import new_probe, new_share
from virtual_cluster import SimulatedCluster, SimulatedExecutor
from virtual_job import Course, teaches_nothing

from hpsearch import yaml_file
from hpsearch.cluster.executor import Executor, JobStatus, SubmissionRefusedError
from hpsearch.cluster.local import LocalExecutor
from hpsearch.cluster.machine import NO_GPUS, GpuShare
from hpsearch.cluster.records import Assignment, AttemptResult, Control, Fresh, JobPlan, Lineage
from hpsearch.cluster.study_dir import JobDir, StudyDir

PATIENCE_SECONDS = 240
METRICS = {"rho/host/choose_first", "rho_sampled/host/choose_first"}
WHOLE, PRUNED, FENCED, BROKEN = range(4)
"""trials of the first job"""
LONG = {"steps": 1000, "evaluation.interval": 50, "checkpoint.interval": 500}
"""a second or two: long enough to be interrupted on its way"""

PlainConfig = Callable[..., dict[str, Any]]


class Passing(SimulatedExecutor):
    """Lets ten seconds pass at each look; a step takes one."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster(num_nodes=1, gpus_per_node=2)
        super().__init__(
            self.cluster, Course(lambda config: float(config.steps), smooth_curve, teaches_nothing)
        )

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        self.cluster.advance(10.0)
        return super().look(jobs)


@pytest.fixture(
    scope="module", params=["fake", "simulated", pytest.param("local", marks=pytest.mark.slow)]
)
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param != "local":
        yield FakeExecutor() if request.param == "fake" else Passing()
        return
    executor = LocalExecutor(num_threads=1)
    yield executor
    forget_children(executor)


def forget_children(executor: LocalExecutor) -> None:
    """A process that is just ending has lost its command line, by which a job is told to live."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while executor._children and time.monotonic() < deadline:
        executor.look([])
        time.sleep(0.02)


def write_job(
    study: StudyDir, name: str, attempt: int, configs: dict[int, dict[str, Any]]
) -> JobDir:
    """Write what the driver writes before it submits."""
    for number, config in configs.items():
        trial = study.trial(number)
        trial.create(yaml_file.dump(config), Lineage(Fresh(), 0))
        trial.control.write(Control(f"token-{number}-{attempt}", None))
    job = study.job(name)
    assignments = tuple(Assignment(n, attempt, f"token-{n}-{attempt}") for n in configs)
    job.plan.write(JobPlan(assignments, num_threads=1, pilot_seconds=0.0, refills=False))
    return job


def wait_until(executor: Executor, job: JobDir, job_id: str, condition: Callable[[], Any]) -> None:
    """Look again and again; all but the real one need the looks to go on."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        executor.look([(job, job_id)])
        time.sleep(0.02 if isinstance(executor, LocalExecutor) else 0)


def phase(executor: Executor, job: JobDir, job_id: str | None) -> str | None:
    status = executor.look([(job, job_id)]).get(job.name)
    return None if status is None else status.phase


def found_id(executor: Executor, job: JobDir) -> str | None:
    """Return the id of a job of which it is unknown whether it was submitted."""
    status = executor.look([(job, None)]).get(job.name)
    return None if status is None else status.id


def wait_for_phase(executor: Executor, job: JobDir, job_id: str, expected: str) -> None:
    wait_until(executor, job, job_id, lambda: phase(executor, job, job_id) == expected)


def wait_for_end(executor: Executor, job: JobDir, job_id: str) -> None:
    wait_for_phase(executor, job, job_id, "ended")


@dataclass(frozen=True)
class Ended:
    """A job that has run to its end."""

    job: JobDir
    job_id: str
    found_before: str | None
    found_after: str | None
    lived: bool

    def result(self, number: int) -> AttemptResult | None:
        return self.job.study.trial(number).attempt(1).read_result()

    def steps(self, number: int) -> list[int]:
        return [row["step"] for row in self.job.study.trial(number).read_metrics()]


@pytest.fixture(scope="module")
def ended(
    executor: Executor, tmp_path_factory: pytest.TempPathFactory, plain_config: PlainConfig
) -> Ended:
    """One job with a trial that finishes, one stopped, one fenced and one that is broken."""
    study = StudyDir(tmp_path_factory.mktemp("ended"))
    opponents = {"evaluation.opponents": ["choose_first"]}
    configs = {number: plain_config({"seed": number, **opponents}) for number in range(4)}
    configs[PRUNED]["steps"] = configs[FENCED]["steps"] = 10**9  # end in no other way
    del configs[BROKEN]["host"]["gamma"]
    job = write_job(study, "00001", 1, configs)
    before = found_id(executor, job)
    job_id = executor.submit([job])[job.name]
    after, lived = found_id(executor, job), phase(executor, job, job_id) in ("queued", "running")
    wait_until(executor, job, job_id, lambda: list(study.trial(PRUNED).read_metrics()))
    study.trial(PRUNED).control.write(Control(f"token-{PRUNED}-1", "pruned"))
    study.trial(FENCED).control.write(Control("token-of-a-later-attempt", None))
    wait_for_end(executor, job, job_id)
    return Ended(job, job_id, before, after, lived)


def test_a_job_is_found_once_it_was_submitted(executor: Executor, ended: Ended) -> None:
    assert ended.found_before is None
    assert ended.found_after == ended.job_id
    assert found_id(executor, ended.job) == ended.job_id  # also when it has ended
    assert found_id(executor, ended.job.study.job("00002")) is None


def test_a_job_lives_until_it_ends(executor: Executor, ended: Ended) -> None:
    assert ended.lived
    assert phase(executor, ended.job, ended.job_id) == "ended"
    assert executor.look([]) == {}
    executor.interrupt([(ended.job, ended.job_id)])  # a job that has left is left alone
    executor.cancel([(ended.job, ended.job_id)])
    executor.interrupt([])
    executor.cancel([])


def test_a_finished_trial(ended: Ended) -> None:
    result = ended.result(WHOLE)
    assert result is not None
    assert (result.token, result.status, result.step) == (f"token-{WHOLE}-1", "finished", 12)
    assert (result.kind, result.message) == (None, "")
    assert set(result.metrics) == METRICS
    for measure in result.metrics.values():
        assert set(measure) == {"value", "low", "high", "capped", "games"}
        assert measure["low"] <= measure["value"] <= measure["high"]
    trial = ended.job.study.trial(WHOLE)
    rows = list(trial.read_metrics())
    assert [row["step"] for row in rows] == [4, 8, 12]
    for row in rows:
        assert set(row) == {"step", "attempt", "at", "metrics", "entropies"}
        assert row["attempt"] == 1
        assert set(row["metrics"]) == METRICS
    assert ended.job.heartbeat.try_read() is not None


def test_a_trial_that_the_driver_stopped(ended: Ended) -> None:
    result = ended.result(PRUNED)
    assert result is not None
    assert (result.status, result.kind, result.metrics) == ("pruned", None, {})
    # It saw the order before it could measure once more.
    assert result.step >= 4
    assert (
        ended.steps(PRUNED)
        == list(range(4, result.step + (result.step % 4 != 0), 4))[: len(ended.steps(PRUNED))]
    )


def test_a_fenced_attempt_says_nothing(ended: Ended) -> None:
    assert ended.result(FENCED) is None


def test_a_trial_that_cannot_be_read_fails_alone(ended: Ended) -> None:
    result = ended.result(BROKEN)
    assert result is not None
    assert (result.status, result.kind, result.step) == ("failed", "code", 0)
    assert "host.gamma" in result.message
    assert ended.steps(BROKEN) == []


def test_an_interrupted_trial_goes_on_where_it_was(
    executor: Executor, tmp_path: Path, plain_config: PlainConfig
) -> None:
    configs = dict.fromkeys((0, 1), plain_config(LONG))
    job = write_job(StudyDir(tmp_path), "00001", 1, configs)
    trials = [job.study.trial(number) for number in configs]
    job_id = executor.submit([job])[job.name]
    wait_until(executor, job, job_id, lambda: list(trials[1].read_metrics()))
    executor.interrupt([(job, job_id)])
    wait_for_end(executor, job, job_id)
    results = [trial.attempt(1).read_result() for trial in trials]
    step = results[0].step if results[0] else 0
    assert 50 <= step < 1000
    assert [
        result and (result.status, result.step, result.kind, result.metrics) for result in results
    ] == [("interrupted", step, None, {})] * 2
    again = write_job(job.study, "00002", 2, configs)
    again_id = executor.submit([again])[again.name]
    assert again_id != job_id
    wait_for_end(executor, again, again_id)
    for trial in trials:
        result = trial.attempt(2).read_result()
        assert result is not None
        assert (result.status, result.step) == ("finished", 1000)
        rows = [(row["step"], row["attempt"]) for row in trial.read_metrics()]
        # The second attempt measures what the first did not, and nothing twice.
        assert rows == [(at, 1 if at <= step else 2) for at in range(50, 1001, 50)]


def test_a_cancelled_job_ends_without_a_word(
    executor: Executor, tmp_path: Path, plain_config: PlainConfig
) -> None:
    job = write_job(StudyDir(tmp_path), "00001", 1, {0: plain_config(LONG | {"steps": 10**9})})
    job_id = executor.submit([job])[job.name]
    trial = job.study.trial(0)
    wait_until(executor, job, job_id, lambda: list(trial.read_metrics()))
    executor.cancel([(job, job_id)])
    wait_for_end(executor, job, job_id)
    assert trial.attempt(1).read_result() is None
    assert job.study.heartbeat(0, 1) is not None


# GPUs. What jobs on SLURM see is in tests/slurm.


@pytest.mark.slow
def test_a_local_job_sees_the_gpus_that_it_was_given(tmp_path: Path) -> None:
    executors = [LocalExecutor(num_threads=1, gpus=gpus) for gpus in (NO_GPUS, new_share(3, 2))]
    assert [executor.gpus_per_job for executor in executors] == [0, 2]
    jobs = [new_probe(StudyDir(tmp_path), name) for name in ("00001", "00002")]
    pairs = list(zip(executors, jobs, strict=True))
    ids = [executor.submit([job])[job.name] for executor, job in pairs]
    for (executor, job), job_id in zip(pairs, ids, strict=True):
        wait_for_end(executor, job, job_id)
        forget_children(executor)
    reports = [job.report.read() for job in jobs]
    assert [report and report.visible for report in reports] == ["", "0,1"]
    assert [report and report.fault for report in reports] == [None, None]


def test_a_job_that_no_gpu_is_there_for_is_refused(tmp_path: Path) -> None:
    executor = LocalExecutor(num_threads=1, gpus=GpuShare((), 1))
    with pytest.raises(SubmissionRefusedError, match="each job is to have 1 GPU, but there is"):
        executor.submit([new_probe(StudyDir(tmp_path), "00001")])


@pytest.mark.parametrize("kind", ["simulated", "local"])
def test_no_more_jobs_run_than_there_are_gpus_for(
    kind: str, tmp_path: Path, plain_config: PlainConfig
) -> None:
    """Also between studies and after a driver has died: the jobs alone know what is taken."""
    gpus, endless, cluster = new_share(2), plain_config(LONG | {"steps": 10**9}), Passing()
    of_local = (LocalExecutor(num_threads=1, gpus=gpus) for _ in range(3))
    drivers = list(of_local) if kind == "local" else [cluster] * 3
    places = (("one", "00001"), ("other", "00002"), ("one", "00003"))
    jobs = [
        write_job(StudyDir(tmp_path / study), name, 1, {number: endless})
        for number, (study, name) in enumerate(places)
    ]
    asked = []
    for driver, job, expected in zip(drivers, jobs, ("running", "running", "queued"), strict=True):
        asked.append((driver, job, driver.submit([job])[job.name]))
        wait_for_phase(*asked[-1], expected)
    time.sleep(0.3 if kind == "local" else 0)  # for a third job that would not wait
    try:
        assert phase(*asked[2]) == "queued"
        drivers[2].cancel([asked[0][1:]])
        wait_for_end(*asked[0])
        wait_for_phase(*asked[2], "running")
        if kind == "local":
            assert [shown_gpus(*asked_gpus) for asked_gpus in asked] == ["0", "1", "0"]
    finally:
        for driver, job, job_id in asked:
            driver.cancel([(job, job_id)])
            wait_for_end(driver, job, job_id)
            if isinstance(driver, LocalExecutor):
                forget_children(driver)


def shown_gpus(executor: Executor, job: JobDir, job_id: str) -> str:
    """Return the GPUs that a job says in its log that it trains on."""
    lines = executor.log(job, job_id).read_text().splitlines()
    [shown] = [line for line in lines if line.startswith("CUDA_VISIBLE_DEVICES=")]
    return shown.partition("=")[2]
