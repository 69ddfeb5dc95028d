"""A driver that was started: awaited until it drives, prints, or is overdue."""

import os

import pytest

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.driver_start import awaited_driver, note_start


@pytest.fixture
def folder(tmp_path, monkeypatch) -> StudyDir:
    monkeypatch.setattr("hpsearch.study.driver_start.time.time", lambda: 1000.0)
    return StudyDir(tmp_path)


def test_nobody_is_awaited_where_nobody_was_started(folder):
    assert awaited_driver(folder, 1000.0) is None


def test_a_job_may_wait_for_hours_and_a_process_for_a_minute(folder):
    note_start(folder, "job 17")
    assert awaited_driver(folder, 90_000.0).who == "job 17"
    note_start(folder, "process 17")
    assert awaited_driver(folder, 1059.0).who == "process 17"
    assert awaited_driver(folder, 1061.0) is None


def test_one_that_drove_is_awaited_no_more(folder):
    """Not even if it died afterwards."""
    for at, is_awaited in ((990.0, True), (1002.0, False)):  # of the driver before; its own
        folder.driver.touch()
        os.utime(folder.driver, (at, at))
        note_start(folder, "job 17")
        assert (awaited_driver(folder, 1003.0) is not None) == is_awaited


def test_one_that_printed_something_is_awaited_no_more(folder):
    """SLURM makes the file, empty, before the job's first line has run."""
    folder.output.write_text("of the driver before\n")
    note_start(folder, "job 17")
    folder.output.touch()
    assert awaited_driver(folder, 1001.0) is not None
    folder.output.write_text("of the driver before\nmodule: command not found\n")
    assert awaited_driver(folder, 1002.0) is None


def test_a_damaged_note_awaits_nobody(folder):
    note_start(folder, "job 17")
    folder.driver_start.write_text("{")
    assert awaited_driver(folder, 1001.0) is None
