"""Names of processes that hold a lease, and whether such a process still lives; no SQL."""

import os
import re
import socket

import psutil

_NAME = re.compile(r"(?P<host>[^/]*)/(?P<pid>[0-9]{1,10})/(?P<start>[0-9]{1,20}\.[0-9]{2})")
CLOCK_TOLERANCE = 60.0
"""seconds by which the start of a process may seem to move when the clock is set"""


def own_name() -> str:
    """Return a name of this process that no later process has: host, process id, start."""
    return name_of(os.getpid())


def name_of(pid: int) -> str:
    """Return such a name of a process of this host; raises psutil.NoSuchProcess."""
    process = psutil.Process(pid)
    return f"{socket.gethostname()}/{process.pid}/{process.create_time():.2f}"


def is_of_this_host(name: str) -> bool:
    return name.partition("/")[0] == socket.gethostname()


def is_dead(name: str) -> bool:
    """Return whether the process ``name`` ran on this host and runs no more.

    Of a process on another host, and of what is no such name, nothing is known.
    """
    match = _NAME.fullmatch(name)
    if match is None or match["host"] != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(match["pid"]))
        started: float = process.create_time()
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
    except psutil.NoSuchProcess:
        return True
    return abs(started - float(match["start"])) > CLOCK_TOLERANCE
