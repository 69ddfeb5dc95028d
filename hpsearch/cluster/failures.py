"""Kinds of failure, by which the driver decides what becomes of a trial."""

from hpsearch.errors import DiskError, HpsearchError

DISK, OOM_GPU, OOM_HOST = "disk", "oom_gpu", "oom_host"
NAN, DIVERGED, HUNG, CODE = "nan", "diverged", "hung", "code"


def kind_of(error: Exception) -> str:
    """Return what kind of failure an error of a job is."""
    if isinstance(error, MemoryError):
        return OOM_HOST
    # By its name, because torch is not imported where failures are only read.
    if type(error).__name__ == "OutOfMemoryError":
        return OOM_GPU
    return DISK if isinstance(error, OSError | DiskError) else CODE


def message_of(error: Exception) -> str:
    """Return what a user reads of an error: our own sentence, or its type and first line."""
    if isinstance(error, HpsearchError):
        return str(error)
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
