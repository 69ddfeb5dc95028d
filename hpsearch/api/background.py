"""A driver without a terminal: a study is left to it, driven by it, and asked for something."""

import time
from collections.abc import Collection, Mapping
from math import inf
from pathlib import Path
from typing import Any

from hpsearch.api.driving import (
    Drive,
    opened_driver,
    record_undriven,
    study_to_resume,
)
from hpsearch.api.executors import check_submission, poll_seconds, start_detached
from hpsearch.cluster.failures import KINDS, StopFlag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.supervisor import forget_retry
from hpsearch.errors import ConflictError, HpsearchError, UsageError, unknown_name
from hpsearch.names import runs_option
from hpsearch.study import requests
from hpsearch.study.opening import view_if_over
from hpsearch.study.requests import Request, Verb, driver_start_locked, note_start
from hpsearch.study.spec import Study
from hpsearch.study.spec_checks import enqueue_problems, example_setting
from hpsearch.study.state import CANCELLED, FAILED, FINISHED, PAUSED, STOPPED
from hpsearch.study.stored_spec import spec_json
from hpsearch.study.view import (
    INTERRUPTED,
    StudyView,
    find_awaited,
    open_view,
    standing_line,
    unfinished_text,
)
from hpsearch.terminal import say

HEAR_SECONDS = 5.0  # for which a command waits to be heard
END_SECONDS = 30.0  # for which a cancelled study's jobs may take to end, without a driver
LEASE_PATIENCE = 3600.0  # seconds: a driver that lost its network may still hold the lease
LEASE_GLANCE_SECONDS = 10.0
GLANCE_SECONDS = 0.1


def leave_to_driver(study: Study, runs: Path) -> bool:
    """Start a driver without a terminal, and say so; return whether there is something to do."""
    folder = StudyDir((runs / study.spec.name).absolute())
    if view_if_over(study, folder) is not None:
        return False
    check_submission(study, folder, with_driver=True)
    with opened_driver(study, runs) as driver:
        driver.start()
        is_over = not driver.is_busy
    if not is_over:
        _start_driver(study, folder, runs)
    return not is_over


def request(view: StudyView, runs: Path, verb: Verb) -> None:
    """Ask for what changes a whole study, or do it where there is no driver.

    Raises UsageError for another verb, where nothing would change, or where a scheduler would not
    take the jobs of a study that is to go on.
    """
    if verb not in (valid := ("pause", "resume", "stop", "cancel")):
        raise UsageError(unknown_name("request", verb, valid))
    study = study_to_resume(view) if verb == "resume" else view.study
    refuse_what_changes_nothing(view, study, verb)
    if verb == "resume" and not view.is_driven:
        check_submission(study, view.folder, with_driver=True)
    ask(view, study, runs, Request(verb))


def refuse_what_changes_nothing(view: StudyView, study: Study, verb: Verb) -> None:
    name, status = view.name, view.state.status
    is_over, grows = status in {FINISHED, FAILED, STOPPED, CANCELLED}, _grows(view.study, study)
    if verb in ("pause", "stop", "cancel") and is_over:
        raise UsageError(f"the study {name} is {status}; there is nothing to {verb}")
    if verb == "pause" and status == PAUSED:
        raise UsageError(f"the study {name} is paused already; go on with: hpsearch resume {name}")
    if verb == "resume" and status == FINISHED and not grows:
        raise UsageError(
            f"the study {name} is finished; raise budget.trials in {view.study.path} and resume it"
        )
    if verb == "resume" and view.state.num_failures() > study.spec.max_failures:
        once_more = f", or try its failed trials again with: hpsearch retry {name}"
        raise UsageError(
            f"the study {name} failed, and would again: raise max_failures in {view.study.path} "
            f"and resume it{once_more if study.spec.population is None else ''}"  # as `retry` says
        )
    is_same = spec_json(study) == spec_json(view.study)
    if verb == "resume" and view.is_driven and is_same and not (status == PAUSED or is_over):
        raise UsageError(f"the study {name} is {view.status}; there is nothing to resume")


def _grows(before: Study, after: Study) -> bool:
    was, now = (
        (budget.trials, budget.wall_hours or inf, budget.gpu_hours or inf)
        for budget in (before.spec.budget, after.spec.budget)
    )
    return any(new > old for old, new in zip(was, now, strict=True))


def drive_patiently(study: Study, runs: Path, flag: StopFlag) -> StudyView:
    """Drive without a display, a line whenever trials have changed their state.

    Begins as soon as no other driver holds the study: one that died elsewhere, or lost its network.
    """
    deadline = time.monotonic() + LEASE_PATIENCE
    last_line = ""

    def watch(view: StudyView) -> None:
        nonlocal last_line
        if (line := standing_line(view)) != last_line:
            print(line, flush=True)
            last_line = line

    while True:
        try:
            return Drive(study, runs, flag, watch, is_detached=True).run()
        except ConflictError as error:
            if time.monotonic() > deadline or flag.is_set:
                raise
            say(f"{error}")
            flag.rest(LEASE_GLANCE_SECONDS)


def ask(view: StudyView, study: Study, runs: Path, asked: Request) -> None:
    """Leave a request for the driver, or do it where there is none; ``study`` drives on."""
    name = study.spec.name
    requests.leave(view.folder, asked)
    if view.is_driven or not _do_undriven(view, study, runs, asked):
        _wait_to_be_heard(view, asked)
    after = open_view(name, runs)
    standing = standing_line(after)
    if asked.verb in ("resume", "retry") and not after.is_driven:
        try:
            _start_driver(study, view.folder, runs)
        except ConflictError as error:  # it will see what was asked
            print(f"{standing}; {error}")
        return
    print(standing)
    if asked.verb == "stop" and after.status == INTERRUPTED:
        print(unfinished_text(after))


