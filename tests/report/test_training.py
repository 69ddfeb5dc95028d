"""The display of one trainer: a line an evaluation in a log, a panel on a terminal."""

import io
import re
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console, Group
from screens import Screen

from hpsearch.cluster.job_training import TrainingProgress
from hpsearch.report import progress as progress_module
from hpsearch.report.progress import (
    LOG_SECONDS,
    TrainingDisplay,
    metrics_table,
    metrics_text,
    open_panel,
    sample_tables,
)
from hpsearch.trainers.evaluation import SampleGame
from hpsearch.trainers.playing import record_game
from hpsearch.trainers.policies import ScriptedPolicy
from hpsearch.trainers.rho import Rho

METRICS = {
    "rho/host/choose_first": Rho(0.25, 0.2, 0.3125, 0.5, 40),
    "rho_sampled/host/choose_first": Rho(0.125, 0.1, 0.15, 0.0, 40),
}


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=50.0)
    monkeypatch.setattr(progress_module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def lines_of(clock, standings) -> list[str]:
    """Show standings (seconds from the start, standing) in a log and return its lines."""
    file = io.StringIO()
    with open_panel(Console(file=file, width=80)) as panel:
        display = TrainingDisplay(panel, 2000)
        began = clock.now
        for seconds, standing in standings:
            clock.now = began + seconds
            display.show(standing)
    return file.getvalue().splitlines()


def test_a_line_of_a_log(clock):
    standing = TrainingProgress((1500,), 1234.56, {0: METRICS})
    assert lines_of(clock, [(62.0, standing)]) == [
        "[1:02] step 1,500 of 2,000 | 1,234.6 steps/s | time left 0:00 | "
        "rho/host/choose_first 0.2500, rho_sampled/host/choose_first 0.1250"
    ]


def test_time_left_is_the_steps_left_by_the_speed(clock):
    lines = lines_of(
        clock,
        [
            (1.0, TrainingProgress((1000,), 10.0, {0: METRICS})),
            (2.0, TrainingProgress((1000,), 0.0, {0: METRICS})),
        ],
    )
    assert "time left 1:40 |" in lines[0]
    assert "time left unknown |" in lines[1]


def test_a_log_has_a_line_an_evaluation_and_one_now_and_then(clock):
    measured = {2, 3, 9}
    seconds = [0.1 * LOG_SECONDS * number for number in range(25)]
    standings = [
        (at, TrainingProgress((step,), 5.0, {0: METRICS} if step in measured else {}))
        for step, at in enumerate(seconds)
    ]
    steps = [int(re.search(r"step (\d+)", line)[1]) for line in lines_of(clock, standings)]
    # The first at once; then LOG_SECONDS, ten steps, after the last line.
    assert [step for step in steps if step in measured] == sorted(measured)
    assert [step for step in steps if step not in measured] in ([0, 19], [0, 20])


def test_a_log_holds_no_control_characters(clock):
    for line in lines_of(clock, [(1.0, TrainingProgress((5,), 2.0, {0: METRICS}))]):
        assert line.isprintable()


def test_a_terminal_shows_a_panel_with_the_last_metrics(terminal):
    file = Screen()
    console = Console(file=file, width=100, height=40)
    with open_panel(console) as panel:
        display = TrainingDisplay(panel, 200)
        display.show(TrainingProgress((50,), 20.0, {0: METRICS}))
        display.show(TrainingProgress((100,), 20.0, {}))
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue()).rpartition("step:")[2]
    assert "100 of 200" in last
    assert "20.0 steps/s" in last
    assert "0:05 left" in last
    assert "0.2500 [0.2000, 0.3125]" in last
    assert "50.0%" in last


@pytest.fixture
def samples():
    """Two games of three moves, the second one from a position that no line has room for."""
    long = [[90 - 9 * k, k * k, (k + 7) ** 2 % 41] for k in range(10)]
    starts = {"host": [[2, 0, 0], [0, 3, 0], [0, 0, 4]], "agent": long}
    return [
        SampleGame(
            role,
            "random",
            record_game(
                ScriptedPolicy("zeillinger"),
                ScriptedPolicy("choose_last"),
                torch.tensor(start, dtype=torch.int32),
                max_steps=3,
                reposition=True,
                key=1,
            ),
        )
        for role, start in starts.items()
    ]


def drawn(samples, *, height: int, width: int = 80, lines_above: int = 7) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(Group(*sample_tables(console, samples, lines_above=lines_above)))
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_sample_game_below_the_metrics(samples):
    assert drawn(samples[:1], height=14) == [
        "",
        "host against random, greedy",
        " move  points before  host   agent  points left",
        "    1  200 030 004    {0,1}      1            3",
        "    2  220 030 004    {0,1}      1            2",
        "    3  030 004        {1,2}      2            2",
        "not over after 3 moves: 030 001",
    ]


@pytest.mark.parametrize(("height", "num_games"), [(13, 0), (14, 1), (20, 1), (21, 2), (60, 2)])
def test_sample_games_are_shown_whole_where_there_is_room(samples, height, num_games):
    lines = drawn(samples, height=height)
    assert sum("against random, greedy" in line for line in lines) == num_games
    assert len(lines) in (7 * num_games, 1)
    assert 7 + 7 * num_games <= height or not num_games


@pytest.mark.parametrize("width", [60, 80, 100])
def test_long_positions_leave_room_for_the_choices(samples, width):
    lines = drawn(samples[1:], height=20, width=width)
    assert len(lines) == 7
    assert max(map(len, lines)) <= width
    rows = samples[1].game.rows()
    for line, (number, _, *choices) in zip(lines[3:6], rows, strict=True):
        first, *_, subset, axis, left = line.split()
        assert (first, subset, axis, left) == (number, *choices)


def test_a_terminal_shows_the_samples_of_the_last_evaluation(terminal, samples):
    file = Screen()
    with open_panel(Console(file=file, width=100, height=40)) as panel:
        display = TrainingDisplay(panel, 200)
        display.show(TrainingProgress((50,), 20.0, {0: METRICS}, {0: samples}))
        display.show(TrainingProgress((100,), 20.0, {}, {0: samples}))
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue()).rpartition("step:")[2]
    assert "host against random, greedy" in last
    assert "agent against random, greedy" in last


def test_a_log_shows_no_samples(clock, samples):
    standing = TrainingProgress((5,), 2.0, {0: METRICS}, {0: samples})
    assert len(lines_of(clock, [(1.0, standing)])) == 1


def test_the_table_of_metrics():
    plain = {
        name: {"value": r.value, "low": r.low, "high": r.high, "capped": r.capped, "games": r.games}
        for name, r in METRICS.items()
    }
    console = Console(file=io.StringIO(), width=80)
    console.print(metrics_table(plain))
    words = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert words == [
        "metric value [95 %] unfinished",
        "rho/host/choose_first 0.2500 [0.2000, 0.3125] 50.0%",
        "rho_sampled/host/choose_first 0.1250 [0.1000, 0.1500] 0.0%",
    ]
    assert metrics_text({}) == ""
