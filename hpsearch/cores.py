"""How many cores this process may use."""

import os


def num_cores() -> int:
    """Return the number of cores that the system lets this process run on."""
    if hasattr(os, "sched_getaffinity"):  # Linux; a job may own fewer cores than its node has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
