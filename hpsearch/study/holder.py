"""Names of processes that hold a lease, and whether such a process still lives."""

import os
import socket

import psutil

CLOCK_TOLERANCE = 60.0
"""seconds by which the start of a process may seem to move when the clock is set"""


def own_name() -> str:
    """Return a name of this process that no later process has: host, process id, start."""
    process = psutil.Process(os.getpid())
    return f"{socket.gethostname()}/{process.pid}/{process.create_time():.2f}"


def is_dead(name: str) -> bool:
    """Return whether the process ``name`` ran on this host and runs no more.

    Of a process on another host nothing is known; its lease must expire.
    """
    host, _, rest = name.partition("/")
    pid = rest.partition("/")[0]
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        started: float = psutil.Process(int(pid)).create_time()
    except psutil.NoSuchProcess:
        return True
    return abs(started - float(rest.partition("/")[2])) > CLOCK_TOLERANCE
