"""The live displays: of a running study and of one trainer, by panel or by lines in a log."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hpsearch.cluster.study_dir import COMPILING
from hpsearch.printable import interval_text
from hpsearch.report import text
from hpsearch.report.text import duration_text, time_left_text
from hpsearch.study.view import StudyView, counts_text
from hpsearch.study.work import (
    DONE,
    Pacer,
    TimeLeft,
    is_compiling,
    steps_in_all,
    steps_made,
    steps_per_second,
)
from hpsearch.terminal import is_live, print_line, text_table, to_html

if TYPE_CHECKING:
    from hpsearch.cluster.job_training import TrainingProgress  # which loads torch
    from hpsearch.trainers.evaluation import Metrics, SampleGame

LOG_SECONDS = 10.0


@dataclass(frozen=True)
class Progress:
    elapsed: float  # seconds in which its jobs were at work, in all runs
    done: float  # share of the budget's training steps that are made, 0 to 1
    steps_per_second: float  # of all members together; while they pause, the last that was known
    time_left: TimeLeft | None  # None while it is being measured
    counts: dict[str, int]
    trials: str  # how many of the budget's have ended
    best_word: str  # best, or champion, which may be worse than the one before
    best: str
    generation: str = ""  # of a population, and how far its match is; empty for a search
    is_compiling: bool = False  # whether a job compiles its kernels before it trains


class Meter:
    def __init__(self, view: StudyView) -> None:
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
            is_compiling=not self._speed and is_compiling(view),
        )


def _best_text(view: StudyView) -> str:
    best = view.best()
    if best is None:
        return text.leader_text(text.leader(view))
    return f"{view.metric} {interval_text(best.metrics[view.metric])} (trial {best.number})"


def generation_text(view: StudyView) -> str:
    """Return which generation trains or plays, empty for a search; late members make more."""
    options, record = view.study.spec.population, view.state.population
    if options is None:
        return ""
    match, number = record.match, record.num_judged + 1
    planned = ceil(view.study.spec.budget.trials / options.members)
    if match is None and not view.state.untold and number > planned:
        number = planned  # all have been judged
    which = f"generation {number} of {max(number, planned)}"
    if record.closing:
        which = f"closing generation {record.closing}"
    if match is None:
        return which
    played = view.folder.match(match.number).progress()
    if played is None:
        return f"{which}, match: waiting"
    if played[0] == played[1] and options.matches.best_response is not None:
        return f"{which}, match: all pairs have played, best responses train"
    return f"{which}, match: {played[0]} of {played[1]} pairs"


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
    """Return the time left; an empty list while no steps are made (a match, a last evaluation)."""
    if progress.counts["running"]:
        is_known = progress.time_left != DONE
    else:
        is_known = "match" not in progress.generation
    return [f"time left: {time_left_text(progress.time_left)}"] if is_known else []


def speed_texts(progress: Progress) -> list[str]:
    """Return the speed, with decimals where it is low; nothing while nothing trains."""
    speed = progress.steps_per_second
    if not progress.counts["running"]:
        return []
    if not speed:
        return [COMPILING if progress.is_compiling else "starting"]
    return [f"{speed:,.0f} steps/s" if speed >= 10 else f"{speed:.2g} steps/s"]


class LivePanel:
    """A panel on a terminal, drawn over again and again; in a log, a line now and then."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self.console = console
        self._live = live
        self._next_line = 0.0
        self._began = time.monotonic()
        self._key: object = None

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def show(
        self, panel: Callable[[], RenderableType], line: Callable[[], str], *, key: object
    ) -> None:
        """Show the panel; in a log, the line if the key is new or LOG_SECONDS have passed."""
        now = time.monotonic()
        if self._live is not None:
            self._live.update(panel())
        elif key != self._key or now >= self._next_line:
            self._next_line = now + LOG_SECONDS
            print_line(self.console, line())
        self._key = key

    def show_progress(self, progress: Progress) -> None:
        """Show how far a study is; a log gets a line when trials change or kernels compile.

        It also gets one with the first value.
        """
        line = f"[{duration_text(progress.elapsed)}] {progress_text(progress)}"
        key = (progress.counts, progress.is_compiling, progress.best == text.NO_VALUE)
        self.show(lambda: _panel(progress), lambda: line, key=key)


class NotebookPanel(LivePanel):
    """A panel below the cell of a notebook, drawn over again and again."""

    def __init__(self, console: Console) -> None:
        from IPython.display import HTML, display  # where there is a notebook, there is IPython

        super().__init__(console, None)
        self._as_html = HTML
        self._place = display(HTML(""), display_id=True)  # type: ignore[no-untyped-call]

    def show(
        self, panel: Callable[[], RenderableType], line: Callable[[], str], *, key: object
    ) -> None:
        """Show the panel."""
        drawn = panel()
        html = to_html(lambda console: console.print(drawn))
        self._place.update(self._as_html(html))  # type: ignore[no-untyped-call]


@contextmanager
def open_panel(console: Console) -> Iterator[LivePanel]:
    if console.is_jupyter:
        yield NotebookPanel(console)
        return
    if not is_live(console):
        yield LivePanel(console, None)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield LivePanel(console, live)


