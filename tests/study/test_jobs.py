"""Submissions in batches, that are refused, or of which nothing is known."""

import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from drives import Clock, check_books, drive, new_study, opened, stored_events
from fakes import FakeExecutor, Fault

from hpsearch.cluster.executor import JobStatus, SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.study.spec import Study

MANY = {"name": "local", "jobs": 8, "members_per_job": 1}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return new_study(tmp_path, budget={"trials": 12}, executor=MANY)


class Counting(FakeExecutor):
    """Notes the size of each submission."""

    def __init__(self, max_batch: int, **options: float) -> None:
        super().__init__(max_batch=max_batch, **options)
        self.sizes: list[int] = []

    def submit(self, jobs: Sequence[JobDir]) -> dict[str, str]:
        self.sizes.append(len(jobs))
        numbers = [int(job.name) for job in jobs]
        assert numbers == list(range(numbers[0], numbers[0] + len(jobs)))
        return super().submit(jobs)


def test_jobs_are_submitted_together_as_far_as_the_executor_takes_them(study: Study) -> None:
    executor = Counting(max_batch=5)
    drive(study, executor)
    check_books(study, executor)
    assert executor.sizes[:2] == [5, 3]
    assert max(executor.sizes) == 5


class Unwilling(FakeExecutor):
    """Refuses the first submissions, or takes them and does not say so, or neither."""

    patience = 60.0

    def __init__(self, how: str, times: int) -> None:
        super().__init__(max_batch=100)
        self._how = how
        self._times = times

    def submit(self, jobs: Sequence[JobDir]) -> dict[str, str]:
        self._times -= 1
        if self._times < 0:
            return super().submit(jobs)
        if self._how == "refuse":
            raise SubmissionRefusedError("too many jobs of this user")
        if self._how == "take":
            super().submit(jobs)
        raise SchedulerSilentError

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        return super().look(jobs)


@pytest.mark.parametrize("how", ["refuse", "take", "lose"])
def test_a_submission_that_failed_is_not_made_twice_and_not_forgotten(
    study: Study, how: str
) -> None:
    executor, clock = Unwilling(how, times=3), Clock()
    with opened(study, executor, clock) as driver:
        driver.tick()
        unknown = "it is not known whether the jobs were taken ()"
        assert driver.refusal == ("too many jobs of this user" if how == "refuse" else unknown)
        for _ in range(200):
            clock.now += 5
            driver.tick()
    assert (driver.state.status, driver.refusal) == ("finished", None)
    check_books(study, executor)
    assert max(Counter(executor.submitted).values()) == 1
    assert all(trial.attempts == 1 for trial in driver.state.trials.values() if how == "take")
    assert all(trial.lost == 0 for trial in driver.state.trials.values())


def test_after_a_refusal_it_waits_longer_each_time(study: Study) -> None:
    executor, clock = Unwilling("refuse", times=6), Clock()
    with opened(study, executor, clock) as driver:
        began = clock.now
        while not executor.submitted:
            driver.tick()
            clock.now += 1
    assert clock.now - began == pytest.approx(10 + 20 + 40 + 80 + 160 + 300, abs=5)


def test_after_a_refusal_another_way_is_tried_without_a_pause(study: Study) -> None:
    class OfTwo(FakeExecutor):
        times: ClassVar[list[float]] = []

        def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
            self.times.append(clock.now)
            if len(self.times) < 5:
                error = SubmissionRefusedError("full")
                error.has_alternative = len(self.times) % 2 == 1
                raise error
            return super().submit(jobs)

    executor, clock = OfTwo(), Clock()
    with opened(study, executor, clock) as driver:
        while len(executor.times) < 5:
            driver.tick()
            clock.now += 1
    waits = [after - before for before, after in pairwise(executor.times)]
    assert waits[:4] == pytest.approx([0, 10, 0, 20], abs=2)


