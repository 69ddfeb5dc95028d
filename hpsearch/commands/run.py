"""hpsearch run, submit, pause, resume, stop, cancel, retry, enqueue, drive, tick, notify, track."""

import shlex
import signal
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch import errors
from hpsearch.cluster.failures import stop_flag
from hpsearch.commands.command import (
    STUDY,
    Command,
    argument,
    command,
    count,
    flag,
    option,
    positive,
)
from hpsearch.names import runs_option

if TYPE_CHECKING:
    from hpsearch.study.options import Occasion
    from hpsearch.study.requests import Verb


@command(
    "run a study in the foreground, or continue it",
    *STUDY,
    option(
        "--trials N",
        "trials in all, in place of the file's budget.trials; it holds, also for a later submit "
        "or resume, until that number in the file changes or --trials gives another",
        positive,
    ),
    flag("--no-export", "don't export the best at the end", to="export_best", value=False),
    examples=["studies/quickstart.yaml", "studies/quickstart.yaml --trials 32"],
    trains=True,
)
def run(study: str, runs: Path, *, trials: int | None, export_best: bool) -> int:
    from hpsearch.api.driving import find_study
    from hpsearch.api.foreground import drive_here
    from hpsearch.commands.ending import say_the_end
    from hpsearch.terminal import Terminal

    loaded, _ = find_study(study, runs, trials=trials)
    no_export = "" if export_best else " --no-export"
    command_to_go_on = f"hpsearch run {shlex.quote(study)}{runs_option(runs)}{no_export}"
    view = drive_here(
        loaded, runs, Terminal(outlives_reader=True), command_to_go_on=command_to_go_on
    )
    return errors.INTERRUPTED if view is None else say_the_end(view, export_best=export_best)


@command(
    "drive a submitted study without a terminal; what submit starts",
    *STUDY,
    examples=["quickstart"],
    trains=True,
)
def drive(study: str, runs: Path) -> int:
    from hpsearch.api.background import drive_patiently
    from hpsearch.api.driving import failure_of, find_study, open_outage
    from hpsearch.cluster.study_dir import StudyDir
    from hpsearch.study.recorder import AWAY
    from hpsearch.study.state import FAILED
    from hpsearch.terminal import say

    folder = StudyDir((runs / study).absolute())
    with stop_flag((signal.SIGTERM, signal.SIGINT)) as flag:
        try:
            outage = open_outage(folder, flag, waits_at_start=True)
            loaded, _ = outage.run(lambda: find_study(study, runs))
            view = drive_patiently(loaded, runs, flag)
        except (*AWAY, errors.ConflictError):
            if flag.is_set:
                return errors.INTERRUPTED
            raise
        if flag.is_set:
            return errors.INTERRUPTED
    if view.state.status == FAILED:
        # A failed study ends with this exit code even if a full disk was the cause: with that of
        # DiskError, the supervisor would start the driver again.
        say(f"{failure_of(view)}")
        return errors.StudyFailedError.exit_code
    # Imported here: torch and the rooms that look at studies come with it, which no round needs.
    from hpsearch.commands.ending import say_the_end

    try:
        return say_the_end(view, export_best=True)
    except (errors.DiskError, errors.StorageError, errors.StudyFailedError):
        raise
    except errors.HpsearchError as error:  # such as no finished trial: to start again is no help
        say(f"{error}")
        return 0


@command(
    "do one round of the driver and exit",
    *STUDY,
    examples=["studies/quickstart.yaml"],
    trains=True,
)
def tick(study: str, runs: Path) -> None:
    from hpsearch.api.driving import failure_of, find_study, opened_driver
    from hpsearch.study.state import FAILED
    from hpsearch.study.view import StudyView, standing_line

    loaded, folder = find_study(study, runs)
    with opened_driver(loaded, runs) as driver:
        driver.start(resume=False)
        driver.tick()
        while driver.is_hurried:  # it had no time for all that there is to do now
            driver.tick()
        driver.write_snapshot()
        view = StudyView(loaded, folder, driver.state, is_driven=True)
    if view.state.status == FAILED:
        raise failure_of(view)
    print(standing_line(view))


