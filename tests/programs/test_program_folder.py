"""The folder of a program: what it measured, and what is kept of it, whenever it is killed."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpsearch.errors import CorruptError
from hpsearch.files import MAX_FILE, MAX_STEP
from hpsearch.programs import folder as folder_module
from hpsearch.programs.config import ProgramConfig
from hpsearch.programs.folder import MetricsRow, Tail, fault_of, keep, prepare, row_of
from hpsearch.trainers import checkpoint

CONFIG = ProgramConfig(("run", "{folder}"), {"lr": 0.1}, 4)


@pytest.mark.parametrize(
    "line",
    [
        *("", "{", "[1]", '{"loss": 1}', '{"step": true}', '{"step": 0}', '{"step": -1}'),
        *('{"step": 1.5}', '{"step": "1"}', json.dumps({"step": MAX_STEP + 1}), "\x00"),
    ],
)
def test_what_names_no_step_is_no_row(line):
    assert row_of(line.encode()) is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"step 3, loss 0.5", "'step 3, loss 0.5' is no JSON (Expecting value"),
        (b'{"epoch": 3, "loss": 0.5}', """'{"epoch": 3, "loss": 0.5}' has no step"""),
        (b'{"step": 0}', "has the step 0, which is no whole number from 1 to 2**53"),
        (b'{"step": "1"}', "has the step '1', which"),
        (b"[1]", "is no mapping of names to values"),
        (b"\x1b\xff" * 100, "...' is no JSON"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_the_line_in_short(line, fault):
    said = fault_of(line)
    assert fault in said
    assert said.isprintable()


def test_what_is_no_number_stays_out_of_the_values():
    line = b'{"step": 3, "loss": 2, "when": "now", "is_best": true, "more": {"a": 1}, "top": NaN}'
    row = row_of(line)
    assert row is not None
    assert (row.step, {**row.values, "top": 0}) == (3, {"loss": 2.0, "top": 0})


@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_lines_are_read_once_however_they_are_written(tmp_path_factory, parts, data):
    path = tmp_path_factory.mktemp("tail") / "metrics.jsonl"
    whole, tail, read = b"\n".join(parts), Tail(path), []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        with path.open("ab") as file:
            file.write(whole[start:stop])
        read += tail.read()
    read += tail.read(is_over=True)
    assert (
        read
        == (whole.split(b"\n")[:-1] + ([parts[-1]] if parts and parts[-1] else []))[: len(read)]
    )
    assert b"\n".join(read).rstrip(b"\n") == whole.rstrip(b"\n")


def test_a_file_that_was_begun_anew_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "metrics.jsonl"
    tail = Tail(path)
    assert list(tail.read()) == []
    path.write_bytes(b"one\ntwo\n")
    assert list(tail.read()) == [b"one", b"two"]
    path.write_bytes(b"new\n")
    assert list(tail.read()) == [b"new"]


def test_a_pipe_in_place_of_the_metrics_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(CorruptError):
        list(Tail(tmp_path / "metrics.jsonl").read())


def made(root: Path, text: str = "learned") -> tuple[Path, Path]:
    """Return the folder of a program that has learned something, and that of its checkpoints."""
    work, checkpoints = root / "program", root / "checkpoints"
    prepare(work, CONFIG, None, checkpoints)
    (work / "deep").mkdir()
    (work / "deep/weights.bin").write_text(text)
    return work, checkpoints


def test_what_is_kept_is_a_checkpoint_that_any_change_damages(tmp_path):
    work, checkpoints = made(tmp_path)
    kept = keep(work, checkpoints, 4, {"algorithm": "program"}, ("parent",))
    assert not work.exists()
    assert json.loads((kept / "program/config.json").read_text()) == CONFIG.told()
    assert (kept / "program/deep/weights.bin").read_text() == "learned"
    assert checkpoint.is_whole(kept)
    assert checkpoint.newest(tmp_path) == kept
    assert checkpoint.parents_below(checkpoints) == ("parent",)
    (kept / "program/deep/weights.bin").write_text("changed")
    assert not checkpoint.is_whole(kept)


def test_links_pipes_and_large_files_of_a_programs_own_do_no_harm(tmp_path):
    work, checkpoints = made(tmp_path / "parent")
    (work / "state.json").write_bytes(b"0" * (MAX_FILE + 1))
    (work / "latest").symlink_to(work / "deep/weights.bin")  # which dangles once the folder moves
    os.mkfifo(work / "pipe")
    kept = keep(work, checkpoints, 4, {}, ())
    assert checkpoint.is_whole(kept)
    child = tmp_path / "child/program"
    prepare(child, CONFIG, kept, tmp_path / "child/checkpoints")
    assert (child / "latest").is_symlink()
    assert not (child / "pipe").exists()


def test_a_number_that_no_float_holds_is_left_out():
    assert row_of(b'{"step": 3, "x": 1' + b"0" * 400 + b"}") == MetricsRow(3, {})


def test_a_child_begins_with_a_copy_of_its_parents_folder_and_its_own_parameters(tmp_path):
    kept = keep(*made(tmp_path / "parent"), 4, {}, ())
    child = tmp_path / "child/program"
    config = ProgramConfig(CONFIG.command, {"lr": 0.2}, 8)
    prepare(child, config, kept, tmp_path / "child/checkpoints")
    assert (child / "deep/weights.bin").read_text() == "learned"
    assert json.loads((child / "config.json").read_text()) == config.told()
    (child / "deep/weights.bin").write_text("learned more")
    assert checkpoint.is_whole(kept)
    prepare(child, config, kept, tmp_path / "child/checkpoints")
    assert (child / "deep/weights.bin").read_text() == "learned more", "an attempt goes on"


def test_a_damaged_parent_is_not_copied(tmp_path):
    kept = keep(*made(tmp_path / "parent"), 4, {}, ())
    (kept / "program/deep/weights.bin").unlink()
    with pytest.raises(CorruptError, match="is damaged"):
        prepare(tmp_path / "child", CONFIG, kept, tmp_path / "checkpoints")
    assert not (tmp_path / "child").exists()


class Killed(BaseException):
    """Stands for kill -9."""


@pytest.mark.parametrize("after", range(15))
def test_wherever_keeping_is_killed_the_next_attempt_loses_nothing(tmp_path, monkeypatch, after):
    work, checkpoints = made(tmp_path)
    left = [after]

    def counted(function):
        def call(*args, **kwargs):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", counted(Path.rename))
        for name in ("write_bytes", "flush", "sha256_of"):
            patch.setattr(folder_module, name, counted(getattr(folder_module, name)))
        try:
            keep(work, checkpoints, 4, {}, ())
        except Killed:
            pass
        else:
            pytest.fail("keeping takes fewer steps by now; try fewer")
    kept = checkpoints / "step-000000004"
    if not checkpoint.is_whole(kept):
        prepare(work, CONFIG, None, checkpoints)
        assert (work / "deep/weights.bin").read_text() == "learned"
        kept = keep(work, checkpoints, 4, {}, ())
    assert (kept / "program/deep/weights.bin").read_text() == "learned"
    assert [path.name for path in checkpoints.iterdir()] == [kept.name]


def test_a_row_holds_what_was_measured():
    assert row_of(b'{"step": 3, "loss": 0.5}') == MetricsRow(3, {"loss": 0.5})
