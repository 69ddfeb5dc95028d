"""Driving a study in this process to its end, whatever happens to the database meanwhile."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from hpsearch.api.executors import build_executor, poll_seconds
from hpsearch.api.notices import NoticeSender
from hpsearch.api.tracking_process import TrackingProcess
from hpsearch.cluster.executor import Executor
from hpsearch.cluster.failures import DISK, StopFlag
from hpsearch.cluster.study_dir import StudyDir, pin_founders
from hpsearch.cluster.supervisor import forget_retry, note_retry
from hpsearch.errors import ConfigError, DiskError, HpsearchError, StudyFailedError, UsageError
from hpsearch.names import check_places, runs_option
from hpsearch.study import requests
from hpsearch.study.driver import Driver
from hpsearch.study.events import DriverLog, Event
from hpsearch.study.gauges import DriverFigures, GaugeServer
from hpsearch.study.opening import open_driver, record_request
from hpsearch.study.options import LocalOptions
from hpsearch.study.recorder import Outage
from hpsearch.study.records import FAIL
from hpsearch.study.requests import DriverNotes, Request, forget_start
from hpsearch.study.spec import Study, load_study
from hpsearch.study.stored_spec import spec_hash, spec_json
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import say

GLANCE_SECONDS = 0.2  # between two looks at signals and requests
LEAVE_SECONDS = 30.0  # how long running jobs get to save their trials after Ctrl-C
ASK_AGAIN_SECONDS = 0.5


# Which study is driven.


def find_study(
    name_or_file: str, runs: Path, *, trials: int | None = None
) -> tuple[Study, StudyDir]:
    """Return a study and its folder: of a file, as it is now; of a name, as it was last driven.

    ``trials`` replaces the file's total; UsageError if more have begun, unless the file says it.
    """
    path = Path(name_or_file)
    check_places(path, runs)
    if path.suffix not in (".yaml", ".yml"):
        view = open_view(name_or_file, runs)
        if trials is None:
            return view.whole_study(), view.folder
        path = view.study.path
    study = load_study(path, runs, trials)
    folder = StudyDir((runs / study.spec.name).absolute())
    if trials is None:
        _say_total(study)
    # A total equal to the file's cancels one that was given earlier, so it is not checked.
    elif folder.spec.exists() and trials != study.trials_in_file:
        begun = open_view(study.spec.name, runs).state.num_asked
        if trials < begun:
            raise UsageError(
                f"{study.spec.name} has begun {begun} trials, so a total of {trials} is too low; "
                f"give --trials {begun} or more"
            )
    return study, folder


def study_to_resume(view: StudyView) -> Study:
    """Return a study as its file is now; as it was started, if that searches something else."""
    path = view.study.path
    try:
        now = load_study(path, view.folder.root.parent)
    except ConfigError as error:
        fault = str(error)
    else:
        if _identity(now) == _identity(view.study):
            _say_total(now)
            return now
        fault = f"{path} searches something else by now, or keeps it elsewhere"
    was = view.whole_study()
    say(f"{fault}; {view.name} goes on as it was started")
    return was


def _identity(study: Study) -> tuple[str, str, str]:
    return study.spec.name, study.spec.storage, spec_hash(study)


def _say_total(study: Study) -> None:
    if study.trials_in_file not in (None, study.spec.budget.trials):
        say(
            f"{study.spec.name} has {study.spec.budget.trials} trials in all, as --trials or "
            f"run(trials=...) said; change budget.trials in {study.path}, now "
            f"{study.trials_in_file}, for another total"
        )


# Driving it.


@contextmanager
def opened_driver(study: Study, runs: Path, executor: Executor | None = None) -> Iterator[Driver]:
    """Hold a study while the block runs, as its driver; raises as `open_driver`."""
    folder = StudyDir((runs / study.spec.name).absolute())
    executor = build_executor(study, folder) if executor is None else executor
    with (
        DriverLog(folder.log) as log,
        open_driver(study, runs, executor, on_event=partial(_log_and_say, log)) as driver,
    ):
        population = study.spec.population
        founders = () if population is None else population.founders
        try:
            pin_founders(folder, (study.path.parent / founder for founder in founders))
        except DiskError as error:  # another user's study, which may be read all the same
            say(f"{error}; hpsearch gc of that study may remove the founders of {study.spec.name}")
        yield driver


def record_undriven(study: Study, folder: StudyDir, asked: Request) -> None:
    """Pause or stop a study without a driver, and without the parts that a driver of it needs."""
    with DriverLog(folder.log) as log:
        record_request(study, asked, partial(_log_and_say, log))
    requests.forget(folder, asked)


def _log_and_say(log: DriverLog, event: Event) -> None:
    log.write(event)
    if event.kind == "note":
        say(event.data["message"])


class Drive:
    """Drives a study to its end, or until the flag is set, whatever its database and file do."""

    def __init__(
        self,
        study: Study,
        runs: Path,
        flag: StopFlag,
        watch: Callable[[StudyView], None],
        *,
        is_detached: bool,
    ) -> None:
        """Take what to drive; ``watch`` is called after every round.

        A driver without a terminal, ``is_detached``, waits for a database or scheduler that does
        not answer yet; does not go on with a study that a user has paused, stopped or cancelled;
        and leaves jobs running when the flag ends it.
        """
        self._study = study
        self._runs = runs
        self._flag = flag
        self._watch = watch
        self._is_detached = is_detached
        # Of the first start alone: after an outage, a user may have held the study meanwhile.
        self._resumes = not is_detached
        self._folder = folder = StudyDir((runs / study.spec.name).absolute())
        self._open_outage = partial(open_outage, folder, flag, waits_at_start=is_detached)
        self._outage = self._open_outage()
        self._notes = DriverNotes(folder)
        self._gauges = GaugeServer(study.spec.prometheus, self._tell)
        self._notices = NoticeSender(folder, runs, flag, self._tell)
        self._tracking = TrackingProcess(folder, runs, flag, self._tell)

    def run(self) -> StudyView:
        """Drive to the end; raises ConflictError, or StorageError if SQL stays away."""
        # They outlast an outage.
        with closing(self._gauges), closing(self._notices), closing(self._tracking):
            while True:
                build = partial(build_executor, self._study, self._folder)
                executor = self._open_outage().run(build)
                end = self._outage.run(partial(self._hold, executor))
                if isinstance(end, StudyView):
                    return end
                self._study = end

    def _hold(self, executor: Executor) -> StudyView | Study:
        """Return how the study is at the end, or its changed file, to be driven from then on."""
        with opened_driver(self._study, self._runs, executor) as driver:
            self._outage.reached()
            forget_retry(self._folder)
            driver.start(resume=self._resumes)
            self._resumes = False
            view = StudyView(self._study, self._folder, driver.state, is_driven=True)
            saves = not self._is_detached and isinstance(self._study.executor, LocalOptions)
            try:
                changed = self._do_rounds(driver, executor, view)
            except KeyboardInterrupt:  # a second Ctrl-C; jobs are told to save all the same
                if saves:
                    driver.interrupt()
                raise
            if changed is not None:
                return changed
            if not self._flag.is_set:
                forget_start(self._folder)
            elif saves:
                self._save_trials(driver)
            driver.write_snapshot()
            return view

    def _do_rounds(self, driver: Driver, executor: Executor, view: StudyView) -> Study | None:
        """Do rounds to the end; return the changed study file if a user resumes with one."""
        self._notices.go_on(view)
        while (driver.is_busy or requests.waiting(self._folder)) and not self._flag.is_set:
            began = time.perf_counter()
            driver.tick()
            seconds, calls = time.perf_counter() - began, executor.num_calls
            self._notes.write(tick_seconds=seconds, num_calls=calls, refusal=driver.refusal)
            driver.write_snapshot(if_due=True)
            is_refused = driver.refusal is not None
            self._gauges.keep(view, DriverFigures(seconds, calls, is_refused, driver.heartbeats))
            self._notices.see(view)
            self._tracking.see(view)
            self._watch(view)
            if driver.is_resumed:
                changed = study_to_resume(view)
                if spec_json(changed) != spec_json(self._study):
                    return changed
            if driver.is_busy and not driver.is_hurried:
                self._rest(poll_seconds(self._study) - seconds)
        return None

    def _rest(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._flag.is_set:
            if requests.waiting(self._folder):
                return
            time.sleep(min(GLANCE_SECONDS, seconds))

    def _save_trials(self, driver: Driver) -> None:
        say("stopping; running trials are saved ...")
        deadline = time.monotonic() + LEAVE_SECONDS
        flag = self._flag
        flag.is_set = False  # a second Ctrl-C ends the waiting
        try:
            while driver.state.live_jobs() and time.monotonic() < deadline and not flag.is_set:
                driver.interrupt()  # again and again: a job that is still starting does not listen
                time.sleep(ASK_AGAIN_SECONDS)
                driver.collect()
        finally:
            flag.is_set = True
        if driver.state.live_jobs():
            say("some jobs have not ended yet; the next run finds them")

    def _tell(self, sentence: str) -> None:
        say(sentence)
        with suppress(DiskError), DriverLog(self._folder.log) as log:
            log.note(sentence)


def open_outage(folder: StudyDir, flag: StopFlag, *, waits_at_start: bool) -> Outage:
    """Return what waits for what is away, says so, and notes it for `hpsearch status`."""
    return Outage(
        say,
        note=partial(note_retry, folder),
        waits_at_start=waits_at_start,
        should_stop=lambda: flag.is_set,
    )


def failure_of(view: StudyView) -> HpsearchError:
    """Return the error of a failed study, by causes; DiskError if the disk alone failed it."""
    spec, failed = view.study.spec, view.state.told(FAIL)
    if view.state.message:
        return StudyFailedError(f"the study {spec.name} stopped: {view.state.message}")
    causes: dict[str, list[str]] = {}
    for trial in failed:
        causes.setdefault(f"{trial.failure}: {trial.message}", []).append(str(trial.number))
    grouped = "".join(f"\n  - {cause} (trials {', '.join(causes[cause])})" for cause in causes)
    stopped = (
        f"the study {spec.name} stopped: more than {spec.max_failures} trials failed:{grouped}\n"
        f"see the logs under {view.folder.jobs}"
    )
    num_disk = sum(trial.failure == DISK for trial in view.state.failed_for_good())
    if num_disk == 0:
        return StudyFailedError(f"{stopped}; raise max_failures to go on all the same")
    where = runs_option(view.folder.root.absolute().parent)
    if spec.population is None:
        once_more = f"try these trials again with: hpsearch retry {spec.name} --kind disk{where}"
    else:
        resume = f"hpsearch resume {spec.name}{where}"
        once_more = f"raise max_failures in {view.study.path} and go on with: {resume}"
    remedy = f"free some space, then {once_more}"
    if view.state.num_failures() - num_disk <= spec.max_failures:
        return DiskError(f"{stopped}; {remedy}")
    return StudyFailedError(
        f"{stopped}; raise max_failures to go on all the same; for those of kind disk, {remedy}"
    )
