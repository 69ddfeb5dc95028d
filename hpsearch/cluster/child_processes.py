"""What processes of this machine begin with: environment, the code that they import, signals."""

import os
import signal
import site
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from hpsearch.package import FOLDER


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
