"""Workers as real processes, alone and below the local executor."""

import os
import platform
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest
import submitit
from gpu_tools import new_share
from working import RUN_JOB, work

from hpsearch.cluster.executor import JobStatus, SubmissionRefusedError
from hpsearch.cluster.job_entry import train, train_on_gpus
from hpsearch.cluster.local import LocalExecutor
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import DiskError
from hpsearch.trainers import checkpoint

PATIENCE_SECONDS = 60
FAULTS = """
import ctypes, resource, sys
from hpsearch.cluster.machine import keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
if sys.argv[1] == "keep":
    keep_freed_memory()
for number in range(60):
    if number == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces = [libc.malloc(2**18) for _ in range(16)]
    for piece in pieces:
        ctypes.memset(piece, 0, 2**18)
    for piece in pieces:
        libc.free(piece)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""allocates 4 MiB again and again, as an update does, and prints how many pages the system gave"""
STEPS = 400


@pytest.fixture(scope="module")
def configs(plain_config):
    """Two members that train for a second, with an evaluation every tenth of it."""
    changes = {"steps": STEPS, "evaluation.interval": 40, "checkpoint.interval": 20}
    return [plain_config({**changes, "seed": seed}) for seed in (1, 2)]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_memory_that_is_freed_is_used_again():
    def pages(how: str) -> int:
        command = [sys.executable, "-c", FAULTS, how]
        return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    assert pages("give back") > 10_000
    assert pages("keep") < 100


def wait_until(condition) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def is_gone(executor, job, job_id: str) -> bool:
    """Whether the job has ended and has not stayed as a zombie of this process."""
    status = executor.look([(job, job_id)])[job.name]
    return status.phase == "ended" and not psutil.pid_exists(int(job_id))


def newest_step(study, number: int) -> int:
    return next(checkpoint.valid_steps(study.trial(number).checkpoints), 0)


def outcome(study, number: int, attempt: int):
    ended = study.trial(number).attempt(attempt).read_result()
    rows = list(study.trial(number).read_metrics())
    curve = [(row["step"], row["metrics"]) for row in rows]
    return ended.status, ended.step, ended.metrics, curve


@pytest.mark.slow
def test_terminated_then_killed_then_finished_as_if_undisturbed(tmp_path, new_job, configs):
    study = new_job(tmp_path / "disturbed", configs).study
    for attempt, number in ((1, signal.SIGTERM), (2, signal.SIGKILL)):
        job, before = new_job(study.root, configs, attempt), newest_step(study, 1)
        process = subprocess.Popen([sys.executable, "-c", RUN_JOB, str(job.root)])
        wait_until(lambda before=before: newest_step(study, 1) > before)
        process.send_signal(number)
        code = process.wait(timeout=PATIENCE_SECONDS)
        ended = study.trial(1).attempt(attempt).read_result()
        if number == signal.SIGTERM:
            assert code == 0
            assert (ended.status, ended.step) == ("interrupted", newest_step(study, 1))
        else:
            assert code == -signal.SIGKILL
            assert ended is None
        assert newest_step(study, 1) < STEPS
    work(str(new_job(study.root, configs, 3).root))
    whole = new_job(tmp_path / "whole", configs)
    work(str(whole.root))
    for number in range(2):
        assert outcome(study, number, 3) == outcome(whole.study, number, 1)


THREADS = """
import sys
import torch
from hpsearch.cluster.job_entry import train as work
work(sys.argv[1])
print("threads", torch.get_num_threads())
"""


