"""Files that are whole or absent."""

import errno
import os
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import FIRST, do_together, read_json, write_json, write_text


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_write_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "new" / "folder" / "file.txt"
    write_text(path, "first\n")
    write_text(path, "zweite Zeile: ü\n")
    assert path.read_text(encoding="utf-8") == "zweite Zeile: ü\n"
    assert names(path.parent) == {"file.txt"}


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, broken):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, broken, full)
    with pytest.raises(DiskError, match="No space left on device") as error:
        write_text(path, "new")
    assert str(path) in str(error.value)
    assert path.read_text() == "old"
    assert names(tmp_path) == {"file.txt"}


def test_a_kill_before_the_rename_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def killed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"


def test_a_folder_that_is_a_file_is_a_disk_error(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "a", tmp_path / "file" / "b" / "c"):
        with pytest.raises(DiskError, match="cannot be written"):
            write_text(path, "text")


def test_json_round_trip(tmp_path):
    data = {"a": [1, 2.5, None, True], "b": {"c": "ü"}}
    write_json(tmp_path / "data.json", data)
    assert read_json(tmp_path / "data.json") == data
    assert read_json(tmp_path / "nothing.json") is None


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe{}", b"text"])
def test_what_is_not_json_is_corrupt(tmp_path, content):
    (tmp_path / "data.json").write_bytes(content)
    with pytest.raises(CorruptError, match=r"data\.json"):
        read_json(tmp_path / "data.json")


def test_what_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    def broken(*arguments):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "open", broken)
    with pytest.raises(DiskError, match="cannot be read"):
        read_json(tmp_path / "data.json")


def test_work_that_waits_for_the_disk_is_done_together_and_its_fault_is_heard():
    done, waiting = [], threading.Barrier(4, timeout=30)

    def work(number: int) -> None:
        if number < FIRST:
            time.sleep(0.001)  # as for a disk
        elif number < FIRST + 4:
            waiting.wait()  # as many at a time: one after another they would wait for ever
        if number == 30:
            raise DiskError("full")
        done.append(number)

    with pytest.raises(DiskError, match="full"):
        do_together([partial(work, number) for number in range(40)])
    assert sorted(done) == [number for number in range(40) if number != 30]


def test_work_that_waits_for_nothing_is_done_by_one_thread():
    threads = []

    def work() -> None:
        threads.append(threading.current_thread())
        sum(range(10_000))

    do_together([work] * 100)
    assert threads == [threading.current_thread()] * 100
