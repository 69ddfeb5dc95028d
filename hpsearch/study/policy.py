"""What becomes of a trial whose attempt has ended: a pure function of how it ended."""

from enum import Enum

from hpsearch.cluster.failures import (
    CANCELLED,
    DISK,
    FREE,
    HUNG,
    LOST,
    OOM_GPU,
    OOM_HOST,
    SILENT,
    TIMEOUT,
)
from hpsearch.cluster.records import AttemptResult
from hpsearch.study.records import Trial

MAX_LOST = 3  # attempts in a row that may vanish without getting further
RETRIED = frozenset({DISK, HUNG, LOST, SILENT, TIMEOUT, OOM_HOST, CANCELLED})
"""kinds that may be no fault of the trial's"""


class Verdict(Enum):
    """What the driver does next with the trial."""

    TELL = "tell its values"
    REQUEUE = "let it go on from its newest checkpoint"
    FAIL = "tell that it failed"
    NOTHING = "it has been told already"


def verdict(trial: Trial, result: AttemptResult, *, is_shared: bool) -> Verdict:
    """Return what becomes of the trial.

    Interruptions, preemption and failing nodes cost nothing. An attempt that vanished, hung, could
    not write, ran out of time or memory of the host, or whose job a user cancelled is tried
    again, up to `MAX_LOST` times in a row without progress. Too little memory on a GPU is no fault
    of any one trial that shared it, as `is_shared` says: each goes on alone. An error of the code,
    numbers that became NaN, or a trial alone that takes too much memory would come again: the trial
    fails.
    """
    if trial.told is not None:
        return Verdict.NOTHING
    if result.status == "finished":
        return Verdict.TELL
    if result.kind == OOM_GPU and is_shared:
        return Verdict.REQUEUE
    if result.status == "interrupted" or result.kind in FREE:
        return Verdict.REQUEUE
    if result.kind in RETRIED:
        no_further = result.step <= trial.step
        return Verdict.FAIL if no_further and trial.lost + 1 >= MAX_LOST else Verdict.REQUEUE
    return Verdict.FAIL
