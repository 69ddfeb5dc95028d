"""hpsearch run and tick: drive a study."""

import signal
import sys
import time
from pathlib import Path

from rich.console import Console

from hpsearch.cluster.local import LocalExecutor
from hpsearch.cluster.signals import StopFlag, stop_flag
from hpsearch.commands.export import print_export, write_export
from hpsearch.commands.find import find_study
from hpsearch.errors import INTERRUPTED, StudyFailedError
from hpsearch.report.best import best_trial
from hpsearch.report.driver_log import DriverLog
from hpsearch.report.progress import Meter, open_display
from hpsearch.report.text import counts_text, print_best
from hpsearch.report.view import StudyView
from hpsearch.study.driver import Driver
from hpsearch.study.opening import open_driver
from hpsearch.study.spec import Study
from hpsearch.study.state import FAIL, FAILED, FINISHED, RUNNING

TICK_SECONDS = 0.5
LEAVE_SECONDS = 30.0
"""how long running jobs get to save their trials after Ctrl-C"""


def run(name_or_file: str, runs: Path, *, export_best: bool) -> int:
    """Drive a study to its end, or until Ctrl-C; the same command goes on with it."""
    study, folder = find_study(name_or_file, runs)
    console = Console()
    with (
        stop_flag((signal.SIGINT, signal.SIGTERM)) as flag,
        DriverLog(folder.log) as log,
        open_driver(study, runs, LocalExecutor(), on_event=log.write) as driver,
    ):
        driver.start()
        view = StudyView(study, folder, driver.state, is_driven=True)
        _drive(driver, view, console, flag)
        if flag.is_set:
            return _leave(driver, study, runs, flag)
    if view.state.status == FAILED:
        raise _broken(view)
    if view.state.status == FINISHED:
        _conclude(view, console, export_best=export_best)
    return 0


def tick(name_or_file: str, runs: Path) -> int:
    """Do one round of the driver; a scheduler such as cron may call it again and again."""
    study, folder = find_study(name_or_file, runs)
    with (
        DriverLog(folder.log) as log,
        open_driver(study, runs, LocalExecutor(), on_event=log.write) as driver,
    ):
        driver.start()
        driver.tick()
        view = StudyView(study, folder, driver.state, is_driven=True)
    if view.state.status == FAILED:
        raise _broken(view)
    print(f"{study.spec.name}: {view.state.status}, {counts_text(view.state.counts())}")
    return 0


def _drive(driver: Driver, view: StudyView, console: Console, flag: StopFlag) -> None:
    meter = Meter(view)
    with open_display(console) as display:
        while driver.state.status == RUNNING and not flag.is_set:
            driver.tick()
            display.show(meter.read(view))
            time.sleep(TICK_SECONDS)


def _leave(driver: Driver, study: Study, runs: Path, flag: StopFlag) -> int:
    """Let running jobs save their trials, then say how to go on."""
    print("hpsearch: stopping; running trials are saved ...", file=sys.stderr, flush=True)
    deadline = time.monotonic() + LEAVE_SECONDS
    flag.is_set = False  # a second Ctrl-C ends the waiting
    while driver.state.live_jobs() and time.monotonic() < deadline and not flag.is_set:
        driver.interrupt()  # again and again: a job that is still starting does not listen
        time.sleep(TICK_SECONDS)
        driver.collect()
    if driver.state.live_jobs():
        print("hpsearch: some jobs still save; the next run finds them", file=sys.stderr)
    elsewhere = "" if runs == Path("runs") else f" --runs {runs}"
    print(
        f"hpsearch: interrupted; go on with: hpsearch run {study.path}{elsewhere}",
        file=sys.stderr,
    )
    return INTERRUPTED


def _broken(view: StudyView) -> StudyFailedError:
    """Return the error of a study that failed, its causes grouped."""
    causes: dict[str, list[int]] = {}
    for trial in view.state.told(FAIL):
        causes.setdefault(f"{trial.failure}: {trial.message}", []).append(trial.number)
    grouped = "".join(
        f"\n  - {cause} (trials {', '.join(map(str, numbers))})"
        for cause, numbers in causes.items()
    )
    return StudyFailedError(
        f"the study {view.study.spec.name} stopped: more than "
        f"{view.study.spec.max_failures} trials failed:{grouped}\n"
        f"see the logs under {view.folder.root / 'jobs'}; raise max_failures to go on all the same"
    )


def _conclude(view: StudyView, console: Console, *, export_best: bool) -> None:
    trial = best_trial(view)
    print_best(console, view, trial)
    if export_best:
        folder, measures = write_export(view, trial, None)
        print_export(console, folder, measures)