def _panel(progress: Progress) -> RenderableType:
    whose = ", all members together" if progress.steps_per_second else ""
    times = [f"{duration_text(progress.elapsed)} passed", *left_texts(progress)]
    return Group(
        Text(f"trials: {progress.trials} ({counts_text(progress.counts)})"),
        *([Text(progress.generation)] if progress.generation else []),
        Text(f"{f'{progress.best_word}:':<7} {progress.best}"),
        *(Text(f"speed:  {speed}{whose}") for speed in speed_texts(progress)),
        Text(f"time:   {', '.join(times)}"),
        ProgressBar(total=1.0, completed=progress.done, width=60),
    )


class Watcher:
    def __init__(self, console: Console, *, as_json: bool) -> None:
        self._console = console
        self._as_json = as_json
        self._log = LivePanel(console, None)

    def show(self, view: StudyView, *, is_over: bool) -> None:
        """Show one look; in a log, a line when something changed or LOG_SECONDS have passed."""
        summary = text.status_summary(view)
        if self._as_json:
            print(json.dumps(summary), flush=True)
            return
        if is_live(self._console):
            self._console.clear()
        if is_live(self._console) or is_over:
            text.print_status(self._console, view, summary)
            return
        has_value = summary["leader"] is not None
        key = summary["state"], summary["trials"], summary["message"], has_value
        passed = duration_text(self._log.elapsed)
        self._log.show(str, lambda: f"[{passed}] {watch_text(summary)}", key=key)


def watch_text(summary: Mapping[str, Any]) -> str:
    best = summary["best"]
    ahead = summary["leader"]
    value = text.NO_VALUE if ahead is None else f"best {text.leader_text(ahead)}"
    if best is not None and best["value"] is not None:
        is_champion = (summary["population"] or {}).get("champion") is not None
        word = "champion" if is_champion else "best"
        value = f"{word} {best['value']:.4f} (trial {best['trial']})"
    parts = [f"{summary['state']}: {text.trials_text(summary)}", value, *text.left_lines(summary)]
    return " | ".join([*parts, *filter(None, [summary["message"]])])


class TrainingDisplay:
    """Shows how far a trainer is; `show` is a population's watcher."""

    def __init__(self, panel: LivePanel, num_steps: int) -> None:
        self._shown = panel
        self._num_steps = num_steps
        self._metrics: Metrics = {}
        self._num_measured = 0  # evaluations so far

    def show(self, standing: "TrainingProgress") -> None:
        """Show the standing; a log gets a line with each evaluation."""
        (step,), speed = standing.steps, standing.steps_per_second
        measured = standing.measured.get(0)
        if measured is not None:
            self._metrics, self._num_measured = measured, self._num_measured + 1
        samples = standing.samples.get(0, ())
        passed = duration_text(self._shown.elapsed)
        left = duration_text((self._num_steps - step) / speed) if speed else "unknown"

        def panel() -> RenderableType:
            return Group(
                Text(f"step:   {step:,} of {self._num_steps:,}"),
                Text(f"speed:  {speed:,.1f} steps/s"),
                Text(f"time:   {passed} passed, {left} left"),
                ProgressBar(total=self._num_steps, completed=step, width=60),
                metrics_table({name: asdict(rho) for name, rho in self._metrics.items()}),
                *sample_tables(self._shown.console, samples, lines_above=5 + len(self._metrics)),
            )

        metrics = metrics_text(measured or {})
        line = (
            f"[{passed}] step {step:,} of {self._num_steps:,} | {speed:,.1f} steps/s | "
            f"time left {left}{f' | {metrics}' if metrics else ''}"
        )
        self._shown.show(panel, lambda: line, key=self._num_measured)


def sample_tables(
    console: Console, samples: Sequence["SampleGame"], *, lines_above: int
) -> Iterator[RenderableType]:
    """Yield the sample games for which a terminal has room below so many lines."""
    left = console.height - lines_above
    for sample in samples:
        rows = sample.game.rows()
        left -= len(rows) + 4
        if left < 0:
            return
        yield Text(f"\n{sample.title}", style="bold")
        yield game_table(console, rows)
        yield Text(sample.game.ending(), no_wrap=True, overflow="ellipsis")


def game_table(console: Console, rows: Sequence[Sequence[str]]) -> Table:
    """Return a game's rows as a table in which long positions are cut at the console's width."""
    from hpsearch.trainers.playing import COLUMNS

    table = text_table(COLUMNS, rows, left=("points before", "host"))
    points = table.columns[1]
    points.no_wrap, points.overflow, points.ratio = True, "ellipsis", 1
    table.width = console.measure(table).maximum
    return table


def metrics_text(metrics: "Metrics") -> str:
    return ", ".join(f"{name} {value.value:.4f}" for name, value in metrics.items())


def metrics_table(metrics: Mapping[str, Mapping[str, float]]) -> Table:
    rows = ((name, interval_text(rho), f"{rho['capped']:.1%}") for name, rho in metrics.items())
    return text_table(("metric", "value [95 %]", "unfinished"), rows)
