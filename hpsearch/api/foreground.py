"""Drives a study with a live display, or lines where there is no terminal."""

import signal
from pathlib import Path

from rich.console import Console

from hpsearch.api.driving import Drive
from hpsearch.api.executors import check_submission
from hpsearch.cluster.failures import stop_flag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError
from hpsearch.names import runs_option
from hpsearch.report.progress import Meter, open_panel
from hpsearch.study.opening import view_if_over
from hpsearch.study.options import LocalOptions
from hpsearch.study.recorder import AWAY
from hpsearch.study.spec import Study
from hpsearch.study.state import FINISHED
from hpsearch.study.view import StudyView
from hpsearch.terminal import say


def drive_here(
    study: Study, runs: Path, console: Console, *, command_to_go_on: str
) -> StudyView | None:
    """Drive a study, shown on a console; None after Ctrl-C, when ``command_to_go_on`` is named."""
    folder = StudyDir((runs / study.spec.name).absolute())
    if (over := view_if_over(study, folder)) is not None:
        if over.state.status == FINISHED:
            say(f"{over.name}: nothing is left to do")
        return over
    check_submission(study, folder, with_driver=False)
    meters: list[Meter] = []
    view: StudyView | None
    with stop_flag((signal.SIGINT, signal.SIGTERM)) as flag:
        with open_panel(console) as panel:

            def watch(view: StudyView) -> None:
                if not meters:
                    meters.append(Meter(view))
                panel.show_progress(meters[0].read(view))

            try:
                view = Drive(study, runs, flag, watch, is_detached=False).run()
            except (*AWAY, ConflictError) as error:
                if not flag.is_set:
                    raise
                # Ctrl-C while it waited for what is away, and so could not be told to save.
                say(f"{error}; running jobs go on, and the next run finds them")
                view = None
        if not flag.is_set:
            return view
        say(f"interrupted; go on with: {command_to_go_on}")
        live = 0 if view is None else len(view.state.live_jobs())
        if live and not isinstance(study.executor, LocalOptions):
            end = f"hpsearch cancel {study.spec.name}{runs_option(runs)}"
            say(f"{live} jobs go on; end them with: {end}")
        return None
