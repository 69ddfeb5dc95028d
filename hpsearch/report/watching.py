"""A study watched by somebody who does not drive it: its status drawn over, or a line in a log."""

import json
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from hpsearch.report.live import is_live
from hpsearch.report.progress import LOG_SECONDS
from hpsearch.report.summary import status_summary
from hpsearch.report.text import duration_text, left_lines, print_status, trials_text
from hpsearch.report.view import StudyView


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
    """Return a status as one line."""
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
