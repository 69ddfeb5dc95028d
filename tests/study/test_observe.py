"""What the driver sees of jobs and files, whatever state they are in."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from io import BufferedReader
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import ANY

import pytest
from drives import Killed
from fakes import FakeExecutor
from faulty_files import FaultyFiles, FileFaults

from hpsearch import files
from hpsearch.cluster.executor import Executor, JobStatus, SchedulerSilentError
from hpsearch.cluster.failures import LOST, NODE_FAIL, OOM_HOST, SILENT
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import AttemptResult, Heartbeat, JobHeartbeat, MemberHeartbeat, Start
from hpsearch.cluster.study_dir import AttemptDir, JobDir, StudyDir
from hpsearch.errors import DiskError
from hpsearch.files import write_json
from hpsearch.study import observe as observe_module
from hpsearch.study.observe import (
    BUSY_SECONDS,
    SILENCE_SECONDS,
    CurveReport,
    Observation,
    Observer,
    Silences,
)
from hpsearch.study.records import Job, Trial
from hpsearch.study.state import StudyState

BEAT = (
    '{"at": 1.0, "steps_per_second": 1.0, "host": "h", "pid": 1, "is_busy": false, "members": '
    '[{"trial": 0, "attempt": 1, "token": "token-0", "step": STEP, "saved": 0}]}'
)


class Looking(FakeExecutor):
    """An executor of which some jobs run; ``meanwhile`` happens during the look."""

    def __init__(self, *alive: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._alive = alive
        self._meanwhile = meanwhile
        self.num_looks = 0
        self.failure: str | None = None

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        self.num_looks += 1
        self._meanwhile()
        return {
            job.name: JobStatus("17", "running")
            if job.name in self._alive
            else JobStatus("17", "ended", self.failure)
            for job, _ in jobs
        }


def state_of(*numbers: int, attempt: int = 1) -> StudyState:
    """Return a state in which one job trains these trials."""
    plans = tuple((number, attempt, f"token-{number}") for number in numbers)
    trials = {n: Trial(n, {}, attempts=k, token=t, job="00001") for n, k, t in plans}
    jobs = {"00001": Job("00001", [plans], {n for n, _, _ in plans}, id="17")}
    return StudyState(trials=trials, jobs=jobs, untold=dict(trials), live=dict(jobs))


@pytest.fixture
def folder(tmp_path: Path) -> StudyDir:
    return StudyDir(tmp_path)


def look(
    state: StudyState,
    folder: StudyDir,
    executor: Executor,
    now: float = 0.0,
    silences: Silences | None = None,
) -> Observation:
    """Look for the first time, or in one of several rounds that share ``silences``."""
    observer = Observer(folder, executor, "m", lambda trial, step: step % 2 == 0)
    observer.silences = silences or Silences()
    (seen,) = observer.observe(state, now=now)
    return seen


def look_after_long(
    state: StudyState, folder: StudyDir, executor: Executor, now: float
) -> Observation:
    """Look at last, as a driver does that has listened for a quarter of an hour."""
    silences = Silences()
    for before in range(900, 0, -30):
        look(state, folder, executor, now - before, silences)
    return look(state, folder, executor, now, silences)


def add_row(folder: StudyDir, number: int, step: int, value: float, metric: str = "m") -> None:
    row = {"step": step, "attempt": 1, "at": 0.0, "metrics": {metric: {"value": value}}}
    folder.trial(number).append_metrics(row)


def give_sign(
    folder: StudyDir, number: int, step: int, *, is_busy: bool = False, at: float = 0.0
) -> float:
    """Give a heartbeat of a trial's first attempt; return when, by the file system's clock."""
    member = MemberHeartbeat(number, 1, f"token-{number}", step, 0)
    file = folder.job("00001").heartbeat
    file.replace(JobHeartbeat(at, "here", 1, is_busy, 1.0, (member,)))
    return file.path.stat().st_mtime


def result(number: int, status: str = "finished", token: str | None = None) -> AttemptResult:
    return AttemptResult(token or f"token-{number}", status, 8, None, "", {})


@pytest.mark.parametrize("seed", range(10))
def test_a_result_that_was_seen_survives_a_loss_of_power(tmp_path: Path, seed: int) -> None:
    """Its job died before it could flush the folder. Before, events pointed to files that went."""
    folder = StudyDir(tmp_path / "runs")
    folder.root.mkdir()
    files = FaultyFiles(folder.root, FileFaults(), Random(seed), lambda: 0.0)
    attempt = folder.trial(0).attempt(1)

    def die_once_named() -> None:
        if (attempt.root / "result.json").exists():
            raise Killed

    with files.mounted():
        files.strike = die_once_named
        with pytest.raises(Killed):
            attempt.write_result(AttemptResult("token-0", "finished", 8, None, "", {}))
        files.strike = lambda: None
        assert look(state_of(0), folder, Looking()).results[0].status == "finished"
        files.crash()
    assert attempt.read_result() is not None


def test_nothing_has_happened(folder: StudyDir) -> None:
    executor = Looking("00001")
    running = {"00001": JobStatus("17", "running")}
    assert look(state_of(0, 1), folder, executor) == Observation(running, frozenset())
    assert look(StudyState(), folder, executor) == Observation({}, frozenset())
    assert executor.num_looks == 2


def test_values_come_by_step_then_trial_and_those_that_are_told_not_again(
    folder: StudyDir,
) -> None:
    state = state_of(0, 1)
    state.trials[0].reported = {2: 0.5}
    for number in (1, 0):
        for step in (4, 2, 3, 6):
            add_row(folder, number, step, step + number / 10)
    add_row(folder, 1, 8, 1.0, metric="another")
    assert look(state, folder, Looking("00001")).reports == (
        CurveReport(2, 1, 2.1),
        CurveReport(4, 0, 4.0),
        CurveReport(4, 1, 4.1),
        CurveReport(6, 0, 6.0),
        CurveReport(6, 1, 6.1),
    )
    state.trials[1].told = "pruned"
    assert {report.trial for report in look(state, folder, Looking("00001")).reports} == {0}


def test_the_first_of_two_lines_of_a_step_counts(folder: StudyDir) -> None:
    for value in (0.5, 0.75):
        add_row(folder, 0, 2, value)
    assert look(state_of(0), folder, Looking("00001")).reports == (CurveReport(2, 0, 0.5),)


def test_a_line_may_say_that_it_is_the_last(folder: StudyDir) -> None:
    add_row(folder, 3, 2, 0.25)
    metrics = {"m": {"value": 0.5}}
    folder.trial(3).append_metrics({"step": 4, "metrics": metrics, "last": True})
    folder.trial(3).append_metrics({"step": 6, "metrics": metrics, "last": "yes"})
    reports = look(state_of(3), folder, Looking("00001")).reports
    assert [(report.step, report.is_last) for report in reports] == [
        (2, False),
        (4, True),
        (6, False),
    ]


def test_a_result_counts_as_soon_as_it_is_there(folder: StudyDir) -> None:
    folder.trial(1).attempt(1).write_result(result(1))
    seen = look(state_of(0, 1), folder, Looking("00001"))
    assert seen.results == {1: result(1)}
    assert seen.gone == frozenset()


def test_a_job_that_is_gone_without_a_word_has_lost_its_trials(folder: StudyDir) -> None:
    give_sign(folder, 0, 6)
    folder.trial(2).attempt(1).write_result(result(2, "interrupted"))
    seen = look(state_of(0, 1, 2), folder, Looking())
    assert seen.gone == {"00001"}
    told = {
        number: (result.status, result.kind, result.step) for number, result in seen.results.items()
    }
    assert told == {0: (LOST, LOST, 6), 1: (LOST, LOST, 0), 2: ("interrupted", None, 8)}
    assert seen.results[0].message.startswith("the job ended without a result; see ")


def test_a_result_with_another_token_is_not_this_attempt(folder: StudyDir) -> None:
    folder.trial(0).attempt(1).write_result(result(0, token="fenced"))
    assert look(state_of(0), folder, Looking("00001")).results == {}
    assert look(state_of(0), folder, Looking()).results[0].status == LOST


def test_a_result_of_an_earlier_attempt_is_not_this_one(folder: StudyDir) -> None:
    folder.trial(0).attempt(1).write_result(result(0))
    assert look(state_of(0, attempt=2), folder, Looking("00001")).results == {}


@pytest.mark.parametrize("text", ["", '{"token": "tok', "[]", "7", '{"token": "token-0"}'])
def test_a_damaged_result_is_not_believed(folder: StudyDir, text: str) -> None:
    path = folder.trial(0).attempt(1).root / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert look(state_of(0), folder, Looking("00001")).results == {}
    lost = look(state_of(0), folder, Looking()).results[0]
    assert lost.status == LOST
    assert "result.json" in lost.message
    give_sign(folder, 0, 6)
    assert look(state_of(0), folder, Looking("00001")).results == {}  # it trains, says its job
    give_sign(folder, 1, 6)  # the job has gone on with another
    assert look(state_of(0), folder, Looking("00001")).results[0] == replace(lost, message=ANY)


def test_what_a_job_writes_while_it_is_looked_at_is_seen_whole(folder: StudyDir) -> None:
    """The job ends between the look at it and the look at its files: its last words are read."""

    def finish() -> None:
        add_row(folder, 0, 8, 0.5)
        folder.trial(0).attempt(1).write_result(result(0))

    seen = look(state_of(0), folder, Looking("00001", meanwhile=finish))
    assert seen == Observation(
        {"00001": JobStatus("17", "running")},
        frozenset(),
        {0: result(0)},
        (CurveReport(8, 0, 0.5),),
    )


# Executors that know more, or nothing.


def test_the_executor_may_know_why_a_job_ended(folder: StudyDir) -> None:
    executor = Looking()
    executor.failure = NODE_FAIL
    result = look(state_of(0), folder, executor).results[0]
    assert (result.status, result.kind) == (LOST, NODE_FAIL)


class Silent(FakeExecutor):
    """An executor that gives no answer."""

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        raise SchedulerSilentError


def test_no_answer_is_no_news_of_jobs_but_files_are_read(folder: StudyDir) -> None:
    add_row(folder, 1, 4, 0.5)
    folder.trial(0).attempt(1).write_result(result(0))
    seen = look(state_of(0, 1), folder, Silent(), now=1e12)
    assert seen == Observation({}, frozenset(), {0: result(0)}, (CurveReport(4, 1, 0.5),))


def test_an_announced_job_may_still_appear(folder: StudyDir) -> None:
    class Patient(FakeExecutor):
        patience = 60.0

    state = state_of(0)
    state.jobs["00001"].id = None
    state.jobs["00001"].announced_at = 1000.0
    assert look(state, folder, Patient(), now=1059.0) == Observation({}, frozenset())
    seen = look(state, folder, Patient(), now=1060.0)
    assert seen.gone == {"00001"}
    assert seen.results[0].status == "interrupted"  # it never began, which is no loss


@pytest.mark.parametrize("failure", [None, OOM_HOST])
def test_what_was_given_later_and_never_begun_is_no_loss(
    folder: StudyDir, failure: str | None
) -> None:
    """Whatever the job ended of; before, its failure was that of a trial that only waited."""
    state, executor = state_of(0, 1), Looking()
    executor.failure = failure
    first, later = ((plan,) for plan in state.jobs["00001"].groups[0])
    state.jobs["00001"].groups = [first, later]
    seen = look(state, folder, executor).results
    assert (seen[0].status, seen[1].status) == (LOST, "interrupted")
    give_sign(folder, 1, 0, is_busy=True)
    assert look(state, folder, executor).results[1].kind == (failure or LOST)


def test_a_running_attempt_of_which_nothing_is_heard(folder: StudyDir) -> None:
    in_the_future = 4e9  # by the job's own clock, which is not believed
    beat = give_sign(folder, 0, 6, at=in_the_future)
    running = Looking("00001")
    assert (
        look_after_long(state_of(0), folder, running, now=beat + SILENCE_SECONDS - 1).results == {}
    )
    result = look_after_long(state_of(0), folder, running, now=beat + SILENCE_SECONDS).results[0]
    assert (result.status, result.kind, result.step) == (LOST, SILENT, 6)


def test_a_suspended_job_is_listened_to_anew_once_it_runs(folder: StudyDir) -> None:
    """Before, it was silent in the moment in which SLURM let it run again."""
    state, silences, now = state_of(0), Silences(), give_sign(folder, 0, 1)
    suspended = {"00001": JobStatus("17", "queued")}
    for _ in range(60):
        now += 30.0
        executor = Looking("00001")
        executor.look = lambda jobs: suspended
        assert look(state, folder, executor, now, silences).results == {}
    for _ in range(3):
        now += 30.0
        assert look(state, folder, Looking("00001"), now, silences).results == {}
    for _ in range(20):
        now += 30.0
        seen = look(state, folder, Looking("00001"), now, silences)
    assert seen.results[0].kind == SILENT


def test_a_scheduler_that_answers_now_and_then_hides_no_silence(folder: StudyDir) -> None:
    def fail(jobs: object) -> dict[str, JobStatus]:
        raise SchedulerSilentError

    state, silences, now = state_of(0), Silences(), give_sign(folder, 0, 1)
    for _ in range(15):
        executor = Looking("00001")
        executor.look = fail
        look(state, folder, executor, now, silences)
        seen = look(state, folder, Looking("00001"), now + 30.0, silences)
        now += 60.0
    assert seen.results[0].kind == SILENT


def test_what_was_given_to_a_job_that_had_left_is_no_loss(folder: StudyDir) -> None:
    """Its task of the scheduler goes on with other jobs: it would be waited for, for an hour."""
    state = state_of(0, 1)
    first, later = ((plan,) for plan in state.jobs["00001"].groups[0])
    state.jobs["00001"].groups = [first, later]
    folder.trial(0).attempt(1).write_result(result(0))
    beat = JobHeartbeat(0.0, "here", 1, False, 1.0, (), has_left=True)
    folder.job("00001").heartbeat.replace(beat)
    seen = look(state, folder, Looking("00001"))
    assert seen.results[0].status == "finished"
    assert (seen.results[1].status, seen.results[1].kind) == ("interrupted", None)
    assert (seen.ended, seen.gone) == ({"00001"}, frozenset())


def test_a_clock_that_is_wrong_or_jumps_makes_no_job_silent(folder: StudyDir) -> None:
    """Before, all jobs were cancelled by a driver whose clock was ten minutes ahead of the file
    system's, or whose machine had slept."""
    running, silences = Looking("00001"), Silences()
    now = give_sign(folder, 0, 0) + 3600.0
    for step in range(1, 60):
        beat = give_sign(folder, 0, step, at=float(step))
        os.utime(folder.job("00001").heartbeat.path, (beat, beat))
        now += 3600.0 if step == 30 else 30.0
        assert look(state_of(0), folder, running, now, silences).results == {}
    for seconds in (1e5, 30.0):  # it has slept, and the job may have as well
        now += seconds
        assert look(state_of(0), folder, running, now, silences).results == {}
    assert look(state_of(0), folder, running, now + 30.0, silences).results[0].kind == SILENT


