"""The list of all trials: as rich draws such a table, with and without a snapshot, and quickly."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from long_study import long_study, write_snapshot
from rich.console import Console
from rich.table import Table
from views import METRIC, Story, rho

from hpsearch.report.text import failures_lines
from hpsearch.study.snapshots import Stored
from hpsearch.study.view import in_columns, list_lines, open_view, trial_line

START = "from hpsearch.cli import entry; entry()"
GOAL = 1.0
"""seconds of a look at 100,000 trials, on a machine that starts Python within `PYTHON`"""
PYTHON = 0.01
"""seconds, as on the machine whose looks reports/benchmarks has; a slower one may take longer"""

ROWS = [
    ["trial", "state", METRIC, "lr"],
    ["7", "finished", "0.2000 [0.1900, 0.2100]", "0.001"],
    ["100000", "failed", "", "1e-05"],
]


def drawn_by_rich(rows: list[list[str]]) -> list[str]:
    table = Table(box=None)
    for place, name in enumerate(rows[0]):
        table.add_column(name, justify="left" if place == 1 else "right")
    for row in rows[1:]:
        table.add_row(*row)
    console = Console(file=io.StringIO(), width=1000)
    console.print(table)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("cell", ["plain", "ä 你好", ""])
def test_columns_stand_as_rich_puts_them(cell: str) -> None:
    rows = [*ROWS, ["8", "pruned", "0.1", cell]]
    assert list(in_columns([*zip(*rows, strict=True)])) == drawn_by_rich(rows)


def test_a_line_of_a_trial(story: Story) -> None:
    """Stored in snapshots: another line needs another `snapshots.VERSION`."""
    story.ask(0)
    story.run(0, job="00001")
    assert trial_line(story.view.study, story.view.state.trials[0]) == "running\t\t0.001\t0.9"
    story.add("told", 0, state="finished", value=0.5, metrics={METRIC: rho(0.5)}, **FINE)
    shown = "finished\t0.5000 [0.4900, 0.5100]\t0.001\t0.9"
    assert trial_line(story.view.study, story.view.state.trials[0]) == shown


FINE = {"failure": None, "message": ""}


def test_what_could_command_a_terminal_is_not_printed(story: Story) -> None:
    story.ask(0, **{"host.gamma": "\x1b[2J\tx"})
    assert trial_line(story.view.study, story.view.state.trials[0]).endswith("\t�[2J�x")


def test_a_snapshot_changes_no_list_and_no_status(tmp_path: Path) -> None:
    study = long_study(tmp_path, 600)
    runs = tmp_path / "runs"
    before = open_view("long", runs)
    whole, failures = list(list_lines(before)), failures_lines(before)
    assert len(whole) == 601
    write_snapshot(study)
    view = open_view("long", runs)
    assert isinstance(view.state.trials, Stored)
    assert list(list_lines(view)) == whole
    assert view.state.trials.num_stored > 400  # which need not have been read
    assert failures_lines(view) == failures
    assert failures[-1].endswith("more trials failed before; see: hpsearch trials long --json")
    assert view.best() == before.best()
    assert view.state == before.state
    assert list(list_lines(view)) == whole


@pytest.mark.parametrize("command", ["status", "trials"])
def test_a_look_loads_nothing_that_runs_studies(tmp_path: Path, command: str) -> None:
    long_study(tmp_path, 4)
    arguments = [command, "long", "--runs", str(tmp_path / "runs")]
    script = (
        f"import sys; from hpsearch.cli import main; main({arguments!r}); "
        "print(sorted({'optuna', 'submitit', 'numpy', 'torch'} & {*sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


def timed(*arguments: str) -> tuple[float, float, str]:
    """Return the seconds that Python takes for a script, those of processors, what it prints."""
    began, before = time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "-c", *arguments], check=True, capture_output=True, text=True
    )
    after = os.times()
    processor = after.children_user + after.children_system
    processor -= before.children_user + before.children_system
    return time.perf_counter() - began, processor, done.stdout


@pytest.mark.slow
@pytest.mark.alone
def test_looks_at_100_000_trials_take_less_than_a_second(tmp_path: Path) -> None:
    write_snapshot(long_study(tmp_path, 100_000))
    for command, num_lines in [("status", 20), ("trials", 100_001)]:
        starts, looks = [], []
        for _ in range(5):
            starts.append(timed("pass"))
            looks.append(timed(START, command, "long", "--runs", str(tmp_path / "runs")))
        assert len(looks[0][2].splitlines()) >= num_lines
        python = min(start[0] for start in starts)
        wall, processor = min(look[0] for look in looks), min(look[1] for look in looks)
        print(
            f"{command}: {wall:.2f} s, of processors {processor:.2f} s; "
            f"Python starts in {1000 * python:.1f} ms"
        )
        assert wall < GOAL * max(1.0, python / PYTHON), command
