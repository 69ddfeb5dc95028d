"""The live display of a running study: a panel on a terminal, a line now and then in a log.

A study watched by a process that does not drive it: its status drawn over, or a line in a log.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from hpsearch.printable import interval_text
from hpsearch.report.summary import status_summary
from hpsearch.report.text import (
    counts_text,
    duration_text,
    left_lines,
    print_status,
    time_left_text,
    trials_text,
)
from hpsearch.study.view import StudyView
from hpsearch.study.work import Pacer, TimeLeft, steps_in_all, steps_made, steps_per_second
from hpsearch.terminal import is_live

LOG_SECONDS = 10.0


@dataclass(frozen=True)
class Progress:
    elapsed: float
    """seconds in which its jobs were at work, before this run too, and those of this run"""
    done: float
    """share of the budget's training steps that are made, 0 to 1"""
    steps_per_second: float
    """training steps of all members together; where they pause, to measure or to begin, the last
    that was known"""
    time_left: TimeLeft | None
    """None while it is being measured"""
    counts: dict[str, int]
    trials: str
    """how many of the budget's have ended"""
    best_word: str
    """best, or champion, which may be worse than the one before"""
    best: str
    generation: str = ""
    """of a population, and how far its match is; empty for a search"""


class Meter:
    """Judges speed and time left from the looks since this run began."""

    def __init__(self, view: StudyView) -> None:
        """Remember where the study stood."""
        self._began = time.monotonic()
        self._seconds_before = seconds_at_work(view, time.time())
        self._pacer = Pacer(steps_made(view))
        self._speed = 0.0

    def read(self, view: StudyView) -> Progress:
        elapsed = time.monotonic() - self._began
        total, made = steps_in_all(view), steps_made(view)
        counts = view.state.counts()
        self._speed = steps_per_second(view) or (self._speed if counts["running"] else 0.0)
        return Progress(
            elapsed=self._seconds_before + elapsed,
            done=made / total,
            steps_per_second=self._speed,
            time_left=self._pacer.read(elapsed, made, total),
            counts=counts,
            trials=f"{view.state.num_done} of {view.study.spec.budget.trials}",
            best_word=view.best_word,
            best=_best_text(view),
            generation=generation_text(view),
        )


def generation_text(view: StudyView) -> str:
    """Return which generation of a population trains or plays, empty for a search.

    Members that fail or come late make more generations than the budget's, which then count.
    """
    options, record = view.study.spec.population, view.state.population
    if options is None:
        return ""
    match, number = record.match, record.num_judged + 1
    planned = ceil(view.study.spec.budget.trials / options.members)
    if match is None and not view.state.untold and number > planned:
        number = planned  # all have been judged
    if record.closing:
        text = f"closing generation {record.closing}"
    else:
        text = f"generation {number} of {max(number, planned)}"
    if match is None:
        return text
    played = view.folder.match(match.number).progress()
    if played is None:
        return f"{text}, match: waiting"
    if played[0] == played[1] and options.matches.best_response is not None:
        return f"{text}, match: all pairs have played, best responses train"
    return f"{text}, match: {played[0]} of {played[1]} pairs"


def seconds_at_work(view: StudyView, now: float) -> float:
    """Return for how long at least one job of the study was there, also before interruptions."""
    total, until = 0.0, 0.0
    for job in sorted(view.state.jobs.values(), key=lambda job: job.announced_at):
        end = now if job.ended_at is None else job.ended_at
        total += max(0.0, end - max(job.announced_at, until))
        until = max(until, end)
    return total


def progress_text(progress: Progress) -> str:
    parts = [
        f"{progress.trials} ({counts_text(progress.counts)})",
        *([progress.generation] if progress.generation else []),
        progress.best if progress.best_word == "best" else f"{progress.best_word} {progress.best}",
        *speed_texts(progress),
        *left_texts(progress),
    ]
    return " | ".join(parts)


def left_texts(progress: Progress) -> list[str]:
    """Return the time left; nothing while a match is played, in which no steps are made."""
    if "match" in progress.generation and not progress.counts["running"]:
        return []
    return [f"time left: {time_left_text(progress.time_left)}"]


def speed_texts(progress: Progress) -> list[str]:
    """Return the speed, with decimals where it is low: large networks make a step in seconds.

    Nothing while nothing trains, when the study is over or plays a match.
    """
    speed = progress.steps_per_second
    if not progress.counts["running"]:
        return []
    if not speed:
        return ["starting"]
    return [f"{speed:,.0f} steps/s" if speed >= 10 else f"{speed:.2g} steps/s"]


class Display:
    """Shows progress on a console; `show` is called as often as there is something to look at."""

    def __init__(self, console: Console, live: Live | None) -> None:
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
    times = [f"{duration_text(progress.elapsed)} passed", *left_texts(progress)]
    return Group(
        Text(f"trials: {progress.trials} ({counts_text(progress.counts)})"),
        *([Text(progress.generation)] if progress.generation else []),
        Text(f"{f'{progress.best_word}:':<7} {progress.best}"),
        *(Text(f"speed:  {speed}, all members together") for speed in speed_texts(progress)),
        Text(f"time:   {', '.join(times)}"),
        ProgressBar(total=1.0, completed=progress.done, width=60),
    )


def _best_text(view: StudyView) -> str:
    best = view.best()
    if best is None:
        return "no value yet"
    metric = view.study.spec.objectives[0].metric
    return f"{metric} {interval_text(best.metrics[metric])} (trial {best.number})"


class Watcher:
    """Shows a study again and again, as the console allows."""

    def __init__(self, console: Console, *, as_json: bool) -> None:
        """Show on ``console``; as JSON, every look is a line for programs."""
        self._console = console
        self._as_json = as_json
        self._began = time.monotonic()
        self._next_line = 0.0
        self._last: tuple[Any, ...] = ()

    def show(self, view: StudyView, *, is_over: bool) -> None:
        """Show one look; in a log, a line when something changed or LOG_SECONDS have passed."""
        summary = status_summary(view)
        if self._as_json:
            print(json.dumps(summary), flush=True)
        elif is_live(self._console):
            self._console.clear()
            print_status(self._console, view, summary)
        elif is_over:
            print_status(self._console, view, summary)
        else:
            self._log(summary)

    def _log(self, summary: Mapping[str, Any]) -> None:
        now, standing = time.monotonic(), (summary["state"], summary["trials"], summary["message"])
        if standing != self._last or now >= self._next_line:
            self._last, self._next_line = standing, now + LOG_SECONDS
            line = f"[{duration_text(now - self._began)}] {watch_text(summary)}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def watch_text(summary: Mapping[str, Any]) -> str:
    best = summary["best"]
    value = "no value yet"
    if best is not None and best["value"] is not None:
        population = summary["population"]
        is_champion = population is not None and population["champion"] is not None
        word = "champion" if is_champion else "best"
        value = f"{word} {best['value']:.4f} (trial {best['trial']})"
    parts = [
        f"{summary['state']}: {trials_text(summary)}",
        value,
        *left_lines(summary),
    ]
    return " | ".join([*parts, *filter(None, [summary["message"]])])
