"""The live display of one trainer: a panel on a terminal, a line now and then in a log."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hpsearch.cluster.population import PopulationProgress
from hpsearch.printable import interval_text
from hpsearch.report.progress import LOG_SECONDS
from hpsearch.report.text import duration_text
from hpsearch.terminal import is_live
from hpsearch.trainers.evaluation import Metrics


class TrainingDisplay:
    """Shows how far a trainer is; `show` is a population's watcher."""

    def __init__(self, console: Console, live: Live | None, num_steps: int) -> None:
        """Use `open_training_display`; ``num_steps`` are made in all."""
        self._console = console
        self._live = live
        self._num_steps = num_steps
        self._began = time.monotonic()
        self._next_line = 0.0
        self._metrics: Metrics = {}

    def show(self, standing: PopulationProgress) -> None:
        """Show the standing; in a log, a line an evaluation or when LOG_SECONDS have passed."""
        (step,) = standing.steps
        measured = standing.measured.get(0)
        if measured is not None:
            self._metrics = measured
        if self._live is not None:
            self._live.update(self._panel(step, standing.steps_per_second))
            return
        now = time.monotonic()
        if measured is not None or now >= self._next_line:
            self._next_line = now + LOG_SECONDS
            self._console.print(self._line(step, standing), highlight=False, soft_wrap=True)

    def _line(self, step: int, standing: PopulationProgress) -> Text:
        measured = metrics_text(standing.measured.get(0, {}))
        left = self._time_left(step, standing.steps_per_second)
        passed = duration_text(time.monotonic() - self._began)
        return Text(
            f"[{passed}] step {step:,} of {self._num_steps:,} | "
            f"{standing.steps_per_second:,.1f} steps/s | time left {left}"
            + (f" | {measured}" if measured else "")
        )

    def _panel(self, step: int, steps_per_second: float) -> RenderableType:
        passed = duration_text(time.monotonic() - self._began)
        return Group(
            Text(f"step:   {step:,} of {self._num_steps:,}"),
            Text(f"speed:  {steps_per_second:,.1f} steps/s"),
            Text(f"time:   {passed} passed, {self._time_left(step, steps_per_second)} left"),
            ProgressBar(total=self._num_steps, completed=step, width=60),
            metrics_table(self._metrics),
        )

    def _time_left(self, step: int, steps_per_second: float) -> str:
        if not steps_per_second:
            return "unknown"
        return duration_text((self._num_steps - step) / steps_per_second)


@contextmanager
def open_training_display(console: Console, num_steps: int) -> Iterator[TrainingDisplay]:
    """Give a display that is live while the block runs, if the console can be."""
    if not is_live(console):
        yield TrainingDisplay(console, None, num_steps)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield TrainingDisplay(console, live, num_steps)


def metrics_text(metrics: Metrics) -> str:
    return ", ".join(f"{name} {value.value:.4f}" for name, value in metrics.items())


def metrics_table(metrics: Metrics) -> Table:
    """Return a row a metric: value with interval, share of games that did not finish."""
    return plain_metrics_table({name: asdict(value) for name, value in metrics.items()})


def plain_metrics_table(metrics: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("metric")
    table.add_column("value [95 %]", justify="right")
    table.add_column("unfinished", justify="right")
    for name, value in metrics.items():
        table.add_row(name, interval_text(value), f"{value['capped']:.1%}")
    return table