def test_what_a_job_occupied_is_known(study: Study) -> None:
    executor, clock = Counting(max_batch=8, gpus_per_job=2.0), Clock()
    with opened(study, executor, clock) as driver:
        while driver.is_busy:
            driver.tick()
            clock.now += 100
        jobs = driver.state.jobs.values()
    assert {job.gpus for job in jobs} == {2.0}
    for job in jobs:
        # Seen to run at the first look after it was submitted: a round of four steps each tick.
        assert job.seconds(clock.now) == pytest.approx(400, abs=100)


def test_a_job_that_began_with_fewer_gpus_counts_those_alone(study: Study) -> None:
    class Short(FakeExecutor):
        def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
            seen = super().look(jobs)
            return {
                name: replace(status, share=0.5 if name == "00001" else 1.0)
                for name, status in seen.items()
            }

    state = drive(study, Short(gpus_per_job=4.0, faults={(0, 1): Fault("vanish", 8)}))
    expected = {name: 2.0 if name == "00001" else 4.0 for name in state.jobs}
    assert {name: job.gpus for name, job in state.jobs.items()} == expected
    assert state.trials[0].losses[0].gpus == 2.0 / state.jobs["00001"].slots
    seconds = sum(job.gpus * job.seconds(0.0) for job in state.jobs.values())
    assert state.gpu_seconds(0.0) == pytest.approx(seconds)


def test_the_last_words_of_a_job_that_failed_are_kept(study: Study) -> None:
    class Talking(FakeExecutor):
        def log(self, job: JobDir, job_id: str) -> Path:
            path = job.root / "fake.log"
            note = "submitit INFO (2026-01-01 12:00:00,000) - Job completed successfully\n"
            lines = "".join(f"line {number}\n" for number in range(9)) + note + "x" * 1000
            path.write_text(f"{lines}\n{note * 8}")
            return path

    executor = Talking(faults={(2, 1): Fault("vanish", 8), (3, 1): Fault("nan", 8)})
    state = drive(study, executor)
    losses = [state.trials[number].losses for number in (2, 3)]
    assert [[loss.kind for loss in of_trial] for of_trial in losses] == [["lost"], ["nan"]]
    words = (*(f"line {number}" for number in range(5, 9)), "x" * 300)
    assert {loss.log for of_trial in losses for loss in of_trial} == {words}
    ended = stored_events(study, "attempt_ended")
    assert sum(bool(event[3]["log"]) for event in ended) == 2


def test_gauges_of_a_job_that_was_killed_are_removed(study: Study) -> None:
    executor = FakeExecutor(faults={(0, 1): Fault("vanish", 8)})
    with opened(study, executor) as driver:
        driver.tick()
        name = driver.state.trials[0].job
        assert name is not None
        textfile = StudyDir(study.path.parent / "runs" / study.spec.name).job(name).textfile
        textfile.write_text("hpsearch_job_steps_per_second 3.0")
        while not driver.state.jobs[name].ended:
            assert textfile.exists()
            driver.tick()
    assert not textfile.exists()


def test_seconds_that_were_lost_with_an_attempt(tmp_path: Path) -> None:
    study = new_study(
        tmp_path,
        {"steps": 16, "evaluation.interval": 2, "checkpoint.interval": 8},
        budget={"trials": 2},
        executor={"name": "local", "jobs": 1, "members_per_job": 1},
    )
    executor = FakeExecutor(faults={(0, 1): Fault("vanish", 14), (1, 1): Fault("nan", 14)})
    state = drive(study, executor)
    # One step a second: six since the checkpoint; all fourteen of the trial that failed.
    assert [state.trials[number].losses[0].seconds for number in (0, 1)] == [6.0, 14.0]


class Damaging(FakeExecutor):
    """Removes the newest checkpoint of a trial before its next attempt begins."""

    def submit(self, jobs: Sequence[JobDir]) -> dict[str, str]:
        for job in jobs:
            for assignment in job.plan.required().assignments:
                saved = sorted(job.study.trial(assignment.trial).checkpoints.glob("step-*"))
                if saved:
                    shutil.rmtree(saved[-1])
        return super().submit(jobs)


