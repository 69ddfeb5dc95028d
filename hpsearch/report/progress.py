"""The live display of a running study: a panel on a terminal, a line now and then in a log."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from hpsearch.report.interval_text import interval_text
from hpsearch.report.live import is_live
from hpsearch.report.text import counts_text, duration_text
from hpsearch.report.view import StudyView
from hpsearch.report.work import steps_in_all, steps_made, steps_per_second

LOG_SECONDS = 10.0


@dataclass(frozen=True)
class Progress:
    """How far a study is."""

    elapsed: float
    """seconds since this run began"""
    done: float
    """share of the budget's training steps that are made, 0 to 1"""
    steps_per_second: float
    """training steps of all members together; where they pause, to measure or to begin, the last
    that was known"""
    time_left: float | None
    """seconds, None while there is nothing to judge by"""
    counts: dict[str, int]
    best: str


class Meter:
    """Judges speed and time left from the looks since this run began."""

    def __init__(self, view: StudyView) -> None:
        """Remember where the study stood."""
        self._began = time.monotonic()
        self._steps_before = steps_made(view)
        self._speed = 0.0

    def read(self, view: StudyView) -> Progress:
        """Return how far the study is now."""
        elapsed = time.monotonic() - self._began
        total = steps_in_all(view)
        made = steps_made(view)
        gained = made - self._steps_before
        left = (total - made) * elapsed / gained if gained > 0 else None
        counts = view.state.counts()
        self._speed = steps_per_second(view) or (self._speed if counts["running"] else 0.0)
        return Progress(
            elapsed=elapsed,
            done=made / total,
            steps_per_second=self._speed,
            time_left=left,
            counts=counts,
            best=_best_text(view),
        )


def progress_text(progress: Progress) -> str:
    """Return the progress as one line."""
    left = "unknown" if progress.time_left is None else duration_text(progress.time_left)
    return (
        f"{counts_text(progress.counts)} | {progress.best} | "
        f"{speed_text(progress)} | time left {left}"
    )


def speed_text(progress: Progress) -> str:
    """Return the speed, with decimals where it is low: large networks make a step in seconds."""
    speed = progress.steps_per_second
    if progress.counts["running"] and not speed:
        return "starting"
    return f"{speed:,.0f} steps/s" if speed >= 10 else f"{speed:.2g} steps/s"


class Display:
    """Shows progress on a console; `show` is called as often as there is something to look at."""

    def __init__(self, console: Console, live: Live | None) -> None:
        """Use `open_display`."""
        self._console = console
        self._live = live
        self._next_line = 0.0
        self._last_counts: dict[str, int] = {}

    def show(self, progress: Progress) -> None:
        """Show the progress; in a log, a line when trials changed state or LOG_SECONDS passed."""
        if self._live is not None:
            self._live.update(_panel(progress))
            return
        now = time.monotonic()
        if progress.counts != self._last_counts or now >= self._next_line:
            self._next_line = now + LOG_SECONDS
            self._last_counts = progress.counts
            line = f"[{duration_text(progress.elapsed)}] {progress_text(progress)}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def open_display(console: Console) -> Iterator[Display]:
    """Give a display that is live while the block runs, if the console can be."""
    if not is_live(console):
        yield Display(console, None)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield Display(console, live)


def _panel(progress: Progress) -> RenderableType:
    left = "" if progress.time_left is None else duration_text(progress.time_left)
    return Group(
        Text(f"trials: {counts_text(progress.counts)}"),
        Text(f"best:   {progress.best}"),
        Text(f"speed:  {speed_text(progress)}, all members together"),
        Text(f"time:   {duration_text(progress.elapsed)} passed, {left or 'unknown'} left"),
        ProgressBar(total=1.0, completed=progress.done, width=60),
    )


def _best_text(view: StudyView) -> str:
    best = view.best()
    if best is None:
        return "no value yet"
    metric = view.study.spec.objectives[0].metric
    return f"{metric} {interval_text(best.metrics[metric])} (trial {best.number})"
