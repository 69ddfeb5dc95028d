"""Names of processes that hold a lease, and whether such a process still lives."""

import os
import socket

import psutil


def own_name() -> str:
    """Return a name of this process that no later process has: host, process id, start."""
    return _name(psutil.Process(os.getpid()))


def is_dead(name: str) -> bool:
    """Return whether the process ``name`` ran on this host and runs no more.

    Of a process on another host nothing is known; its lease must expire.
    """
    host, _, rest = name.partition("/")
    pid = rest.partition("/")[0]
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        return _name(psutil.Process(int(pid))) != name
    except psutil.NoSuchProcess:
        return True


def _name(process: psutil.Process) -> str:
    return f"{socket.gethostname()}/{process.pid}/{process.create_time():.2f}"
