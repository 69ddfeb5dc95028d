"""A job whose trials are programs: it starts them, looks at them, and ends them when asked to.

No torch here.
"""

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.program_run import ProgramRun, ProgramTrial
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import read_json

LOOK_SECONDS = 0.5  # between two looks at programs, their metrics and control files


def run_programs(job: JobDir, flag: StopFlag) -> None:
    """Run the trials of a job until each has ended, or ``flag`` is set.

    A pilot then waits for more, as `worker.run_job` does. Every result is written before this
    returns.
    """
    plan = job.plan.required()
    queue = TrialQueue(job, plan, ProgramTrial.open)
    heartbeats = Heartbeats(job.heartbeat, plan.heartbeat_seconds)
    folder = _folder_of_study(job.study)
    with heartbeats.until_left():
        ProgramJob(queue, flag, heartbeats, folder, plan.num_threads).run(plan.pilot_seconds)


def _folder_of_study(study: StudyDir) -> Path:
    """Return the folder of the study file, in which its programs run."""
    begun = read_json(study.spec)
    if not isinstance(begun, dict) or not isinstance(begun.get("file"), str):
        raise CorruptError(f"{study.spec} does not say where the study file lies; resume the study")
    return Path(begun["file"]).parent


class ProgramJob:
    def __init__(
        self,
        queue: TrialQueue[ProgramTrial],
        flag: StopFlag,
        heartbeats: Heartbeats,
        folder: Path,
        num_threads: int,
    ) -> None:
        """Run the trials of ``queue`` in a folder; they share the threads."""
        self._queue = queue
        self._flag = flag
        self._heartbeats = heartbeats
        self._folder = folder
        self._num_threads = num_threads
        self._at_once = max(1, len(queue.waiting))
        self._runs: list[ProgramRun] = []

    def run(self, pilot_seconds: float) -> None:
        """Run until nothing is left, or for ``pilot_seconds`` without work, or until asked to stop.

        Whatever this raises is also told as the end of each attempt that has not ended.
        """
        try:
            idle_since = time.monotonic()
            while not self._flag.is_set:
                self._queue.look()
                self._begin_waiting()
                if self._runs:
                    idle_since = time.monotonic()
                elif self._queue.is_over or time.monotonic() - idle_since >= pilot_seconds:
                    self._heartbeats.give_last()  # also of one that could not begin
                    return
                self._look()
                self._beat()
                self._flag.rest(LOOK_SECONDS)
            self._interrupt()
        except Exception as error:
            self._fail_all(error)
            raise

    def _begin_waiting(self) -> None:
        if not self._runs:  # an idle pilot may be given more than its first job had
            self._at_once = max(self._at_once, len(self._queue.waiting))
        while self._queue.waiting and len(self._runs) < self._at_once:
            own = self._queue.take_one(self._queue.waiting[0].shape, lambda trial: True)
            if own is not None:
                self._begin(ProgramRun(own))

    def _begin(self, run: ProgramRun) -> None:
        # To copy a parent's folder may take minutes.
        self._heartbeats.announce([run.heartbeat])
        try:
            run.begin(self._folder, max(1, self._num_threads // self._at_once))
        except Exception as error:  # of one program, whatever it is: the others run on
            run.own.fail(error, run.first)
        else:
            self._runs.append(run)

    def _look(self) -> None:
        to_stop = [run for run in self._runs if self._is_to_stop(run)]
        self._stop(to_stop)  # together, as each may take long to save
        self._runs = [run for run in self._runs if not (run in to_stop or self._has_ended(run))]

    def _is_to_stop(self, run: ProgramRun) -> bool:
        """Return whether a program is to end, as its driver says or by an error."""
        try:
            if not run.own.obey(run.step):
                return False
            if run.own.attempt.read_result() is None:
                run.kill()  # it was replaced, by one that may already run in the same folder
        except Exception as error:  # as above
            run.kill()  # as another attempt may follow at once
            run.own.fail(error, run.step)
        return True

    def _has_ended(self, run: ProgramRun) -> bool:
        try:
            return run.look(is_leaving=self._flag.is_set)
        except Exception as error:  # as above
            self._stop([run])
            run.own.fail(error, run.step)
            return True

    def _interrupt(self) -> None:
        self._stop(self._runs)
        for run in self._runs:
            run.interrupt()
        for own in self._queue.waiting:
            own.end("interrupted", 0)
        if self._runs:
            self._heartbeats.give_last()

    def _stop(self, runs: Iterable[ProgramRun]) -> None:
        for run in runs:
            run.ask_to_stop()
        for run in runs:
            run.stop()

    def _fail_all(self, error: Exception) -> None:
        self._stop(self._runs)
        for run in self._runs:
            with suppress(CorruptError, DiskError):  # the others may still be told
                run.own.fail(error, run.step)
        self._heartbeats.give_last()

    def _beat(self) -> None:
        measured = {run.own.number: run.told for run in self._runs}
        if self._heartbeats.is_due(measured, is_busy=False):
            speeds = [run.steps_per_second for run in self._runs] or [0.0]
            members, speed = [run.heartbeat for run in self._runs], sum(speeds) / len(speeds)
            self._heartbeats.give(members, (), speed, is_busy=False)
