"""Processes of this machine: what they begin with, how they are found again and killed."""

import os
import signal
import site
import subprocess
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from hpsearch.cluster.study_dir import JobDir
from hpsearch.package import FOLDER

UNHEARD = (signal.SIGINT, signal.SIGHUP)
"""Ctrl-C and a hang-up, which stay blocked in jobs"""
NAMING_SECONDS = 1.0
"""for which a process may have no command line: while it starts, and while it ends"""


@contextmanager
def changed_environment(
    given: Mapping[str, str], *, without: Collection[str] = ()
) -> Iterator[None]:
    """Let processes that start in the block inherit other variables than this one has.

    submitit gives what it starts a copy of the whole environment, and SLURM stores it: it must be
    ``without`` a database's password, as jobs need no database.
    """
    before = {name: os.environ.get(name) for name in (*given, *without)}
    os.environ.update(given)
    for name in without:
        os.environ.pop(name, None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def same_code() -> dict[str, str]:
    """Return variables with which a process of this machine imports the code that runs here.

    Python would look first in the folder where it is started, for every module.
    """
    safe, parent = {"PYTHONSAFEPATH": "1"}, str(FOLDER.absolute().parent)
    if parent in (*site.getsitepackages(), site.getusersitepackages()):
        return safe
    paths = filter(None, (parent, os.environ.get("PYTHONPATH")))
    return safe | {"PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def blocked(signals: Iterable[signal.Signals]) -> Iterator[None]:
    """Let processes that start in the block begin with signals blocked, so that these wait.

    Afterwards this one has those blocked that it had before.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_command(words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a command of hpsearch beside this one, which appends what it says to a file.

    Ctrl-C does not reach it. Raises OSError if it cannot be started.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "hpsearch.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | same_code(),
        )


def process_of(job: JobDir, job_id: str) -> psutil.Process | None:
    """Return the first process of a job while it runs; its id may have passed to another one."""
    deadline = time.monotonic() + NAMING_SECONDS
    try:
        process = psutil.Process(int(job_id))
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        # Linux fills in the command line only after `Popen` has returned.
        while not (words := process.cmdline()) and time.monotonic() < deadline:
            time.sleep(0.001)
    except psutil.Error:  # gone, or another user's by now
        return None
    return process if any(Path(word) == job.root.absolute() for word in words) else None


def kill_tree(root: psutil.Process) -> None:
    """Kill a process and all that it has started, as far as they are there."""
    with suppress(psutil.NoSuchProcess):
        for process in (*root.children(recursive=True), root):
            with suppress(psutil.NoSuchProcess):
                process.kill()
