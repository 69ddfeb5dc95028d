"""One suite for every executor: those without processes against the real one.

Other packages' executors are held to the same promises, in hpsearch/testing.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from by_psij import keep_promises
from fakes import FakeExecutor, smooth_curve
from gpu_tools import new_probe, new_share
from virtual_cluster import SimulatedCluster, SimulatedExecutor
from virtual_job import Course, teaches_nothing

from hpsearch.cluster.executor import Executor, JobStatus, SubmissionRefusedError
from hpsearch.cluster.local import LocalExecutor
from hpsearch.cluster.machine import NO_GPUS, GpuShare
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.testing.executors import (
    ENDLESS,
    LONG,
    PATIENCE_SECONDS,
    PROMISES,
    phase,
    wait_for_end,
    wait_for_phase,
    write_job,
)

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


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
def test_a_promise(
    executor: Executor, promise: Any, tmp_path: Path, plain_config: PlainConfig
) -> None:
    promise(executor, tmp_path, plain_config({"evaluation.opponents": ["choose_first"]}))


def test_a_pilot_that_can_read_none_of_its_trials_ends(
    executor: Executor, tmp_path: Path, plain_config: PlainConfig
) -> None:
    config = {key: value for key, value in plain_config({}).items() if key != "host"}
    job = write_job(StudyDir(tmp_path), "00001", 1, {0: config})
    job.plan.write(replace(job.plan.required(), pilot_seconds=1e6))
    wait_for_end(executor, job, executor.submit([job])[job.name])
    result = job.study.trial(0).attempt(1).read_result()
    assert result is not None
    assert (result.status, result.kind) == ("failed", "code")


@pytest.mark.slow
def test_the_promises_by_psij(tmp_path: Path, plain_config: PlainConfig) -> None:
    keep_promises("local", tmp_path, plain_config({"evaluation.opponents": ["choose_first"]}))


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
    gpus, endless, cluster = new_share(2), plain_config({**LONG, "steps": ENDLESS}), Passing()
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