def test_one_that_measures_may_be_silent_for_longer(folder: StudyDir) -> None:
    beat = give_sign(folder, 0, 6, is_busy=True)
    running = Looking("00001")
    assert look_after_long(state_of(0), folder, running, now=beat + BUSY_SECONDS - 1).results == {}
    result = look_after_long(state_of(0), folder, running, now=beat + BUSY_SECONDS).results[0]
    assert (result.status, result.kind, result.step) == (LOST, SILENT, 6)


def test_a_job_of_an_older_version_is_heard(folder: StudyDir) -> None:
    """It gives heartbeats for each attempt, beside which those of its job are missing."""
    file = folder.trial(0).attempt(1).heartbeat
    write_json(file.path, asdict(Heartbeat(0.0, 6, 4, 1.0, "here", 1, False)))
    beat = file.path.stat().st_mtime
    state, running = state_of(0), Looking("00001")
    state.jobs["00001"].began_at = 0.0
    seen = look_after_long(state, folder, running, now=beat + SILENCE_SECONDS - 1)
    assert (seen.results, seen.heartbeats[0].step) == ({}, 6)
    result = look_after_long(state, folder, running, now=beat + SILENCE_SECONDS).results[0]
    assert (result.kind, result.step) == (SILENT, 6)


def test_the_file_of_a_job_is_read_once_a_round(
    folder: StudyDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a round read a file for each of its trials."""
    members = tuple(MemberHeartbeat(n, 1, f"token-{n}", n, 0) for n in range(8))
    file = folder.job("00001").heartbeat
    file.replace(JobHeartbeat(0.0, "here", 1, False, 2.5, members))
    reads, read = [], RecordFile.try_read

    def counted(self: RecordFile[JobHeartbeat]) -> JobHeartbeat | None:
        reads.append(self.path)
        return read(self)

    monkeypatch.setattr(RecordFile, "try_read", counted)
    seen = look(state_of(*range(8)), folder, Looking("00001"))
    assert [seen.heartbeats[n].step for n in range(8)] == [*range(8)]
    assert reads == [file.path]


def test_one_that_never_begins_is_missed_at_last(folder: StudyDir) -> None:
    """A process that hangs while it imports, or starts its device, writes nothing at all."""
    state, running = state_of(0), Looking("00001")
    assert look(state, folder, running, now=1e12).results == {}  # it waits in the queue
    state.jobs["00001"].began_at = 1000.0
    assert look_after_long(state, folder, running, now=1000.0 + BUSY_SECONDS - 1).results == {}
    seen = look_after_long(state, folder, running, now=1000.0 + BUSY_SECONDS)
    assert seen.results[0].kind == SILENT


def test_one_given_later_that_never_begins_is_missed_once_its_job_is(folder: StudyDir) -> None:
    """Before, a pilot that hung before it began a later trial kept its study running for ever."""
    state, running = later_trial(state_of(0, 1)), Looking("00001")
    beat = give_sign(folder, 0, 6)
    state.jobs["00001"].began_at, state.trials[1].announced_at = beat - 1e6, beat + 100.0
    missed = beat + 100.0 + BUSY_SECONDS
    assert look_after_long(state, folder, running, now=missed - 1).results == {}
    assert look_after_long(state, folder, running, now=missed).results[1].kind == SILENT
    os.utime(folder.job("00001").heartbeat.path, (missed, missed))  # it waits for another to end
    assert look_after_long(state, folder, running, now=missed).results == {}


def later_trial(state: StudyState) -> StudyState:
    """Let the second trial be given to the job when the first had ended."""
    job = state.jobs["00001"]
    job.groups = [(plan,) for plan in job.groups[0]]
    job.running.discard(0)
    del state.untold[0]
    return state


def test_one_look_that_finds_no_sign_makes_no_old_job_silent(folder: StudyDir) -> None:
    """Before, a job older than an hour was cancelled when its file could not be read once."""
    state, running, silences = state_of(0), Looking("00001"), Silences()
    state.jobs["00001"].began_at = 0.0
    now = give_sign(folder, 0, 1) + BUSY_SECONDS
    file = folder.job("00001").heartbeat.path
    for step in range(2, 60):
        if step % 3:
            give_sign(folder, 0, step)
            os.utime(file, (now, now))
        else:
            file.write_text("torn")
        assert look(state, folder, running, now, silences).results == {}
        now += 30.0


def test_what_was_given_later_and_said_where_it_goes_on_has_begun(folder: StudyDir) -> None:
    """Its heartbeat leaves the job's file when it ends; before, a result that is damaged every
    time was made again without end."""
    state = state_of(0, 1)
    first, later = ((plan,) for plan in state.jobs["00001"].groups[0])
    state.jobs["00001"].groups = [first, later]
    folder.trial(1).attempt(1).start.write(Start(0))
    assert look(state, folder, Looking()).results[1].status == LOST


def test_a_file_system_that_fails_for_a_moment_is_no_news(
    folder: StudyDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_row(folder, 0, 2, 0.5)
    folder.trial(0).attempt(1).write_result(result(0))

    def fail(path: Path, limit: int | None = None, *, follows_links: bool = True) -> BufferedReader:
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(files, "open_file", fail)
        seen = look(state_of(0), folder, Looking("00001"))
    assert (seen.results, seen.reports) == ({}, ())
    seen = look(state_of(0), folder, Looking("00001"))
    assert (seen.results, seen.reports) == ({0: result(0)}, (CurveReport(2, 0, 0.5),))


def test_a_job_is_not_gone_before_its_results_can_be_read(
    folder: StudyDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, its trials counted as running for ever, in a job that had ended."""
    folder.trial(0).attempt(1).write_result(result(0))

    def fail(self: AttemptDir) -> AttemptResult:
        raise DiskError("Stale file handle")

    with monkeypatch.context() as patch:
        patch.setattr(AttemptDir, "read_result", fail)
        seen = look(state_of(0), folder, Looking())
    assert (seen.results, seen.gone) == ({}, frozenset())
    seen = look(state_of(0), folder, Looking())
    assert (seen.results, seen.gone) == ({0: result(0)}, {"00001"})


def test_a_damaged_line_is_left_out(folder: StudyDir) -> None:
    for step, value in ((2, 0.5), (4, 0.6), (6, 0.7)):
        add_row(folder, 0, step, value)
    path = folder.trial(0).metrics
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b"step", b"st\xffp")
    path.write_bytes(b"\n".join([*lines[:-1], b"7", b'{"at": 1.0}', b""]))
    reports = look(state_of(0), folder, Looking("00001")).reports
    assert reports == (CurveReport(2, 0, 0.5), CurveReport(6, 0, 0.7))
    folder.trial(0).forget_metrics_after(2)
    assert [row["step"] for row in folder.trial(0).read_metrics()] == [2]


