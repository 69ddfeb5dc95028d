"""What a job is given to train: its first trials, and more while it runs.

Nothing that was given is lost: a trial for which there is no row yet, or that has another shape
than those that train, waits, and begins at the latest when all before it have ended. One that still
waits when the job ends has left no sign of life, and the driver gives it to another job.
"""

from collections.abc import Callable, Sequence

from hpsearch.cluster.failures import CODE
from hpsearch.cluster.member import Member
from hpsearch.cluster.messages import Assignment, AttemptResult, JobPlan
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import CorruptError, DiskError, HpsearchError
from hpsearch.trainers.config import shape_key


class Supply:
    """The trials that were given to a job and have not begun, in the order of their coming."""

    def __init__(self, job: JobDir, plan: JobPlan) -> None:
        """Begin with the first trials; a job that is no pilot gets no others."""
        self._job = job
        self._number = 1
        """of the next trials that the job may be given"""
        self._is_closed = plan.pilot_seconds <= 0
        self._waiting = _opened(job.study, plan.assignments)

    @property
    def is_over(self) -> bool:
        """Whether nothing waits and nothing more will come."""
        return self._is_closed and not self._waiting

    @property
    def waiting(self) -> tuple[Member, ...]:
        """Return the trials that wait."""
        return tuple(self._waiting)

    def look(self) -> None:
        """Read what the job has been given since the last look."""
        while not self._is_closed:
            given = self._read()
            if given is None:
                return
            self._number += 1
            self._is_closed = not given
            self._waiting += _opened(self._job.study, given)

    def take(self) -> list[Member]:
        """Take all that have the shape of the first, less those that are to end already."""
        while self._waiting:
            shape = shape_key(self._waiting[0].config)
            taken = [one for one in self._waiting if shape_key(one.config) == shape]
            self._waiting = [one for one in self._waiting if one not in taken]
            going = [one for one in taken if not one.ends(step=0)]
            if going:
                return going
        return []

    def take_one(self, shape: str, may_begin: Callable[[Member], bool]) -> Member | None:
        """Take the first that has a shape and may begin now, None if there is none."""
        for member in self.waiting:
            if shape_key(member.config) == shape and may_begin(member):
                self._waiting.remove(member)
                if not member.ends(step=0):
                    return member
        return None

    def _read(self) -> tuple[Assignment, ...] | None:
        """Return what was given next; a file that cannot be read now may be a moment later."""
        try:
            return self._job.read_next(self._number)
        except (CorruptError, DiskError):
            return None


def steps_until_together(lead: int, step: int, interval: int) -> int:
    """Return after how many steps of ``lead`` a trial may begin that goes on from ``step``.

    Both are measured at the multiples of ``interval``. Beginning then, they are measured together
    ever after; a fresh trial begins where the others are measured.
    """
    return (step - lead) % interval


def _opened(study: StudyDir, assignments: Sequence[Assignment]) -> list[Member]:
    """Return the trials that can be read; each other one ends here."""
    found = (_open(study, assignment) for assignment in assignments)
    return [member for member in found if member is not None]


def _open(study: StudyDir, assignment: Assignment) -> Member | None:
    try:
        return Member.open(study, assignment)
    except HpsearchError as error:
        print(error, flush=True)
        attempt = study.trial(assignment.trial).attempt(assignment.attempt)
        attempt.write_result(AttemptResult(assignment.token, "failed", 0, CODE, str(error), {}))
        return None
