"""hpsearch status, trials, best: look at a study without touching it."""

import json
import signal
from pathlib import Path

from rich.console import Console

from hpsearch.cluster.signals import stop_flag
from hpsearch.report.best import best_trial
from hpsearch.report.summary import status_summary, trial_summary
from hpsearch.report.text import print_best, print_status, trials_table
from hpsearch.report.view import StudyView, open_view
from hpsearch.report.watching import Watcher
from hpsearch.report.whole_lines import print_whole
from hpsearch.study.state import BUSY, PAUSED


def status(study: str, runs: Path, *, as_json: bool, every: float | None) -> int:
    """Print how far a study is; every so many seconds, if given, until it ends."""
    if every is None:
        _print_status(open_view(study, runs), as_json=as_json)
        return 0
    watcher = Watcher(Console(), as_json=as_json)
    with stop_flag((signal.SIGINT,)) as flag:
        while not flag.is_set:
            view = open_view(study, runs)
            is_over = view.state.status not in (*BUSY, PAUSED)
            watcher.show(view, is_over=is_over)
            if is_over:
                return 0
            flag.rest(every)
    raise KeyboardInterrupt  # by itself it may get lost in what Python does behind our back


def _print_status(view: StudyView, *, as_json: bool) -> None:
    summary = status_summary(view)
    if as_json:
        print(json.dumps(summary), flush=True)
    else:
        print_status(Console(), view, summary)


def trials(study: str, runs: Path, *, as_json: bool) -> int:
    """Print all trials of a study."""
    view = open_view(study, runs)
    listed = list(view.state.trials.values())
    if as_json:
        print(json.dumps([trial_summary(view, trial) for trial in listed], indent=1))
    else:
        print_whole(Console(), trials_table(view, listed))
    return 0


def best(study: str, runs: Path, *, as_json: bool) -> int:
    """Print the best finished trial."""
    view = open_view(study, runs)
    trial = best_trial(view)
    if as_json:
        print(json.dumps(trial_summary(view, trial), indent=1))
    else:
        print_best(Console(), view, trial)
    return 0