def test_values_that_are_not_whole_are_none(folder: StudyDir) -> None:
    attempt = folder.trial(0).attempt(1)
    attempt.write_result(replace(result(0), metrics={"m": {"value": 0.5}}))
    assert look(state_of(0), folder, Looking("00001")).results == {}
    ended = look(state_of(0), folder, Looking()).results[0]
    assert ended.status == LOST
    assert "must hold value, low and high" in ended.message


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        BEAT.replace("STEP", '"many"'),
        BEAT.replace("STEP", "-1"),
        BEAT.replace("STEP", "1e300"),
    ],
)
def test_a_sign_of_life_that_cannot_be_is_none(folder: StudyDir, text: str) -> None:
    path = folder.job("00001").heartbeat.path
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert look(state_of(0), folder, Looking()).results[0].step == 0


@pytest.mark.parametrize(
    "text", ["7", "[]", '{"step": 2}', '{"step": "2", "metrics": {}}', '{"metrics": {"m": 1}}']
)
def test_a_line_that_is_no_evaluation_is_left_out(folder: StudyDir, text: str) -> None:
    add_row(folder, 0, 2, 0.5)
    with folder.trial(0).metrics.open("a") as file:
        file.write(text + "\n")
    for value in ("null", "NaN", '"0.5"', "{}"):
        with folder.trial(0).metrics.open("a") as file:
            file.write('{"step": 4, "metrics": {"m": {"value": ' + value + "}}}\n")
    assert look(state_of(0), folder, Looking("00001")).reports == (CurveReport(2, 0, 0.5),)


