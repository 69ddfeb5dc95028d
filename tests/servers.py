"""Real PostgreSQL and MariaDB servers for the tests: started, stopped, killed, started again.

Each listens at a free port of the loopback interface, keeps its data in a temporary folder, asks
for a password, and runs as an unprivileged user if the tests run as root, which both insist on.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

USER = "hpsearch"
PASSWORD = "pass-Word_7531"
TEMPROOT = "PYTEST_DEBUG_TEMPROOT"
"""environment variable that names where pytest writes; servers write there too"""
START_SECONDS = 30.0
"""how long a server may need until it answers"""

POSTGRESQL_SETTINGS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",  # what a killed server has written, the operating system keeps
    "max_connections=30",
)


class MissingProgramError(Exception):
    """A server is not installed here; the message says which package has it."""


@dataclass(frozen=True)
class Program:
    """How a server is run and ended."""

    command: tuple[str, ...]
    folder: Path
    url: str
    """of the database in which others are created"""
    stop: signal.Signals
    """ends it after its transactions are rolled back and its connections closed"""
    kill: signal.Signals
    """ends it at once, as a crash does"""


class Server:
    """A database server and its process.

    Attributes:
        url: of a database that is there from the beginning.
    """

    def __init__(self, program: Program) -> None:
        """Start the server."""
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
            self.url = self.new_database("first")
        except BaseException:  # such as a driver of the database that is not installed
            self.close()
            raise

    def start(self) -> None:
        """Start the server again and wait until it answers; nothing happens if it runs."""
        if self._process is None:
            with (self._program.folder / "server.log").open("ab") as log:
                self._process = subprocess.Popen(
                    self._program.command, stdout=log, stderr=log, **_account()
                )
            self._wait()

    def stop(self) -> None:
        """End the server as an administrator does."""
        self._end(self._program.stop)

    def kill(self) -> None:
        """End the server at once, in the middle of whatever it does."""
        self._end(self._program.kill)

    def new_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self.execute(f"CREATE DATABASE {name}")
        return self._program.url.rpartition("/")[0] + f"/{name}"

    def execute(self, statement: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run one statement on a connection of its own and return its rows."""
        engine = sqlalchemy.create_engine(url or self._program.url, poolclass=NullPool)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            result = connection.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def close(self) -> None:
        """End the server and delete its data."""
        self.kill()
        shutil.rmtree(self._program.folder)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=START_SECONDS)
            self._process = None

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
                return
            except OperationalError:
                ended = self._process is None or self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    self.kill()
                    log = (self._program.folder / "server.log").read_text(errors="replace")
                    raise AssertionError(f"the server does not answer:\n{log[-3000:]}") from None
            time.sleep(0.05)


def plain_trials(url: str, study_id: int) -> list[FrozenTrial]:
    """Return what plain Optuna reads from a database."""
    plain = RDBStorage(url)
    trials = plain.get_all_trials(study_id)
    plain.remove_session()
    plain.engine.dispose()
    return trials


def start_postgresql() -> Server:
    """Start a PostgreSQL server.

    Raises:
        MissingProgramError: if it is not installed.
    """
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))  # where Debian hides them
    initdb, postgres = (_program(name, binaries, "postgresql") for name in ("initdb", "postgres"))
    folder = _folder()
    data, secret = folder / "data", folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    _run(initdb, f"--pgdata={data}", f"--username={USER}", f"--pwfile={secret}", *_INITDB)
    port = _free_port()
    settings = [part for setting in POSTGRESQL_SETTINGS for part in ("-c", setting)]
    return Server(
        Program(
            command=(postgres, "-D", str(data), "-p", str(port), *settings),
            folder=folder,
            url=f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres",
            stop=signal.SIGINT,
            kill=signal.SIGQUIT,  # as pg_ctl stop -m immediate
        )
    )


def start_mysql() -> Server:
    """Start a MariaDB server, which speaks MySQL's protocol.

    Raises:
        MissingProgramError: if it is not installed.
    """
    places = [Path("/usr/sbin")]
    mariadbd = _program("mariadbd", places, "mariadb-server")
    install = _program("mariadb-install-db", places, "mariadb-server")
    folder = _folder()
    data = f"--datadir={folder / 'data'}"
    _run(install, "--no-defaults", data, "--auth-root-authentication-method=normal")
    grants = folder / "grants.sql"
    grants.write_text(
        f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
        f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1';\n"
    )
    grants.chmod(0o644)  # the server runs as another user, whatever our umask
    port = _free_port()
    return Server(
        Program(
            command=(
                *(mariadbd, "--no-defaults", data, f"--port={port}", "--bind-address=127.0.0.1"),
                *(f"--socket={folder / 'socket'}", f"--pid-file={folder / 'pid'}"),
                *(
                    f"--init-file={grants}",
                    "--skip-name-resolve",
                    "--innodb-flush-log-at-trx-commit=2",
                ),
            ),
            folder=folder,
            url=f"mysql+pymysql://{USER}:{PASSWORD}@127.0.0.1:{port}/mysql",
            stop=signal.SIGTERM,
            kill=signal.SIGKILL,
        )
    )


_INITDB = ("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")


def _program(name: str, places: Sequence[Path], package: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, reversed(places))])
    program = shutil.which(name, path=path)
    if program is None:
        raise MissingProgramError(f"{name} is not installed; apt-get install {package}")
    return program


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="hpsearch-server-", dir=os.environ.get(TEMPROOT)))
    if os.geteuid() == 0:
        shutil.chown(folder, "nobody", "nogroup")
    return folder


def _account() -> dict[str, str]:
    """Return the user that a server runs as, for `subprocess`."""
    return {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **_account())
    assert done.returncode == 0, done.stdout + done.stderr


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
