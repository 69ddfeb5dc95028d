"""What becomes of a trial whose attempt has ended: a pure function of how it ended."""

from enum import Enum

from hpsearch.cluster.failures import DISK, HUNG
from hpsearch.cluster.messages import AttemptResult
from hpsearch.study.observe import LOST
from hpsearch.study.state import Trial

MAX_LOST = 3
"""attempts in a row that may vanish without getting further"""
RETRIED = frozenset({DISK, HUNG})
"""kinds of failure that are no fault of the trial's"""


class Verdict(Enum):
    """What the driver does next with the trial."""

    TELL = "tell its values"
    REQUEUE = "let it go on from its newest checkpoint"
    FAIL = "tell that it failed"
    NOTHING = "it has been told already"


def verdict(trial: Trial, result: AttemptResult) -> Verdict:
    """Return what becomes of the trial.

    Interruptions cost nothing. An attempt that vanished or could not write is tried again, up to
    `MAX_LOST` times in a row without progress. An error of the code or numbers that became NaN
    would come again: the trial fails.
    """
    if trial.told is not None:
        return Verdict.NOTHING
    if result.status == "finished":
        return Verdict.TELL
    if result.status == "interrupted":
        return Verdict.REQUEUE
    if result.status == LOST or result.kind in RETRIED:
        no_further = result.step <= trial.step
        return Verdict.FAIL if no_further and trial.lost + 1 >= MAX_LOST else Verdict.REQUEUE
    return Verdict.FAIL
