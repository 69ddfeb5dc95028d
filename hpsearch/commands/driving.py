"""Driving a study to its end, whatever happens to the database meanwhile."""

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from hpsearch.cluster.detached import forget_retry, note_retry
from hpsearch.cluster.executor import Executor
from hpsearch.cluster.failures import DISK, StopFlag
from hpsearch.cluster.pins import pin_founders
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.executors import build_executor, poll_seconds
from hpsearch.commands.find import study_to_resume
from hpsearch.errors import DiskError, HpsearchError, StudyFailedError
from hpsearch.study import requests
from hpsearch.study.driver import Driver
from hpsearch.study.events import DriverLog
from hpsearch.study.gauges import DriverFigures, GaugeKeeper
from hpsearch.study.opening import open_driver
from hpsearch.study.recorder import Outage
from hpsearch.study.records import FAIL
from hpsearch.study.requests import DriverNotes, forget_start
from hpsearch.study.spec import Study, spec_json
from hpsearch.study.view import StudyView
from hpsearch.terminal import say

GLANCE_SECONDS = 0.2
"""between two looks at signals and requests"""


@contextmanager
def held(study: Study, folder: StudyDir, runs: Path) -> Iterator[Driver]:
    """Hold a study for a moment, as its driver.

    Raises:
        ConflictError: if another driver holds it.
        StorageError: if the database cannot be used.
    """
    with (
        DriverLog(folder.log) as log,
        open_driver(study, runs, build_executor(study, folder), on_event=log.write) as driver,
    ):
        _keep_founders(study, folder)
        yield driver


class Drive:
    """Drives a study until nothing is left to do, or the flag is set.

    It waits for a database that goes away meanwhile, and goes on with a changed study file where a
    user asks for that.
    """

    def __init__(
        self,
        study: Study,
        runs: Path,
        flag: StopFlag,
        *,
        resume: bool,
        waits_at_start: bool,
        watch: Callable[[StudyView], None],
        leave: Callable[[Driver], None],
    ) -> None:
        """Take what to drive, and how.

        Args:
            study: to drive.
            runs: the folder of the studies' folders.
            flag: ends the driving.
            resume: whether to go on with a study that a user has paused, stopped or cancelled. A
                user who does that while it is driven lets its file be read again.
            waits_at_start: whether to wait for a database or scheduler that does not answer yet.
            watch: called after every round.
            leave: called when the flag ended the driving, while the driver still holds the study.
        """
        self._study = study
        self._runs = runs
        self._flag = flag
        self._resume = resume
        self._watch = watch
        self._leave = leave
        self._folder = folder = StudyDir((runs / study.spec.name).absolute())
        self._open_outage = partial(open_outage, folder, flag, waits_at_start=waits_at_start)
        self._outage = self._open_outage()
        self._notes = DriverNotes(folder)
        self._gauges = GaugeKeeper(study.spec.prometheus, partial(_tell, folder))

    def run(self) -> StudyView:
        """Drive; return how the study is at the end.

        Raises:
            ConflictError: if another driver holds the study.
            StorageError: if the database cannot be used, or stayed away for a day.
        """
        with closing(self._gauges):  # they outlast an outage of the database
            while True:
                build = partial(build_executor, self._study, self._folder)
                executor = self._open_outage().run(build)
                end = self._outage.run(partial(self._hold, executor))
                if isinstance(end, StudyView):
                    return end
                self._study = end

    def _hold(self, executor: Executor) -> StudyView | Study:
        """Return how the study is at the end, or its changed file, to be driven from then on."""
        study, folder = self._study, self._folder
        with (
            DriverLog(folder.log) as log,
            open_driver(study, self._runs, executor, on_event=log.write) as driver,
        ):
            self._outage.reached()
            forget_retry(folder)
            _keep_founders(study, folder)
            driver.start(resume=self._resume)
            view = StudyView(study, folder, driver.state, is_driven=True)
            changed = self._do_rounds(driver, executor, view)
            if changed is not None:
                return changed
            if self._flag.is_set:
                self._leave(driver)
            else:
                forget_start(folder)
            driver.write_snapshot()
            return view

    def _do_rounds(self, driver: Driver, executor: Executor, view: StudyView) -> Study | None:
        """Do rounds to the end; return the changed study file if a user resumes with one."""
        folder = self._folder
        while (driver.is_busy or requests.waiting(folder)) and not self._flag.is_set:
            is_resumed = any(request.verb == "resume" for request in requests.waiting(folder))
            began = time.perf_counter()
            driver.tick()
            seconds, calls = time.perf_counter() - began, executor.num_calls
            self._notes.write(tick_seconds=seconds, num_calls=calls, refusal=driver.refusal)
            driver.write_snapshot(if_due=True)
            is_refused = driver.refusal is not None
            self._gauges.keep(view, DriverFigures(seconds, calls, is_refused, driver.beats))
            self._watch(view)
            if is_resumed and spec_json(changed := study_to_resume(view)) != spec_json(self._study):
                return changed
            if driver.is_busy:
                _rest(poll_seconds(self._study), self._flag, folder)
        return None


