"""Small trainer configurations, a study to look at, and servers of databases.

Torch and databases are imported by the tests that need them alone; a GPU node has no databases.
"""

from __future__ import annotations

import copy
import functools
import gc
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import settings
from tiny_configs import CONFIGS

from hpsearch.trainers.config import read_config

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from servers import Server
    from views import Story

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does
for name in ("CI", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
    os.environ.pop(name, None)  # what is shown depends on them; tests that mean one set it
if "PYTEST_XDIST_WORKER" in os.environ:  # one of several processes, as many as there are cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
gc.set_threshold(10_000)  # as the command line does


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for garbage only among what the tests make, not among modules and thousands of tests.

    A look at all of these takes half a second, and there is one after every study that is run.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a CUDA device, and say so, where torch finds none."""
    if item.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def threads_stay() -> Iterator[None]:
    """Let no test leave a number of threads that may change, as training does for good."""
    yield
    if (threads := sys.modules.get("hpsearch.game.kernels.threads")) is not None:
        threads.THREADS_MAY_CHANGE.clear()


@pytest.fixture(scope="session", autouse=True)
def migrations_read_once() -> Iterator[None]:
    """Let Alembic read a migration once; it reads all of Optuna's whenever a study is opened.

    Which one of these is the last is looked for once, too.
    """
    if "sqlalchemy" not in sys.modules:
        yield
        return
    from alembic import util
    from optuna.storages._rdb.storage import _VersionManager

    read = util.load_python_file
    read_once = functools.cache(read)

    def load(folder: str, name: str) -> ModuleType:
        return (read if name == "env.py" else read_once)(folder, name)  # reading env.py migrates

    find_head = _VersionManager.get_head_version

    known: list[str] = []

    def head_version(manager: _VersionManager) -> str:
        if not known:
            known.append(find_head(manager))
        return known[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(util, "load_python_file", load)
        patch.setattr(_VersionManager, "get_head_version", head_version)
        yield


@pytest.fixture(scope="session")
def plain_config():
    """Return a function (changes, algorithm) -> complete configuration as plain data.

    ``changes`` are dotted keys; ``{"agent": "learn"}`` gives a role what the other one has.
    """

    def make(changes=None, algorithm="dqn"):
        config = copy.deepcopy(CONFIGS[algorithm])
        for path, value in (changes or {}).items():
            *parents, key = path.split(".")
            place = config
            for parent in parents:
                place = place[parent]
            place[key] = copy.deepcopy(CONFIGS[algorithm]["host"] if value == "learn" else value)
        return config

    return make


@pytest.fixture(scope="session")
def tiny_config(plain_config):
    """Return a function (changes, algorithm) -> trainer configuration."""

    def make(changes=None, algorithm="dqn"):
        return read_config(plain_config(changes, algorithm), source="tests/conftest.py")

    return make


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A study of six trials of 60 steps, of which nothing has happened yet."""
    from cli_tools import write_study
    from views import Story

    return Story(write_study(tmp_path))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A terminal with colours; what says otherwise was removed above."""
    monkeypatch.setenv("TERM", "xterm-256color")
    return monkeypatch


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    """Return a PostgreSQL server that may be stopped, if it is started again."""
    yield from _server("postgresql")


@pytest.fixture(scope="session")
def mysql() -> Iterator[Server]:
    """Return a MariaDB server that may be stopped, if it is started again."""
    yield from _server("mysql")


@pytest.fixture(scope="session")
def postgresql_url(postgresql: Server) -> str:
    """Return the URL of a PostgreSQL database that all tests share."""
    return postgresql.url


@pytest.fixture(scope="session")
def mysql_url(mysql: Server) -> str:
    """Return the URL of a MariaDB database that all tests share."""
    return mysql.url


def _server(kind: Literal["postgresql", "mysql"]) -> Iterator[Server]:
    import servers

    start = {"postgresql": servers.start_postgresql, "mysql": servers.start_mysql}[kind]
    try:
        server = start()
    except servers.MissingProgramError as error:
        pytest.skip(str(error))
    yield server
    server.close()
