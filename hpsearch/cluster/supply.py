"""What a job is given to train: its first trials, and more while it runs.

Nothing that was given is lost: a trial for which there is no row yet, or that has another shape
than those that train, waits, and begins at the latest when all before it have ended. One that still
waits when the job ends has left no sign of life, and the driver gives it to another job.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from hpsearch.cluster.failures import CODE, DISK
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
        self._matches = [] if plan.match is None else [plan.match]

    @property
    def is_over(self) -> bool:
        """Whether no trial waits and nothing more will come; a match may still be to be played."""
        return self._is_closed and not self._waiting

    @property
    def waiting(self) -> tuple[Member, ...]:
        """Return the trials that wait."""
        return tuple(self._waiting)

    def waiting_with(self, shape: str) -> list[Member]:
        """Return the trials of a shape that wait."""
        return [one for one in self._waiting if shape_key(one.config) == shape]

    def look(self) -> None:
        """Read what the job has been given since the last look."""
        while not self._is_closed:
            given = self._read()
            if given is None:
                return
            trials, match = given
            self._number += 1
            self._is_closed = not trials and match is None
            self._waiting += _opened(self._job.study, trials)
            self._matches += [] if match is None else [match]

    def take(self) -> list[Member]:
        """Take all that have the shape of the first.

        Those that the driver has stopped end here: their results are written.
        """
        taken: list[Member] = []
        while self._waiting and not taken:
            for member in self.waiting_with(shape_key(self._waiting[0].config)):
                self._waiting.remove(member)
                is_over = member.obey(step=0)
                if not is_over:
                    taken.append(member)
        return taken

    def take_one(self, shape: str, may_begin: Callable[[Member], bool]) -> Member | None:
        """Take the first that has a shape and may begin now, None if there is none.

        One before it that the driver has stopped ends here: its result is written.
        """
        for member in self.waiting_with(shape):
            if may_begin(member):
                self._waiting.remove(member)
                is_over = member.obey(step=0)
                if not is_over:
                    return member
        return None

    @property
    def has_match(self) -> bool:
        """Whether a match is to be played, once nobody trains."""
        return bool(self._matches)

    def take_match(self) -> int | None:
        """Take the first match, None if there is none."""
        return self._matches.pop(0) if self._matches else None

    def _read(self) -> tuple[tuple[Assignment, ...], int | None] | None:
        """Return what was given next; a file that cannot be read now may be a moment later."""
        try:
            trials = self._job.read_next(self._number)
            return None if trials is None else (trials, self._job.read_next_match(self._number))
        except (CorruptError, DiskError):
            return None


def steps_until_together(seated: int, first: int, interval: int) -> int:
    """Return after how many steps a trial may begin that goes on from its step ``first``.

    ``seated`` is the step of one that trains. Both are measured at the multiples of ``interval``.
    Beginning then, they are measured together ever after; a fresh trial begins where the others are
    measured.
    """
    return (first - seated) % interval


def steps_until_next(seated: int, firsts: Iterable[int], interval: int) -> int | None:
    """Return after how many steps one of those who wait may begin, None if nobody waits.

    ``firsts`` are the steps from which they go on; the rest as in `steps_until_together`. One that
    may begin now begins after the present steps, when it may again.
    """
    waits = (steps_until_together(seated, first, interval) or interval for first in firsts)
    return min(waits, default=None)


def steps_to_resume(saved: Sequence[Collection[int]], *, in_step: bool) -> list[int | None]:
    """Return from which of its saved steps each trial goes on, None if it has none.

    Trials that always trained ``in_step`` go on from the newest step that they have in common, if
    there is one: a population that a kill caught between two members' checkpoints thus repeats what
    an uninterrupted one did, member beside member. Any other goes on from its own newest.
    """
    common = set(saved[0]).intersection(*saved[1:]) if in_step and saved else set()
    return [max(common or steps, default=None) for steps in saved]


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
        # What cannot be read now may be a moment later, and says nothing of the trial.
        kind = DISK if isinstance(error.__cause__, OSError) else CODE
        attempt.write_result(AttemptResult(assignment.token, "failed", 0, kind, str(error), {}))
        return None