def open_outage(folder: StudyDir, flag: StopFlag, *, waits_at_start: bool) -> Outage:
    """Return what waits for what is away, says so, and notes it for `hpsearch status`."""
    return Outage(
        say,
        note=lambda sentence: note_retry(folder, sentence),
        waits_at_start=waits_at_start,
        should_stop=lambda: flag.is_set,
    )


def _keep_founders(study: Study, folder: StudyDir) -> None:
    """Let gc of other studies keep the founders: their children may have to begin again."""
    population = study.spec.population
    founders = () if population is None else population.founders
    try:
        pin_founders(folder, (study.path.parent / founder for founder in founders))
    except DiskError as error:  # another user's study, which may be read all the same
        say(f"{error}; hpsearch gc of that study may remove the founders of {study.spec.name}")


def _tell(folder: StudyDir, sentence: str) -> None:
    """Tell the user something now, and later the reader of the driver's log."""
    say(sentence)
    with suppress(DiskError), DriverLog(folder.log) as log:
        log.note(sentence)


def broken(view: StudyView) -> HpsearchError:
    """Return the error of a study that failed, its causes grouped.

    It is a DiskError where the study would have gone on but for what its jobs met on the disk.
    """
    if view.state.message:
        return StudyFailedError(f"the study {view.study.spec.name} stopped: {view.state.message}")
    causes: dict[str, list[int]] = {}
    for trial in view.state.told(FAIL):
        causes.setdefault(f"{trial.failure}: {trial.message}", []).append(trial.number)
    grouped = "".join(
        f"\n  - {cause} (trials {', '.join(map(str, numbers))})"
        for cause, numbers in causes.items()
    )
    stopped = (
        f"the study {view.study.spec.name} stopped: more than "
        f"{view.study.spec.max_failures} trials failed:{grouped}\n"
        f"see the logs under {view.folder.root / 'jobs'}"
    )
    again = {trial.retry_of for trial in view.state.trials.values()} | {*view.state.retries}
    num_disk = sum(
        trial.failure == DISK and trial.number not in again for trial in view.state.told(FAIL)
    )
    if num_disk == 0:
        return StudyFailedError(f"{stopped}; raise max_failures to go on all the same")
    remedy = f"free some space, then {_once_more(view)}"
    if view.state.num_failures() - num_disk <= view.study.spec.max_failures:
        return DiskError(f"{stopped}; {remedy}")
    return StudyFailedError(
        f"{stopped}; raise max_failures to go on all the same; for those of kind disk, {remedy}"
    )


def _once_more(view: StudyView) -> str:
    """Return what goes on with a study whose jobs met a full disk."""
    name, runs = view.study.spec.name, view.folder.root.absolute().parent
    where = "" if runs == Path("runs").absolute() else f" --runs {shlex.quote(str(runs))}"
    if view.study.spec.population is None:
        return f"try these trials again with: hpsearch retry {name} --kind disk{where}"
    return f"raise max_failures in {view.study.path} and go on with: hpsearch resume {name}{where}"


def _rest(seconds: float, flag: StopFlag, folder: StudyDir) -> None:
    """Wait for the next round; signals and requests end the waiting."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not flag.is_set and not requests.waiting(folder):
        time.sleep(min(GLANCE_SECONDS, seconds))