def test_what_a_damaged_checkpoint_costs_is_lost_too(tmp_path: Path) -> None:
    """The job said that step 12 was saved; the next attempt found 8 to be the newest whole one."""
    study = new_study(
        tmp_path,
        {"steps": 16, "evaluation.interval": 2, "checkpoint.interval": 4},
        budget={"trials": 1},
        executor={"name": "local", "jobs": 1, "members_per_job": 1},
    )
    state = drive(study, Damaging(faults={(0, 1): Fault("vanish", 14)}))
    (loss,) = state.trials[0].losses
    assert loss.seconds == 6.0  # one step a second; before, two
    starts = [data["repeated_seconds"] for *_, data in stored_events(study, "attempt_ended")]
    assert starts == [0.0, 4.0]


class Narrow(FakeExecutor):
    """Takes no more than four jobs of a user."""

    def submit(self, jobs: Sequence[JobDir]) -> dict[str, str]:
        if len(self.live()) + len(jobs) > 4:
            raise SubmissionRefusedError("too many jobs of this user")
        return super().submit(jobs)


def test_after_a_refusal_fewer_jobs_are_submitted_at_once(study: Study) -> None:
    executor, clock = Narrow(max_batch=100), Clock()
    with opened(study, executor, clock) as driver:
        for _ in range(400):
            driver.tick()
            clock.now += 5
    assert driver.state.status == "finished"
    assert executor.most_alive == 4
    check_books(study, executor)


class Mute(FakeExecutor):
    """Its first job runs for ever without a heartbeat, and cancelling it fails at first."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals
        self.cancelled: list[str] = []

    def advance(self) -> None:
        mute = self._jobs.get("fake-00001")
        if mute is not None and mute.began and mute.lives:
            others = {name: job for name, job in self._jobs.items() if name != "fake-00001"}
            everything, self._jobs = self._jobs, others
            super().advance()
            self._jobs = everything
        else:
            super().advance()

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        self.cancelled += [job.name for job, _ in jobs]
        self.refusals -= 1
        if self.refusals >= 0:
            raise SchedulerSilentError
        super().cancel(jobs)


@pytest.mark.parametrize("refusals", [0, 3])
def test_a_job_that_falls_silent_is_cancelled_until_it_is_gone(
    tmp_path: Path, refusals: int
) -> None:
    """Its trials go on elsewhere, and none of them is taken for one that a user cancelled."""
    study = new_study(
        tmp_path,
        budget={"trials": 2},
        executor={"name": "local", "jobs": 1, "members_per_job": 2},
    )
    executor = Mute(refusals)
    later = Clock()
    later.now = time.time()
    with opened(study, executor, later) as driver:
        while driver.is_busy:
            driver.tick()
            # Files bear the time of this machine, so it must be right for the jobs that follow.
            later.now = later.now + 100 if "00001" in executor.live() else time.time()
    assert driver.state.counts()["finished"] == 2
    assert executor.cancelled[: refusals + 1] == ["00001"] * (refusals + 1)
    kinds = [loss.kind for trial in driver.state.trials.values() for loss in trial.losses]
    assert set(kinds) <= {"silent", "interrupted"}
    check_books(study, executor)


class Forgetful(FakeExecutor):
    """Tells nothing of jobs at the first look after their submission: its answer was stale."""

    patience = 60.0

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        known = {name for names in self.looks for name in names}
        return {name: status for name, status in super().look(jobs).items() if name in known}


def test_a_job_that_a_stale_answer_lacks_is_not_given_up(study: Study) -> None:
    executor = Forgetful(max_batch=100)
    state = drive(study, executor)
    assert state.status == "finished"
    assert [trial.attempts for trial in state.trials.values()] == [1] * 12
    check_books(study, executor)


def test_a_clock_set_back_prolongs_no_rest(study: Study) -> None:
    """Before, nothing was submitted until the clock came to where it had been."""
    executor, clock = Unwilling("refuse", 1), Clock()
    with opened(study, executor, clock) as driver:
        driver.tick()
        assert driver.refusal is not None
        clock.now -= 3600
        driver.tick()
        assert driver.refusal is None
        assert executor.submitted
