"""The trials of a job as it is given them: each begins, obeys its driver, and says how it ended.

A trial without a free row, or of another shape than those that run, waits until all before it have
ended. If the job ends first, the driver gives the trial to another job. No torch here.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from hpsearch.cluster import records
from hpsearch.cluster.failures import CODE, DISK, kind_of, message_of
from hpsearch.cluster.study_dir import AttemptDir, JobDir, StudyDir, TrialDir
from hpsearch.errors import CorruptError, DiskError, HpsearchError
from hpsearch.trainers.config.ending import Ending


@dataclass(frozen=True)
class JobTrial:
    """An attempt at a trial."""

    assignment: records.Assignment
    trial: TrialDir
    attempt: AttemptDir

    @property
    def number(self) -> int:
        return self.assignment.trial

    @property
    def shape(self) -> str:
        """The same for trials that can run together."""
        raise NotImplementedError

    def obey(self, step: int) -> bool:
        """Return whether the attempt ends; if the driver has stopped it, say so."""
        try:
            control = self.trial.control.read()
        except (CorruptError, DiskError):  # it may be readable a moment later
            return False
        if control is None or control.token != self.assignment.token:
            return True  # it has been replaced: it is fenced off, and writes nothing
        if control.stop is not None:
            self.end(control.stop, step)
        return control.stop is not None

    def fail(self, error: Exception, step: int) -> None:
        """Say that the attempt failed, unless it has said how it ended."""
        if self.attempt.read_result() is None:
            self.end("failed", step, kind=kind_of(error), message=message_of(error))

    def end(
        self,
        status: records.Status,
        step: int,
        *,
        metrics: Mapping[str, Mapping[str, float]] | None = None,
        kind: str | None = None,
        message: str = "",
        ended_by: Ending | None = None,
    ) -> None:
        """Say how the attempt ended; the last thing that a member writes."""
        self.attempt.write_result(
            records.AttemptResult(
                token=self.assignment.token,
                status=status,
                step=step,
                kind=kind,
                message=message,
                metrics={name: dict(own) for name, own in (metrics or {}).items()},
                ended_by=ended_by,
            )
        )


T = TypeVar("T", bound=JobTrial)


class TrialQueue(Generic[T]):
    """The trials of a job that have not begun; only a pilot is given more than the first."""

    def __init__(
        self,
        job: JobDir,
        plan: records.JobPlan,
        open_trial: Callable[[StudyDir, records.Assignment, bool], T],
    ) -> None:
        """Take the trials of ``plan``, each by ``open_trial``, which may raise HpsearchError.

        Its last argument is whether the trial's lineage must be there.
        """
        self._job = job
        self._open = open_trial
        self._descend = plan.descend
        self._number = 1  # of the next trials that the job may be given
        self._is_closed = plan.pilot_seconds <= 0
        self.waiting = self._opened(plan.assignments)
        self.matches = [] if plan.match is None else [plan.match]

    @property
    def is_over(self) -> bool:
        """Whether no trial waits and nothing more will come; a match may still be to be played."""
        return self._is_closed and not self.waiting

    def waiting_with(self, shape: str) -> list[T]:
        return [member for member in self.waiting if member.shape == shape]

    def look(self) -> None:
        while not self._is_closed:
            try:
                more_work = self._job.read_next(self._number)
            except (CorruptError, DiskError):  # it may be readable a moment later
                return
            if more_work is None:
                return
            self._number += 1
            self._is_closed = not more_work.assignments and more_work.match is None
            self.waiting += self._opened(more_work.assignments)
            self.matches += [] if more_work.match is None else [more_work.match]

    def take(self) -> list[T]:
        """Take all that have the shape of the first, but end those that the driver has stopped."""
        taken: list[T] = []
        while self.waiting and not taken:
            same = self.waiting_with(self.waiting[0].shape)
            taken = [member for member in same if self._take_out(member)]
        return taken

    def take_one(self, shape: str, may_begin: Callable[[T], bool]) -> T | None:
        """Take the first of a shape that may begin now, if any; end those that were stopped."""
        for member in self.waiting_with(shape):
            if may_begin(member) and self._take_out(member):
                return member
        return None

    def _take_out(self, member: T) -> bool:
        """Take a trial out; return False if the driver has stopped it, which ends it here."""
        self.waiting.remove(member)
        return not member.obey(step=0)

    def take_match(self) -> int | None:
        return self.matches.pop(0) if self.matches else None

    def _opened(self, assignments: Sequence[records.Assignment]) -> list[T]:
        """Return the trials that can be read; each other trial ends here as failed."""
        members, study = [], self._job.study
        for assignment in assignments:
            try:
                members.append(self._open(study, assignment, self._descend))
            except HpsearchError as error:
                print(error, flush=True)
                # What cannot be read now may be a moment later, and says nothing of the trial.
                kind = DISK if isinstance(error.__cause__, OSError) else CODE
                result = records.AttemptResult(assignment.token, "failed", 0, kind, str(error), {})
                with suppress(DiskError):  # the others may still train
                    study.trial(assignment.trial).attempt(assignment.attempt).write_result(result)
        return members
