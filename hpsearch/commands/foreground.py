"""Drives a study with a live display, or lines where there is no terminal, and exports its best."""

import signal
from pathlib import Path

from rich.console import Console

from hpsearch.cluster.failures import stop_flag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.driving import Drive, failure_of
from hpsearch.commands.executors import check_submission
from hpsearch.commands.export import NUM_GAMES, conditions, print_export
from hpsearch.errors import HpsearchError
from hpsearch.export.text import print_verdict
from hpsearch.names import runs_option
from hpsearch.report.progress import Meter, open_panel
from hpsearch.report.text import print_best
from hpsearch.study.options import SlurmOptions
from hpsearch.study.spec import Study
from hpsearch.study.state import FAILED, FINISHED
from hpsearch.study.view import StudyView, best_trial, standing_line
from hpsearch.terminal import Terminal, say


def drive_here(
    study: Study, runs: Path, console: Console, *, command_to_go_on: str
) -> StudyView | None:
    """Drive a study, shown on a console; None after Ctrl-C, when ``command_to_go_on`` is named."""
    folder = StudyDir((runs / study.spec.name).absolute())
    check_submission(study, folder, with_driver=False)
    meters: list[Meter] = []
    with stop_flag((signal.SIGINT, signal.SIGTERM)) as flag:
        with open_panel(console) as panel:

            def watch(view: StudyView) -> None:
                if not meters:
                    meters.append(Meter(view))
                panel.show_progress(meters[0].read(view))

            view = Drive(study, runs, flag, watch, is_detached=False).run()
        if not flag.is_set:
            return view
        say(f"interrupted; go on with: {command_to_go_on}")
        live = len(view.state.live_jobs())
        if live and isinstance(study.spec.executor, SlurmOptions):
            end = f"hpsearch cancel {study.spec.name}{runs_option(runs)}"
            say(f"{live} jobs go on; end them with: {end}")
        return None


def say_the_end(view: StudyView, *, export_best: bool) -> int:
    """Say what the study has come to, and export its best; return the exit code."""
    if view.state.status == FAILED:
        raise failure_of(view)
    if view.state.status != FINISHED:
        print(standing_line(view))
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
