"""Progress of `run`, `train` and `status --watch` where people read it: terminals, logs, CI."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from cli_tools import PATIENCE_SECONDS, write_study, write_trainer

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
MOVES = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]|\r(?!\n)")
"""control sequences other than colours"""
LINE = re.compile(r"^\[\d+:\d\d\] .*time left", flags=re.MULTILINE)


def surroundings(changes: dict[str, str]) -> dict[str, str]:
    return os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"} | changes


def on_terminal(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run one command whose three streams are a terminal, and return what it showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hpsearch.cli", *arguments],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=surroundings(env or {}),
        start_new_session=True,
    )
    os.close(theirs)
    text = b""
    try:
        with suppress(OSError):  # the writer has ended
            while True:
                text += os.read(ours, 65536)
        assert process.wait(PATIENCE_SECONDS) == 0, text.decode()
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    return text.decode()


def in_log(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run one command whose output goes to a file, and return the file."""
    log = folder / "log.txt"
    with log.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "hpsearch.cli", *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=surroundings(env or {}),
            timeout=PATIENCE_SECONDS,
        )
    assert done.returncode == 0, log.read_text()
    return log.read_text()


@pytest.fixture
def study(tmp_path):
    write_study(tmp_path, {"budget/trials": 3, "executor/jobs": 1})
    return tmp_path


@pytest.mark.slow
def test_a_run_on_a_terminal_is_drawn_over(study):
    text = on_terminal(study, "run", "study.yaml", "--no-export")
    assert text.count(HIDDEN) == text.count(SHOWN) == 1
    assert re.search(r"\x1b\[\dA", text)  # up, to draw again
    plain = CONTROL.sub("", text)
    assert not LINE.search(plain)
    assert "trials: 3 of 3 (3 finished)" in plain
    assert re.search(r"^best: trial \d", plain.rpartition("passed, ")[2], flags=re.MULTILINE)
    # Where it ended, others see it too; both ways of watching end with it.
    text = on_terminal(study, "status", "tiny", "--watch")
    assert text.startswith("\x1b[2J\x1b[H")
    assert "tiny: finished" in CONTROL.sub("", text)
    text = in_log(study, "status", "tiny", "--watch", env={"FORCE_COLOR": "1"})
    assert not MOVES.search(text)
    assert "tiny: finished" in CONTROL.sub("", text)


@pytest.mark.slow
def test_a_run_in_a_log_of_ci_is_lines(study):
    """As GitHub's runners have it: a pipe, CI set, colours forced."""
    text = in_log(study, "run", "study.yaml", "--no-export", env={"CI": "true", "FORCE_COLOR": "1"})
    assert not MOVES.search(text)
    lines = LINE.findall(CONTROL.sub("", text))
    assert 2 <= len(lines) <= 20
    assert "3 finished" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    "env", [{"CI": "true"}, {"TERM": "dumb"}], ids=["terminal of CI", "dumb terminal"]
)
def test_training_on_a_terminal_that_keeps_everything_is_lines(tmp_path, env):
    write_trainer(tmp_path)
    text = on_terminal(tmp_path, "train", "trainer.yaml", env=env)
    assert not MOVES.search(text)
    assert 3 <= len(LINE.findall(CONTROL.sub("", text).replace("\r", ""))) <= 20


@pytest.mark.slow
def test_training_on_a_terminal_is_drawn_over(tmp_path):
    write_trainer(tmp_path)
    text = on_terminal(tmp_path, "train", "trainer.yaml")
    assert text.count(HIDDEN) == text.count(SHOWN) == 1
    plain = CONTROL.sub("", text)
    assert not LINE.search(plain)
    assert "step:   60 of 60" in plain


@pytest.mark.slow
def test_training_in_a_log_is_plain_lines(tmp_path):
    write_trainer(tmp_path)
    text = in_log(tmp_path, "train", "trainer.yaml")
    assert not CONTROL.search(text)
    assert 3 <= len(LINE.findall(text)) <= 20
