"""The progress of a running study: speed and time left, on a terminal and in a log."""

import io
import time

import pytest
from rich.console import Console
from screens import Screen
from views import METRIC

from hpsearch.cluster.messages import Heartbeat
from hpsearch.report import progress as module
from hpsearch.report.progress import Meter, Progress, open_display, progress_text, speed_text
from hpsearch.report.text import duration_text

NOTHING = dict.fromkeys(("finished", "running", "waiting", "pruned", "failed"), 0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes forward when told to."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def beat(story, number: int, step: int, speed: float) -> None:
    attempt = story.view.folder.trial(number).attempt(1)
    attempt.write_heartbeat(Heartbeat(0.0, step, 0, speed, "here", 1, False))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (59.6, "1:00"),
        (61, "1:01"),
        (3599.4, "59:59"),
        (3600, "1:00:00"),
        (9e4, "25:00:00"),
    ],
)
def test_duration_text(seconds, text):
    assert duration_text(seconds) == text


def test_before_anything_is_known(story, clock):
    first = Meter(story.view).read(story.view)
    assert first == Progress(0.0, 0.0, 0.0, None, NOTHING, "no value yet")
    assert progress_text(first) == "none yet | no value yet | 0 steps/s | time left unknown"


def test_time_left_follows_the_steps_made(story, clock):
    """Six trials of 60 steps are 360; a tenth of them in 20 s leaves 180 s."""
    meter = Meter(story.view)
    for number in range(3):
        story.ask(number)
    story.run(0, 1, 2, job="00001")
    for number in range(3):
        beat(story, number, 12, 2.5)
    clock[0] += 20
    seen = meter.read(story.view)
    assert (seen.elapsed, seen.done, seen.time_left) == (20, 0.1, 180)
    assert seen.steps_per_second == 7.5
    story.tell(0, "finished", 0.1)  # all of its 60 steps count
    story.tell(1, "pruned")
    story.end(2, "interrupted", 24)
    seen = meter.read(story.view)
    assert seen.done == (60 + 60 + 24) / 360
    assert seen.time_left == pytest.approx(20 * 216 / 144)
    assert seen.steps_per_second == 0.0
    assert seen.counts["waiting"] == 1


def test_a_study_that_goes_on_is_judged_from_where_it_stood(story, clock):
    for number in range(3):
        story.ask(number)
        story.run(number, job=str(number))
        story.tell(number, "finished", 0.1)
    meter = Meter(story.view)
    assert meter.read(story.view).time_left is None
    story.ask(3)
    story.run(3, job="3")
    beat(story, 3, 45, 1.0)
    clock[0] += 15
    seen = meter.read(story.view)
    assert (seen.time_left, seen.done) == (45, 225 / 360)
    assert seen.best == f"{METRIC} 0.1000 [0.0900, 0.1100] (trial 0)"


def test_the_end_leaves_no_time(story, clock):
    meter = Meter(story.view)
    for number in range(6):
        story.ask(number)
        story.run(number, job=str(number))
        story.tell(number, "finished", 0.1)
    clock[0] += 5
    seen = meter.read(story.view)
    assert (seen.done, seen.time_left) == (1.0, 0.0)


def progress(finished: int) -> Progress:
    return Progress(5.0, 0.5, 1234.0, 65.0, NOTHING | {"finished": finished}, "rho 0.1")


def test_a_log_gets_a_line_when_something_changed_or_time_passed(clock):
    console = Console(file=io.StringIO(), width=40)  # lines are not broken for it
    with open_display(console) as display:
        for passed, finished in ((0, 1), (1, 1), (2, 2), (3, 2), (12.5, 2)):
            clock[0] = 100 + passed
            display.show(progress(finished))
    texts = [f"[0:05] {n} finished | rho 0.1 | 1,234 steps/s | time left 1:05" for n in (1, 2, 2)]
    assert console.file.getvalue().splitlines() == texts


def test_a_terminal_gets_a_live_panel(terminal):
    console = Console(file=Screen(), width=80)
    with open_display(console) as display:
        display.show(progress(1))
        display.show(progress(2))
    text = console.file.getvalue()
    assert "trials: " in text
    assert "2 finished" in text
    assert "1,234 steps/s, all members together" in text
    assert "0:05 passed, 1:05 left" in text
    assert "\x1b[?25h" in text  # the cursor is given back
    assert module.LOG_SECONDS > 0


def test_a_broken_block_gives_the_terminal_back(terminal):
    console = Console(file=Screen(), width=80)

    def interrupted() -> None:
        with open_display(console) as display:
            display.show(progress(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert console.file.getvalue().rstrip().endswith("\x1b[?25h")


@pytest.mark.parametrize(
    ("speed", "running", "text"),
    [
        (0.0, 0, "0 steps/s"),
        (0.0, 3, "starting"),
        (0.043, 3, "0.043 steps/s"),
        (9.4, 3, "9.4 steps/s"),
        (10.4, 3, "10 steps/s"),
        (1234.5, 3, "1,234 steps/s"),
    ],
)
def test_slow_steps_are_told_too(speed, running, text):
    counts = NOTHING | {"running": running}
    assert speed_text(Progress(1.0, 0.5, speed, None, counts, "")) == text
