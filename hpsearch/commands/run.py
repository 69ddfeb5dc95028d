"""hpsearch run, drive and tick: drive a study in the foreground, without a terminal, or a bit."""

import signal
import time
from functools import partial
from pathlib import Path

from rich.console import Console

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.driving import Drive, broken, held, open_outage
from hpsearch.commands.executors import check_submission, outlives_the_driver
from hpsearch.commands.export import NUM_GAMES, print_export, write_export
from hpsearch.commands.find import find_study, runs_option
from hpsearch.errors import (
    INTERRUPTED,
    ConflictError,
    DiskError,
    HpsearchError,
    StorageError,
    StudyFailedError,
)
from hpsearch.export.text import print_verdict
from hpsearch.report.progress import Meter, open_display
from hpsearch.report.text import print_best, standing_text
from hpsearch.study.driver import Driver
from hpsearch.study.recorder import AWAY
from hpsearch.study.spec import Study
from hpsearch.study.state import FAILED, FINISHED
from hpsearch.study.trial_list import trial_line
from hpsearch.study.view import StudyView, best_trial
from hpsearch.terminal import Terminal, say

LEAVE_SECONDS = 30.0
"""how long running jobs get to save their trials after Ctrl-C"""
ASK_AGAIN_SECONDS = 0.5
LEASE_PATIENCE = 3600.0
"""seconds for which a submitted driver waits for the lease, which one that was cut off may hold"""
LEASE_GLANCE_SECONDS = 10.0


def run(study: str, runs: Path, *, trials: int | None, export_best: bool) -> int:
    """Drive a study to its end, or until Ctrl-C; the same command goes on with it.

    ``trials`` is a total in place of the file's, which `study.given_total` remembers.
    """
    wanted, _ = find_study(study, runs, trials=trials)
    again = f"hpsearch run {wanted.path}{runs_option(runs)}"
    view = drive_here(wanted, runs, Terminal(), again=again)
    return INTERRUPTED if view is None else say_the_end(view, export_best=export_best)


def drive_here(study: Study, runs: Path, console: Console, *, again: str) -> StudyView | None:
    """Drive a study in the foreground; None after Ctrl-C, when ``again`` is said to go on with it.

    Args:
        study: to drive.
        runs: the folder of the studies' folders.
        console: shows how far the study is.
        again: the command that goes on.
    """
    folder = StudyDir((runs / study.spec.name).absolute())
    check_submission(study, folder, with_driver=False)
    with stop_flag((signal.SIGINT, signal.SIGTERM)) as flag:
        view = _watched(study, runs, flag, console, resume=True)
        if not flag.is_set:
            return view
        say(f"interrupted; go on with: {again}")
        live = len(view.state.live_jobs())
        if live and outlives_the_driver(study):
            end = f"hpsearch cancel {study.spec.name}{runs_option(runs)}"
            say(f"{live} jobs go on; end them with: {end}")
        return None


def drive_detached(study: str, runs: Path) -> int:
    """Drive a study that was submitted, without a terminal; `cluster.supervisor` starts it."""
    folder = StudyDir((runs / study).absolute())
    with stop_flag((signal.SIGTERM, signal.SIGINT)) as flag:
        try:
            outage = open_outage(folder, flag, waits_at_start=True)
            wanted, _ = outage.run(lambda: find_study(study, runs))
            view = _patiently(wanted, runs, flag)
        except (*AWAY, ConflictError):
            if flag.is_set:
                return INTERRUPTED
            raise
        if flag.is_set:
            return INTERRUPTED
    if view.state.status == FAILED:
        # Final, even where a full disk was the cause, for which a driver is started again else.
        say(f"{broken(view)}")
        return StudyFailedError.exit_code
    try:
        return say_the_end(view, export_best=True)
    except (DiskError, StorageError, StudyFailedError):
        raise
    except HpsearchError as error:  # such as that no trial has finished: to start again is no help
        say(f"{error}")
        return 0


def tick(study: str, runs: Path) -> int:
    """Do one round of the driver; a scheduler such as cron may call it again and again."""
    wanted, folder = find_study(study, runs)
    with held(wanted, folder, runs) as driver:
        driver.start(resume=False)
        driver.tick()
        driver.write_snapshot(partial(trial_line, wanted))
        view = StudyView(wanted, folder, driver.state, is_driven=True)
    if view.state.status == FAILED:
        raise broken(view)
    print(f"{wanted.spec.name}: {view.state.status}, {standing_text(view.state)}")
    return 0


def _patiently(study: Study, runs: Path, flag: StopFlag) -> StudyView:
    """Drive as soon as no other driver does: one that died elsewhere, or lost its network."""
    deadline = time.monotonic() + LEASE_PATIENCE
    while True:
        try:
            return _watched(study, runs, flag, Terminal(), resume=False)
        except ConflictError as error:
            if time.monotonic() > deadline or flag.is_set:
                raise
            say(f"{error}")
            flag.rest(LEASE_GLANCE_SECONDS)


def _watched(
    study: Study, runs: Path, flag: StopFlag, console: Console, *, resume: bool
) -> StudyView:
    """Drive with a display, which is a line now and then where there is no terminal."""
    meters: list[Meter] = []
    with open_display(console) as display:

        def watch(view: StudyView) -> None:
            if not meters:
                meters.append(Meter(view))
            display.show(meters[0].read(view))

        def leave(driver: Driver) -> None:
            if not outlives_the_driver(study) and resume:
                _leave(driver, flag)

        drive = Drive(
            study, runs, flag, resume=resume, waits_at_start=not resume, watch=watch, leave=leave
        )
        return drive.run()


def _leave(driver: Driver, flag: StopFlag) -> None:
    """Let running jobs save their trials."""
    say("stopping; running trials are saved ...")
    deadline = time.monotonic() + LEAVE_SECONDS
    flag.is_set = False  # a second Ctrl-C ends the waiting
    try:
        while driver.state.live_jobs() and time.monotonic() < deadline and not flag.is_set:
            driver.interrupt()  # again and again: a job that is still starting does not listen
            time.sleep(ASK_AGAIN_SECONDS)
            driver.collect()
    finally:
        flag.is_set = True
    if driver.state.live_jobs():
        say("some jobs still save; the next run finds them")


def say_the_end(view: StudyView, *, export_best: bool) -> int:
    """Say what the study has come to, and export its best; return the exit code."""
    if view.state.status == FAILED:
        raise broken(view)
    if view.state.status != FINISHED:
        print(f"{view.study.spec.name}: {view.state.status}, {standing_text(view.state)}")
        return 0
    console = Terminal()
    trial = best_trial(view)
    if not export_best:
        print_best(console, view, trial)
        return 0
    try:
        folder, measures = write_export(view, trial, None, NUM_GAMES, key=None)
    except HpsearchError:
        print_best(console, view, trial)
        raise
    print_verdict(console, measures["rows"], trial.number, view.config(trial))
    print_best(console, view, trial)
    print_export(console, folder, measures)
    return 0
