"""How long a study will still take: a range, once two ways to judge by agree roughly.

Either way alone misleads: what is gained since the beginning counts the start of the jobs as
training, and what is gained just now knows nothing of evaluations and of jobs that start later.
"""

from collections import deque

from hpsearch.report.view import StudyView
from hpsearch.report.work import running_steps, steps_in_all, steps_made, steps_per_second

SETTLED = 2.0
"""the longer estimate is at most so many times the shorter one, else time left is being measured"""
SHARE_TO_JUDGE_BY = 0.02
"""of the steps that were to be made: before so many are, nothing is settled"""
SECONDS_TO_JUDGE_BY = 10.0
"""since the beginning; the first signs of life tell little"""
RECENT = 1 / 3
"""of the time so far counts as just now"""


TimeLeft = tuple[float, float]
"""seconds: at least, at most"""
DONE: TimeLeft = (0.0, 0.0)


class Pacer:
    """Judges time left from the steps at looks that follow each other."""

    def __init__(self, made: int) -> None:
        """Begin at the steps that are made already."""
        self._before = made
        self._looks = deque([(0.0, made)])
        """seconds since the beginning, and the steps made; those of just now"""
        self._newest = 0.0
        """when the last steps were seen: signs of life come less often than looks"""

    def read(self, elapsed: float, made: int, total: int) -> TimeLeft | None:
        """Return the time left, None while it is being measured.

        Args:
            elapsed: seconds since the beginning.
            made: steps made.
            total: steps in all.
        """
        if made != self._looks[-1][1]:
            self._newest = elapsed
        self._looks.append((elapsed, made))
        while len(self._looks) > 2 and self._looks[1][0] <= elapsed * (1 - RECENT):
            self._looks.popleft()
        left, gained = total - made, made - self._before
        if left <= 0:
            return DONE
        seconds, steps = self._looks[0]
        is_early = elapsed < SECONDS_TO_JUDGE_BY
        if is_early or gained < SHARE_TO_JUDGE_BY * (total - self._before) or made == steps:
            return None
        return _settled(left * elapsed / gained, left * (self._newest - seconds) / (made - steps))


def time_left(view: StudyView, now: float) -> TimeLeft | None:
    """Return the time left of a study at a single look, None while it is being measured.

    It is judged by how fast running trials say that they are, and by what they have gained since
    they began.
    """
    total, made, speed = steps_in_all(view), steps_made(view), steps_per_second(view)
    if made >= total and not view.state.is_undecided:
        return DONE
    slow = sum(gained / seconds for gained, seconds in running_steps(view, now) if seconds > 0)
    if not (speed and slow) or made < SHARE_TO_JUDGE_BY * total:
        return None
    return _settled((total - made) / speed, (total - made) / slow)


def _settled(seconds: float, others: float) -> TimeLeft | None:
    low, high = sorted((seconds, others))
    return (low, high) if high <= SETTLED * low else None