@pytest.mark.slow
def test_the_worker_keeps_to_its_threads(tmp_path, new_job, plain_config):
    job = new_job(tmp_path, [plain_config({"steps": 2})])
    command = [sys.executable, "-c", THREADS, str(job.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "threads 1\n" in done.stdout


@pytest.mark.slow
def test_local_executor(tmp_path, new_job, plain_config):
    endless = plain_config({"steps": 10**9, "checkpoint.interval": 10**8})
    job = new_job(tmp_path, [endless])
    executor = LocalExecutor(num_threads=1)
    assert executor.look([(job, None)]) == {}
    job_id = executor.submit([job])[job.name]
    try:
        # Another process knows the job by its folder alone.
        stranger = LocalExecutor(num_threads=1)
        assert stranger.look([(job, None)]) == {job.name: JobStatus(job_id, "running")}
        trial = job.study.trial(0)
        wait_until(lambda: list(trial.read_metrics()))
        assert job.study.heartbeat(0, 1) is not None
    finally:
        executor.interrupt([(job, job_id)])
    wait_until(lambda: is_gone(executor, job, job_id))
    ended = trial.attempt(1).read_result()
    assert ended.status == "interrupted"
    assert newest_step(job.study, 0) == ended.step
    executor.interrupt([(job, job_id)])  # a job that has left is left alone
    assert "trial 0 begins at step 0" in executor.log(job, job_id).read_text()


def test_local_executor_does_not_take_strangers_for_its_jobs(tmp_path, new_job, plain_config):
    """A process id may have passed to another process; it must not be ended."""
    job = new_job(tmp_path, [plain_config()])
    me, unused = str(os.getpid()), str(2**22 - 1)
    executor = LocalExecutor(num_threads=1)
    for stranger in (me, unused):
        assert executor.look([(job, stranger)]) == {job.name: JobStatus(stranger, "ended")}
        executor.interrupt([(job, stranger)])
        executor.cancel([(job, stranger)])


@pytest.fixture
def controller(tmp_path):
    """A process as that of a job, with a child; it leaves with code 7 when it is asked to."""
    job = StudyDir(tmp_path).job("00001")
    job.root.mkdir(parents=True)
    script = "trap 'exit 7' TERM; sleep 60 & echo $!; while :; do wait; done"
    command = ["bash", "-c", script, "bash", str(job.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        child = psutil.Process(int(process.stdout.readline()))
        yield job, process, child
        with suppress(psutil.NoSuchProcess):
            child.kill()
        process.kill()


def test_a_cancelled_job_ends_with_all_that_it_has_started(controller):
    job, process, child = controller
    executor, given = LocalExecutor(num_threads=1), (job, str(process.pid))
    assert executor.look([given])[job.name].phase == "running"
    executor.cancel([given])
    assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    child.wait(PATIENCE_SECONDS)
    assert executor.look([given])[job.name].phase == "ended"


def test_a_job_that_is_interrupted_is_asked_to_leave(controller):
    job, process, _ = controller
    LocalExecutor(num_threads=1).interrupt([(job, str(process.pid))])
    assert process.wait(PATIENCE_SECONDS) == 7


def test_a_job_that_waits_for_gpus_is_queued(controller):
    job, process, _ = controller
    executor, given = LocalExecutor(num_threads=1), (job, str(process.pid))
    phases = []
    for waits in (True, False):
        job.waits.touch() if waits else job.waits.unlink()
        phases.append(executor.look([given])[job.name].phase)
    job.waits.touch()
    executor.cancel([given])
    process.wait(PATIENCE_SECONDS)
    assert [*phases, executor.look([given])[job.name].phase] == ["queued", "running", "ended"]


@pytest.mark.parametrize(("per_job", "waits"), [(0, False), (2, True)])
def test_what_a_job_is_started_with(tmp_path, monkeypatch, per_job, waits):
    """By its folder it is found again, and what it prints lies there."""
    study, calls, share = StudyDir(tmp_path), [], new_share(3, per_job)

    def submit(self, function, *arguments):
        calls.append((function, *arguments))
        return SimpleNamespace(job_id="17", done=lambda: True)

    monkeypatch.setattr(submitit.LocalExecutor, "submit", submit)
    job = study.job("00001")
    executor = LocalExecutor(num_threads=1, gpus=share)
    assert executor.submit([job]) == {"00001": "17"}
    expected = (
        (train_on_gpus, str(job.root), share.gpus, (2,)) if per_job else (train, str(job.root))
    )
    assert calls == [expected]
    assert job.waits.exists() is waits
    assert executor.log(job, "17") == job.root / "17_0_log.out"


def test_a_job_for_which_there_are_too_few_gpus_is_refused(tmp_path):
    executor = LocalExecutor(num_threads=1, gpus=new_share(1, per_job=2))
    with pytest.raises(SubmissionRefusedError, match="each job is to have 2 GPUs"):
        executor.submit([StudyDir(tmp_path).job("00001")])


def test_a_job_that_has_no_command_line_yet_runs(tmp_path, new_job, plain_config, monkeypatch):
    """Linux gives a process its command line a moment after it has started."""
    job = new_job(tmp_path, [plain_config({"steps": 10**9})])
    executor = LocalExecutor(num_threads=1)
    job_id = executor.submit([job])[job.name]
    with monkeypatch.context() as patch:
        answers = iter([[], [], ["python", str(job.root)]])
        patch.setattr(psutil.Process, "cmdline", lambda self: next(answers))
        seen = executor.look([(job, job_id)])
    executor.interrupt([(job, job_id)])
    wait_until(lambda: is_gone(executor, job, job_id))
    assert seen == {job.name: JobStatus(job_id, "running")}


def test_a_process_that_never_has_a_command_line_is_no_job(
    tmp_path, new_job, plain_config, monkeypatch
):
    """A thread of the kernel, to which the id has passed."""
    job, me = new_job(tmp_path, [plain_config()]), str(os.getpid())
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: [])
    ended = LocalExecutor(num_threads=1).look([(job, me)])
    assert ended == {job.name: JobStatus(me, "ended")}


def test_submitting_leaves_this_process_the_signals_that_it_heeds(tmp_path, monkeypatch):
    """Only the child never hears of Ctrl-C and of a hang-up."""
    blocked_in_child = []

    def submit(self, function, *arguments):
        blocked_in_child.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        raise OSError("the disk is full")

    monkeypatch.setattr(submitit.LocalExecutor, "submit", submit)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert not before & {signal.SIGINT, signal.SIGHUP}
    with pytest.raises(DiskError, match="the disk is full"):
        LocalExecutor(num_threads=1).submit([StudyDir(tmp_path).job("00001")])
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    assert blocked_in_child == [before | {signal.SIGINT, signal.SIGHUP}]


@pytest.mark.slow
def test_submitting_leaves_this_process_its_handlers(tmp_path, new_job, plain_config):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)]
    job = new_job(tmp_path, [plain_config({"steps": 1})])
    executor = LocalExecutor(num_threads=1)
    job_id = executor.submit([job])[job.name]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)] == before
    wait_until(lambda: is_gone(executor, job, job_id))
    assert job.study.trial(0).attempt(1).read_result().status == "finished"
