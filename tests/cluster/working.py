"""A job in the process of the test, as its executor would run it, and its deaths."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hpsearch.cluster.failures import stop_flag
from hpsearch.cluster.study_dir import JobDir
from hpsearch.cluster.team import Team
from hpsearch.cluster.worker import run_job

RUN_JOB = "import sys; from hpsearch.cluster.job_entry import train; train(sys.argv[1])"
"""a script that does the job whose folder is its argument, in a process of its own"""


def work(job_folder: str) -> None:
    """Do a job; signals that ask to stop are heeded from here on."""
    with stop_flag() as flag:
        run_job(JobDir(Path(job_folder)), flag, Team(flag))


class Killed(BaseException):
    """Stands for kill -9: no handler of the worker sees it."""


def die() -> None:
    raise Killed


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def on_nth_call(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, n: int, action: Callable[[], object]
) -> list[str]:
    """Call ``action`` before the n-th call of a function, from 1; return the list of calls."""
    original, calls = getattr(owner, name), list[str]()

    def wrapped(*arguments, **options):
        calls.append(name)
        if len(calls) == n:
            action()
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, wrapped)
    return calls
