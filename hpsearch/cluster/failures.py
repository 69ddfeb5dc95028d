"""Kinds of failure, by which the driver decides what becomes of a trial."""

from hpsearch.errors import DiskError, HpsearchError, is_full

# Told by the job itself.
DISK, OOM_GPU, OOM_HOST = "disk", "oom_gpu", "oom_host"
NAN, DIVERGED, HUNG, CODE = "nan", "diverged", "hung", "code"

# Told by the executor, of a job that left no word.
PREEMPTED, TIMEOUT, NODE_FAIL, CANCELLED = "preempted", "timeout", "node_fail", "cancelled"

LOST = "lost"
"""the job is gone, and nobody knows why"""
SILENT = "silent"
"""the job is said to run, but has given no sign of life for too long"""

FREE = frozenset({PREEMPTED, NODE_FAIL})
"""kinds that are the cluster's doing, however often they come"""

KINDS = (
    *(DISK, OOM_GPU, OOM_HOST, NAN, DIVERGED, HUNG, CODE),
    *(PREEMPTED, TIMEOUT, NODE_FAIL, CANCELLED, LOST, SILENT),
)


def kind_of(error: Exception) -> str:
    """Return what kind of failure an error of a job is."""
    if isinstance(error, MemoryError):
        return OOM_HOST
    # By its name, because torch is not imported where failures are only read.
    if type(error).__name__ == "OutOfMemoryError":
        return OOM_GPU
    return DISK if isinstance(error, OSError | DiskError) or is_full(error) else CODE


def message_of(error: Exception) -> str:
    """Return what a user reads of an error: our own sentence, or its type and first line."""
    if isinstance(error, HpsearchError):
        return str(error)
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
