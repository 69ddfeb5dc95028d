"""A driver that was started: whether it is there, as its process, its job or its signs say."""

import os
import socket
import subprocess
import threading
import time

import pytest

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.supervisor import note_retry
from hpsearch.files import write_json
from hpsearch.study.requests import (
    SILENCE_SECONDS,
    DriverStart,
    awaited_driver,
    driver_start_locked,
    forget_start,
    may_be_there,
    note_start,
)
from hpsearch.study.view import find_awaited


@pytest.fixture
def folder(tmp_path) -> StudyDir:
    return StudyDir(tmp_path)


def test_nothing_is_awaited_where_nothing_was_started(folder):
    assert awaited_driver(folder, time.time()) is None


def test_a_process_is_awaited_as_long_as_it_lives(folder):
    """However often its driver drove, printed something and died."""
    process = subprocess.Popen(["sleep", "60"])
    note_start(folder, f"process {process.pid}")
    folder.driver.touch()
    folder.output.write_text("hpsearch: the database is away\n")
    assert awaited_driver(folder, time.time() + 90_000).who == f"process {process.pid}"
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert awaited_driver(folder, time.time()) is None  # a zombie, of which its parent knows not
    process.wait()
    assert awaited_driver(folder, time.time()) is None


def test_a_process_of_another_host_is_believed_by_its_signs(folder):
    start = DriverStart("process 17", 1000.0, process="elsewhere/17/900.00")
    write_json(folder.driver_start, vars(start))
    assert awaited_driver(folder, 1000.0 + SILENCE_SECONDS - 1) == start
    assert awaited_driver(folder, 1000.0 + SILENCE_SECONDS + 1) is None
    note_retry(folder, "the disk is full")
    assert awaited_driver(folder, time.time() + SILENCE_SECONDS - 1) == start


def test_a_job_waits_in_the_queue_for_hours(folder):
    """Its scheduler knows; where that gives no answer, a job that has begun gives signs."""
    note_start(folder, "job 17")
    start = awaited_driver(folder, time.time() + 90_000)
    assert start.slurm_job == "17"
    assert may_be_there(folder, start, start.at + 90_000)
    folder.driver.touch()
    os.utime(folder.driver, (start.at + 5, start.at + 5))
    assert may_be_there(folder, start, start.at + SILENCE_SECONDS)
    assert not may_be_there(folder, start, start.at + SILENCE_SECONDS + 6)


@pytest.mark.parametrize(
    ("squeue", "is_awaited"),
    [
        ("echo PENDING", True),
        ("echo RUNNING", True),
        ("echo COMPLETED", False),
        (":", False),
        ("echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", False),
        ("echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1", True),
    ],
)
def test_a_job_is_awaited_while_its_scheduler_knows_it(
    folder, tmp_path, monkeypatch, squeue, is_awaited
):
    program = tmp_path / "squeue"
    program.write_text(f"#!/bin/sh\n{squeue}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    note_start(folder, "job 17")
    assert (find_awaited(folder) is not None) == is_awaited


def test_a_driver_that_is_done_is_awaited_no_more(folder):
    note_start(folder, f"process {os.getpid()}")
    forget_start(folder)
    forget_start(folder)
    assert awaited_driver(folder, time.time()) is None


def test_a_note_of_an_older_version(folder):
    """Its process was the driver itself, which nothing starts again."""
    write_json(folder.driver_start, {"who": "process 17", "at": time.time(), "printed": 4})
    assert awaited_driver(folder, time.time()) is None
    write_json(folder.driver_start, {"who": "job 17", "at": time.time(), "printed": 4})
    assert awaited_driver(folder, time.time()).slurm_job == "17"


def test_a_damaged_note_awaits_nothing(folder):
    note_start(folder, "job 17")
    folder.driver_start.write_text("{")
    assert awaited_driver(folder, time.time()) is None


def test_a_driver_is_started_by_one_command_at_a_time(folder):
    began, order = threading.Event(), []

    def second() -> None:
        began.set()
        with driver_start_locked(folder):
            order.append("second")

    thread = threading.Thread(target=second)
    with driver_start_locked(folder):
        thread.start()
        began.wait()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_retry_is_counted_from_the_first_time_in_a_row(folder, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("hpsearch.cluster.supervisor.time.time", lambda: now[0])
    note_retry(folder, "the database is away")
    now[0] = 1010.0
    note_retry(folder, "the disk is full")
    retry = folder.driver_retry.try_read()
    assert (retry.since, retry.at, retry.reason) == (1000.0, 1010.0, "the disk is full")


def test_the_process_is_named_with_its_host(folder):
    note_start(folder, f"process {os.getpid()}")
    assert awaited_driver(folder, time.time()).process.startswith(
        f"{socket.gethostname()}/{os.getpid()}/"
    )
