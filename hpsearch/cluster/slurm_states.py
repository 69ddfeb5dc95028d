"""What SLURM's job states mean for us."""

from hpsearch.cluster.executor import Phase
from hpsearch.cluster.failures import CANCELLED, NODE_FAIL, OOM_HOST, PREEMPTED, TIMEOUT

_WAITING = (
    *("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
    *("CONFIGURING", "SUSPENDED", "STOPPED"),
)
"""states in which a job does not compute and may still do so"""
_FAILURES = {
    "PREEMPTED": PREEMPTED,
    "TIMEOUT": TIMEOUT,
    "DEADLINE": TIMEOUT,
    "NODE_FAIL": NODE_FAIL,
    "BOOT_FAIL": NODE_FAIL,
    "OUT_OF_MEMORY": OOM_HOST,
    "CANCELLED": CANCELLED,
    "REVOKED": CANCELLED,
}
"""why a job ended; COMPLETED and FAILED are told by what the job itself wrote"""


def meaning(state: str) -> tuple[Phase, str | None]:
    """Return the phase of a job and why it ended, where its state says so.

    ``state`` is as squeue and sacct print it, such as ``CANCELLED by 1000``. One that we don't know
    is taken for a running job's: to wait longer than needed loses nothing.
    """
    word = state.split()[0].rstrip("+") if state.split() else ""
    if word in _WAITING:
        return "queued", None
    if word in _FAILURES:
        return "ended", _FAILURES[word]
    if word in ("COMPLETED", "FAILED"):
        return "ended", None
    return "running", None