@command(
    "start a study and leave it to a driver without a terminal",
    *STUDY,
    examples=["studies/quickstart.yaml"],
    trains=True,
)
def submit(study: str, runs: Path) -> None:
    from hpsearch.api.study_handle import StudyHandle

    handle = StudyHandle(study, runs)
    if not handle.submit():
        print(f"{handle.name}: nothing is left to do")


def request(verb: "Verb", study: str, runs: Path) -> None:
    from hpsearch.api.study_handle import StudyHandle

    StudyHandle(study, runs).request(verb)


_VERBS: "dict[Verb, str]" = {
    "pause": "start nothing new until resume",
    "resume": "go on with a paused, stopped, cancelled or interrupted study",
    "stop": "end the study when what has begun has finished",
    "cancel": "end all jobs of a study at once",
}
pause, resume, stop, cancel = (
    Command(verb, partial(request, verb), summary, STUDY, ("quickstart",), verb == "resume")
    for verb, summary in _VERBS.items()
)


@command(
    "try failed trials again, as new ones, and start a driver if there is none",
    *STUDY,
    option(
        "--kind KIND", "retry failures of this kind; may be repeated", to="kinds", repeated=True
    ),
    option("--trial N", "retry this trial; may be repeated", int, to="numbers", repeated=True),
    examples=["quickstart --kind oom_host --kind nan"],
    trains=True,
)
def retry(study: str, runs: Path, *, kinds: Collection[str], numbers: Collection[int]) -> None:
    from hpsearch.api.study_handle import StudyHandle

    StudyHandle(study, runs).retry(kinds=kinds, trials=numbers)


@command(
    "let the next trial have values of your own",
    *STUDY,
    argument(
        "settings", "KEY=VALUE", "a parameter of the space, such as host.gamma=0.9", count="+"
    ),
    examples=["quickstart host.gamma=0.95"],
)
def enqueue(study: str, settings: Sequence[str], runs: Path) -> None:
    from hpsearch.api.steering import read_settings
    from hpsearch.api.study_handle import StudyHandle

    StudyHandle(study, runs).enqueue(read_settings(settings))


@command(
    "send what is new of all trials to the study's trackers, as drivers do too",
    *STUDY,
    flag("--watch", "go on until the study ends, or no driver is there", to="is_watching"),
    examples=["quickstart"],
)
def track(study: str, runs: Path, *, is_watching: bool) -> None:
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.api.tracking import track_on, track_once
    from hpsearch.terminal import say

    if is_watching:
        with stop_flag((signal.SIGINT, signal.SIGTERM)) as stop:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # a driver blocks it
            track_on(study, runs, stop, say)
        return
    view = StudyReader(study, runs).view()
    print(f"{view.name}: {track_once(view)} trials had something new")


@command(
    "send the notices of a study now: what drivers call, and a way to try them",
    *STUDY,
    option(
        "--of OCCASION",
        "those of this occasion alone: %(choices)s; default: all, to try them",
        choices=("ended", "failed", "stalled", "best"),
        to="occasion",
    ),
    option(
        "--notice N", "the one at this place of the file's list alone, from 0", count, to="place"
    ),
    examples=["studies/quickstart.yaml", "quickstart --of best"],
)
def notify(study: str, runs: Path, *, occasion: "Occasion | None", place: int | None) -> int:
    from hpsearch.api.notices import due_notices, send_notice
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.report.text import print_status, status_summary
    from hpsearch.study.view import unstarted_view
    from hpsearch.terminal import say, to_text

    try:
        view = StudyReader(study, runs).view()
    except errors.NotStartedError:
        view = unstarted_view(Path(study), runs)
    text = to_text(lambda console: print_status(console, view, status_summary(view)))
    code = 0
    for notice in due_notices(view, occasion, place):
        try:
            print(f"{view.name}: told {send_notice(notice, view, text, occasion)}", flush=True)
        except errors.HpsearchError as error:
            say(f"{error}")
            code = errors.HpsearchError.exit_code
    return code
