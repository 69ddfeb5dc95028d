"""What processes of this machine begin with: environment, the code that they import, signals."""

import os
import signal
import site
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpsearch.package import FOLDER

UNHEARD = (signal.SIGINT, signal.SIGHUP)
"""Ctrl-C and a hang-up, which stay blocked in jobs"""


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