def _do_undriven(view: StudyView, study: Study, runs: Path, asked: Request) -> bool:
    """Do what was asked as no driver is there; return whether there was none."""
    try:
        if asked.verb in ("pause", "stop"):
            record_undriven(study, view.folder, asked)
        else:
            _act(view, study, runs, asked.verb)
    except HpsearchError as error:
        # A driver that has begun meanwhile will hear of it, or has done it and ended.
        if isinstance(error, ConflictError) and (
            open_view(view.name, runs).is_driven or asked not in requests.waiting(view.folder)
        ):
            return False
        # What was refused must not be done by a driver of tomorrow.
        requests.forget(view.folder, asked)
        raise
    except KeyboardInterrupt:
        requests.forget(view.folder, asked)
        raise
    return True


def retry(view: StudyView, runs: Path, kinds: Collection[str], numbers: Collection[int]) -> None:
    """Try failed trials again as new ones: those of ``kinds`` and ``numbers``, all of none.

    Raises UsageError for an unknown kind or number, and where nothing is left to try again.
    """
    name = view.name
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(unknown_name("kind of failure", kind, KINDS))
    if view.study.spec.population is not None:
        raise UsageError(
            f"{name} is a population, in which selection decides what comes after a failure, so "
            f"nothing is left to try again; look at it with: hpsearch status {name}"
        )
    for number in numbers:
        if number not in view.state.trials:
            raise UsageError(
                f"{name} has no trial {number}; hpsearch trials {name} lists those there are"
            )
    chosen = tuple(
        trial.number
        for trial in view.state.failed_for_good()
        if (not kinds or trial.failure in kinds) and (not numbers or trial.number in numbers)
    )
    may_have_failed = not numbers and not view.is_driven and bool(view.state.untold)
    if not chosen and not may_have_failed:
        raise UsageError(
            f"no failed trial of {name} is left to try again; hpsearch status {name} lists them"
        )
    who = "its driver takes them up" if view.is_driven else "a driver is started for them"
    known = ["1 failed trial" if len(chosen) == 1 else f"{len(chosen)} failed trials"]
    unknown = ["any that failed since its last driver looked"] if may_have_failed else []
    trials = " and ".join([*(known if chosen else []), *unknown])
    # What made them fail may have been mended in the file, which a driver reads when it begins; one
    # that is there has what may be missing here.
    study = view.study if view.is_driven else study_to_resume(view)
    if not view.is_driven:
        check_submission(study, view.folder, with_driver=True)
    print(f"{name}: trying {trials} again, with the same parameters as new ones; {who}")
    asked = () if numbers else tuple(kinds or KINDS)
    ask(view, study, runs, Request("retry", chosen, asked))


def enqueue(view: StudyView, runs: Path, params: Mapping[str, Any]) -> None:
    """Let the next trial have these values; UsageError where that is not possible."""
    # A driver that is there has what is missing here.
    study, name = view.study if view.is_driven else view.whole_study(), view.name
    spec, path = study.spec, study.path
    if not params:
        example = example_setting(spec.space)
        raise UsageError(f"name at least one parameter and its value, such as {example}")
    is_population = spec.population is not None
    problems = enqueue_problems(spec.space, spec.sampler, params, is_population=is_population)
    if problems:
        raise UsageError(f"{name} cannot try these values: {'; '.join(problems)}")
    if view.state.num_asked >= spec.budget.trials:
        raise UsageError(
            f"{name} has begun all {spec.budget.trials} trials of its budget; raise budget.trials "
            f"in {path}, and resume it first"
        )
    asked = Request("enqueue", params=dict(params))
    ask(view, study, runs, asked)
    if not view.is_driven:
        print(f"it is tried when the study goes on: hpsearch resume {name}{runs_option(runs)}")


def _wait_to_be_heard(view: StudyView, asked: Request) -> None:
    deadline = time.monotonic() + HEAR_SECONDS
    while asked in requests.waiting(view.folder) and time.monotonic() < deadline:
        time.sleep(GLANCE_SECONDS)
    if asked in requests.waiting(view.folder):
        print(
            f"{view.name}: the driver is busy; it will {asked.verb} in its next round, "
            f"within {poll_seconds(view.study):.0f} seconds or so"
        )


def _act(view: StudyView, study: Study, runs: Path, verb: Verb) -> None:
    """Be the driver for a moment: hear the request, and see the jobs of a cancelled study end."""
    deadline = time.monotonic() + END_SECONDS
    with opened_driver(study, runs) as driver:
        if driver.state.live_jobs():
            view.whole_study("executor")  # else these are not where this driver would look
        if verb == "resume":
            driver.start()  # reopens what a grown budget lets go on
        driver.collect()
        while (
            driver.state.status == CANCELLED
            and driver.state.live_jobs()
            and time.monotonic() < deadline
        ):
            time.sleep(min(poll_seconds(study), 2.0))
            driver.collect()


def _start_driver(study: Study, folder: StudyDir, runs: Path) -> None:
    """Start a driver without a terminal; ConflictError if one was started before and is there."""
    name = study.spec.name
    look = f"hpsearch status {name}"
    with driver_start_locked(folder):
        awaited = find_awaited(folder)
        if awaited is not None:
            raise ConflictError(
                f"the driver of {name} is there already, as {awaited.who}, and drives as soon as "
                f"it can; look at it with: {look}{runs_option(runs)}"
            )
        forget_retry(folder)
        driver = start_detached(study, folder, runs)
        note_start(folder, driver)
    watch = f"{look} --watch{runs_option(runs)}"
    print(f"{name}: driven by {driver}; look at it with: {watch}", flush=True)