def test_much_news_comes_in_parts_first_of_the_jobs_that_are_gone(
    folder: StudyDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observe_module, "MOST_NEWS", 3)
    numbers = {"1": (0, 1), "2": (2, 3), "3": (4, 5), "4": (6, 7)}
    trials = {n: Trial(n, {}, attempts=1, token=f"token-{n}") for n in range(8)}
    jobs = {
        name: Job(name, [tuple((n, 1, f"token-{n}") for n in own)], {*own}, id=name)
        for name, own in numbers.items()
    }
    state = StudyState(trials=trials, jobs=jobs, untold=dict(trials), live=dict(jobs))
    for trial in trials:
        add_row(folder, trial, 2, 0.5)
    for trial in (0, 1, 6, 7):
        folder.trial(trial).attempt(1).write_result(result(trial))
    observer = Observer(folder, Looking("2", "3"), "m", lambda trial, step: True)
    parts = list(observer.observe(state, now=0.0))
    assert [[*part.results] for part in parts] == [[0, 1], [6, 7], [], []]
    assert [part.gone for part in parts] == [{"1"}, {"4"}, set(), set()]
    reports = [[report.trial for report in part.reports] for part in parts]
    assert reports == [[0, 1], [6, 7], [2, 3], [4, 5]]
    assert [part.is_last for part in parts] == [False, False, False, True]


