"""A curve's file: whole lines are read, whatever else it holds."""

import json
import os
import threading
from pathlib import Path

import pytest

from hpsearch.cluster.record_files import CurveFile
from hpsearch.files import forget_after

ROWS = [{"step": step, "name": "pol\u00e8 \u2028", "value": step / 7} for step in (5, 10, 15)]


@pytest.fixture
def curve(tmp_path):
    return CurveFile(tmp_path / "new" / "curve.jsonl")


def test_what_is_appended_is_read(curve):
    assert list(curve.read()) == []
    for count, row in enumerate(ROWS, 1):
        curve.append(row)
        assert list(curve.read()) == ROWS[:count]
    assert [json.loads(line) for line in curve.path.read_text().split("\n")[:-1]] == ROWS


GAMES = {"rho/host/random": {"lengths": [0, 4], "unfinished": 1, "actions": {"3": 9}}}
MEASURED = {"value": 0.5, "low": 0.4, "high": 0.6, "capped": 0.0, "games": 5}


def test_the_games_behind_a_row_are_written_and_not_read(curve):
    rows = [row | {"metrics": {"rho/host/random": MEASURED}, "last": True} for row in ROWS]
    for row, games in zip(rows, (GAMES, {}, {**GAMES, "other": {"actions": {}}}), strict=True):
        curve.append(row | {"played": games})
    assert [row.items() <= read.items() for row, read in zip(rows, curve.read(), strict=True)]
    assert [row.get("played") for row in curve.read()] == [None, {}, None]
    written = [json.loads(line) for line in curve.path.read_bytes().splitlines()]
    assert [row["played"] for row in written] == [GAMES, {}, {**GAMES, "other": {"actions": {}}}]


def test_a_row_whose_games_were_cut_off_is_left_out(curve):
    curve.append(ROWS[0] | {"metrics": {"rho/host/random": MEASURED}, "played": GAMES})
    whole = curve.path.read_bytes()
    for end in range(1, len(whole) - 1):
        curve.path.write_bytes(whole[:end])
        curve.append(ROWS[1])
        assert list(curve.read()) == [ROWS[1]], whole[:end]


def test_a_program_may_measure_what_is_called_as_the_games(curve):
    """It names its metrics as it likes; a curve with this one would be lost."""
    row = {"step": 1, "metrics": {"loss": MEASURED, "played": MEASURED, "x": MEASURED}}
    for metrics in (row["metrics"], {"loss": MEASURED, "played": MEASURED}, {"played": MEASURED}):
        curve.append(row | {"metrics": metrics})
    assert [[*read["metrics"]] for read in curve.read()] == [
        ["loss", "played", "x"],
        ["loss", "played"],
        ["played"],
    ]


def test_a_row_outlives_a_loss_of_power(curve, monkeypatch):
    """So that no checkpoint that comes after it outlives it; a new file's name must, too."""
    flushed, fsync = [], os.fsync

    def note(descriptor):
        fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        rows = path.read_text().count("\n") if path.is_file() else None
        flushed.append((path, rows))

    curve.path.parent.mkdir()
    monkeypatch.setattr(os, "fsync", note)
    for row in ROWS[:2]:
        curve.append(row)
    assert flushed == [(curve.path, 1), (curve.path.parent, None), (curve.path, 2)]


def test_a_line_cut_anywhere_is_left_out_and_the_next_attempt_goes_on(curve):
    for row in ROWS:
        curve.append(row)
    whole = curve.path.read_bytes()
    last_line = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last_line, len(whole)):
        curve.path.write_bytes(whole[:end])
        assert list(curve.read()) == ROWS[:2]
        forget_after(curve.path, 10)
        curve.append(ROWS[2])
        assert list(curve.read()) == ROWS
        assert curve.path.read_bytes() == whole


@pytest.mark.parametrize("step", [0, 4, 5, 9, 10, 15, 99])
def test_forget_after_keeps_the_steps_up_to_it(curve, step):
    for row in ROWS:
        curve.append(row)
    forget_after(curve.path, step)
    assert list(curve.read()) == [row for row in ROWS if row["step"] <= step]
    assert [path.name for path in curve.path.parent.iterdir()] == ["curve.jsonl"]


def test_forgetting_makes_no_file(curve):
    forget_after(curve.path, 3)
    assert not curve.path.parent.exists()


def test_a_reader_beside_the_writer_sees_whole_rows_alone(curve):
    seen, ended = [], threading.Event()

    def read():
        while not ended.is_set():
            seen.append([row["step"] for row in curve.read()])

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(200):
        curve.append({"step": step, "text": "x" * 200})
    ended.set()
    reader.join()
    assert seen
    assert all(steps == list(range(len(steps))) for steps in seen)
