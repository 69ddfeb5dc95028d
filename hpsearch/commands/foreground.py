"""Drives a study with a live display, or with a line now and then where there is no terminal."""

import signal
import time
from pathlib import Path

from rich.console import Console

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.driving import Drive, failure_of
from hpsearch.commands.executors import check_submission
from hpsearch.commands.export import NUM_GAMES, conditions, print_export
from hpsearch.errors import ConflictError, HpsearchError
from hpsearch.export.text import print_verdict
from hpsearch.names import runs_option
from hpsearch.report.progress import Meter, open_panel
from hpsearch.report.text import print_best, standing_text
from hpsearch.study.options import SlurmOptions
from hpsearch.study.spec import Study
from hpsearch.study.state import FAILED, FINISHED
from hpsearch.study.view import StudyView, best_trial
from hpsearch.terminal import Terminal, say

LEASE_PATIENCE = 3600.0  # seconds: a driver that lost its network may still hold the lease
LEASE_GLANCE_SECONDS = 10.0


def drive_here(
    study: Study, runs: Path, console: Console, *, command_to_go_on: str
) -> StudyView | None:
    """Drive a study, shown on a console; None after Ctrl-C, when ``command_to_go_on`` is named."""
    folder = StudyDir((runs / study.spec.name).absolute())
    check_submission(study, folder, with_driver=False)
    with stop_flag((signal.SIGINT, signal.SIGTERM)) as flag:
        view = _watched(study, runs, flag, console, is_detached=False)
        if not flag.is_set:
            return view
        say(f"interrupted; go on with: {command_to_go_on}")
        live = len(view.state.live_jobs())
        if live and isinstance(study.spec.executor, SlurmOptions):
            end = f"hpsearch cancel {study.spec.name}{runs_option(runs)}"
            say(f"{live} jobs go on; end them with: {end}")
        return None


def drive_patiently(study: Study, runs: Path, flag: StopFlag) -> StudyView:
    """Drive as soon as no other driver does: one that died elsewhere, or lost its network."""
    deadline = time.monotonic() + LEASE_PATIENCE
    while True:
        try:
            return _watched(study, runs, flag, Terminal(), is_detached=True)
        except ConflictError as error:
            if time.monotonic() > deadline or flag.is_set:
                raise
            say(f"{error}")
            flag.rest(LEASE_GLANCE_SECONDS)


def _watched(
    study: Study, runs: Path, flag: StopFlag, console: Console, *, is_detached: bool
) -> StudyView:
    meters: list[Meter] = []
    with open_panel(console) as panel:

        def watch(view: StudyView) -> None:
            if not meters:
                meters.append(Meter(view))
            panel.show_progress(meters[0].read(view))

        return Drive(study, runs, flag, watch, is_detached=is_detached).run()


def say_the_end(view: StudyView, *, export_best: bool) -> int:
    """Say what the study has come to, and export its best; return the exit code."""
    if view.state.status == FAILED:
        raise failure_of(view)
    if view.state.status != FINISHED:
        print(f"{view.name}: {view.state.status}, {standing_text(view.state)}")
        return 0
    console = Terminal()
    trial = best_trial(view)
    if not export_best:
        print_best(console, view, trial)
        return 0
    from hpsearch.export.writing import export_bundle  # it loads torch

    folder = view.folder.best
    try:
        measures = export_bundle(view, trial, folder, conditions(NUM_GAMES, key=None))
    except HpsearchError:
        print_best(console, view, trial)
        raise
    print_verdict(console, measures["rows"], trial.number, view.config(trial))
    print_best(console, view, trial)
    print_export(console, folder, measures)
    return 0