def test_files_are_read_of_those_alone_of_which_a_heartbeat_has_news(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, each round opened three files of each trial: half a minute for 130,000."""
    folder, looking = StudyDir(tmp_path), Looking("00001")
    state, opened, open_file = state_of(0, 1), [], files.open_file

    def counted(path: Path, *given: Any, **named: Any) -> Any:
        opened.append(path)
        return open_file(path, *given, **named)

    monkeypatch.setattr(files, "open_file", counted)
    observer = Observer(folder, looking, "m", lambda trial, step: True)

    def beat(*members: MemberHeartbeat) -> None:
        folder.job("00001").heartbeat.replace(JobHeartbeat(0.0, "here", 1, False, 1.0, members))

    def seen() -> tuple[list[str], list[int], list[tuple[int, int]]]:
        """Return which files were opened, the trials that ended, and what was reported."""
        opened.clear()
        (found,) = observer.observe(state, now=0.0)
        reports = [(report.trial, report.step) for report in found.reports]
        names = sorted(path.name for path in opened if path.is_relative_to(folder.trials))
        return names, list(found.results), reports

    first, second = (MemberHeartbeat(n, 1, f"token-{n}", 8, 0, 0) for n in (0, 1))
    beat(first, second)
    assert seen() == (["metrics.jsonl", "metrics.jsonl"], [], [])  # not looked at before
    assert seen() == ([], [], [])
    add_row(folder, 1, 4, 0.5)
    assert seen() == ([], [], [])  # no word of it yet
    beat(first, replace(second, measured=4))
    assert seen() == (["metrics.jsonl"], [], [(1, 4)])
    folder.trial(0).attempt(1).write_result(result(0))
    beat(replace(second, measured=4))
    names, ended, _ = seen()
    assert ended == [0]
    assert "result.json" in names


def listener(folder: StudyDir, *, is_busy: bool = False) -> Observer:
    """Return an observer of a job that told of an evaluation at 1e9 and says nothing more."""
    add_row(folder, 0, 4, 0.5)
    file, member = folder.job("00001").heartbeat, MemberHeartbeat(0, 1, "token-0", 6, 0, 4)
    file.replace(JobHeartbeat(0.0, "here", 1, is_busy, 1.0, (member,)))
    os.utime(file.path, (1e9, 1e9))
    return Observer(folder, Looking("00001"), "m", lambda trial, step: True)


@pytest.mark.parametrize(
    ("is_busy", "pause", "limit"),
    [(False, 30, SILENCE_SECONDS), (False, 300, SILENCE_SECONDS), (True, 30, BUSY_SECONDS)],
)
def test_one_of_which_there_was_no_news_is_missed_as_soon(
    folder: StudyDir, monkeypatch: pytest.MonkeyPatch, is_busy: bool, pause: int, limit: float
) -> None:
    state, opened, open_file = state_of(0), [], files.open_file
    state.jobs["00001"].began_at = 1e9

    def counted(path: Path, *given: Any, **named: Any) -> Any:
        opened.append(path)
        return open_file(path, *given, **named)

    monkeypatch.setattr(files, "open_file", counted)
    observer = listener(folder, is_busy=is_busy)
    quiet, ended = [], []
    for age in range(0, int(limit) + 2 * pause, pause):
        opened.clear()
        (seen,) = observer.observe(state, now=1e9 + age)
        quiet += [] if any(path.is_relative_to(folder.trials) for path in opened) else [age]
        ended += [(age, own.kind) for own in seen.results.values()]
        assert observer.heartbeats(state)[0].step == 6
    assert ended[0] == (limit, SILENT)
    assert quiet == ([*range(30, 420, 30)] if pause == 30 else [])


def test_a_clock_that_jumps_makes_none_silent_of_which_there_was_no_news(folder: StudyDir) -> None:
    observer = listener(folder)
    kinds = []
    for age in (0, 30, 60, 1e5, 1e5 + 30, 1e5 + 60, 1e5 + 90, 1e5 + 120):
        (seen,) = observer.observe(state_of(0), now=1e9 + age)
        kinds.append([own.kind for own in seen.results.values()])
    assert kinds == [[]] * 7 + [[SILENT]]
