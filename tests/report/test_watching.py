"""What can be drawn over, and what is a log; a watched study in both."""

import io
import json
import re
import time

import pytest
from rich.console import Console
from screens import Screen
from views import METRIC

from hpsearch.report.progress import Watcher
from hpsearch.terminal import is_live

CURSOR = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhlsu]|\r")
"""control sequences that move, clear or hide; colours are none of them"""


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_terminal_is_live_and_a_file_is_not(terminal):
    assert is_live(Console(file=Screen()))
    assert not is_live(Console(file=io.StringIO()))


@pytest.mark.parametrize("value", ["true", "1", "woodpecker"])
def test_a_terminal_of_a_ci_service_is_a_log(terminal, value):
    terminal.setenv("CI", value)
    assert not is_live(Console(file=Screen()))


@pytest.mark.parametrize("value", ["", "false", "0", "False"])
def test_who_says_that_there_is_no_ci_has_none(terminal, value):
    terminal.setenv("CI", value)
    assert is_live(Console(file=Screen()))


def test_a_terminal_whose_cursor_cannot_move_is_a_log(terminal):
    terminal.setenv("TERM", "dumb")
    assert not is_live(Console(file=Screen()))


def test_colours_that_are_forced_make_no_terminal_of_a_file(terminal):
    terminal.setenv("FORCE_COLOR", "1")
    assert Console(file=io.StringIO()).is_terminal
    assert not is_live(Console(file=io.StringIO()))


def watched(story, clock, file, *, as_json=False) -> str:
    """Watch a study: three looks, a value, a trial that ends, looks at once and later, the end."""
    watcher = Watcher(Console(file=file, width=200), as_json=as_json)
    story.ask(0)
    story.run(0, job="00001")
    for seconds in (0, 2, 2):
        clock[0] += seconds
        watcher.show(story.view, is_over=False)
    clock[0] += 2
    story.report(0, 40, 0.0625)
    watcher.show(story.view, is_over=False)
    story.tell(0, "finished", 0.125)
    for seconds in (1, 8, 2):
        clock[0] += seconds
        watcher.show(story.view, is_over=False)
    watcher.show(story.view, is_over=True)
    return file.getvalue()


def test_a_log_gets_a_line_now_and_then_and_the_status_at_the_end(story, clock, terminal):
    terminal.setenv("FORCE_COLOR", "1")
    text = watched(story, clock, io.StringIO())
    assert not CURSOR.search(text)
    lines = text.splitlines()
    state = story.view.state.status
    assert lines[:4] == [
        f"[0:00] {state}: 0 of 6 (1 running) | no value yet",
        f"[0:06] {state}: 0 of 6 (1 running) | best {METRIC} 0.0625 so far (trial 0, step 40)",
        f"[0:07] {state}: 1 of 6 (1 finished) | best 0.1250 (trial 0)",
        f"[0:17] {state}: 1 of 6 (1 finished) | best 0.1250 (trial 0)",
    ]
    assert f"tiny: {story.view.status}" in lines[4]
    assert lines[5] == "trials: 1 of 6 (1 finished)"


def test_a_terminal_shows_the_status_in_one_place(story, clock, terminal):
    text = watched(story, clock, Screen())
    screens = text.split("\x1b[2J\x1b[H")
    assert screens[0] == ""
    assert len(screens) == 1 + 8
    for screen in screens[1:]:
        assert screen.count("trials: ") == 1


def test_a_program_gets_every_look(story, clock, terminal, capsys):
    assert watched(story, clock, io.StringIO(), as_json=True) == ""
    looks = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [look["trials"]["finished"] for look in looks] == [0, 0, 0, 0, 1, 1, 1, 1]
