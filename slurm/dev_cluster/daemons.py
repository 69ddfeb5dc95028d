"""Programs in the background, each with its pid file and log; and what the jobs left behind."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dev_cluster.layout import ClusterError, Layout


@dataclass(frozen=True)
class Daemon:
    """One program of one cluster."""

    layout: Layout
    name: str
    command: tuple[str, ...]

    @property
    def log(self) -> Path:
        """Where it writes what happens."""
        return self.layout.log(self.name)

    def pid(self) -> int | None:
        """Return its process id, None if it doesn't run; the pid may have passed to a stranger."""
        try:
            pid = int(self.layout.pid_file(self.name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self._is_ours(pid) else None

    def start(self) -> None:
        """Start it in the background unless it runs."""
        if self.pid() is not None:
            return
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command,
                cwd=self.layout.root,
                env=environment(self.layout),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.layout.pid_file(self.name).write_text(f"{process.pid}\n")

    def stop(self) -> None:
        """End it and wait until it has ended; nothing happens if it doesn't run."""
        pid = self.pid()
        if pid is not None:
            # Not by the pid file: it disappears a little before the program does.
            _signal(pid, signal.SIGTERM)
            if not wait_until(lambda: not self._is_ours(pid), 15):
                _signal(pid, signal.SIGKILL)
                wait_until(lambda: not self._is_ours(pid), 5)
        self.layout.pid_file(self.name).unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        return _program(pid) == self.command[0] and belongs(pid, self.layout)


def environment(layout: Layout) -> dict[str, str]:
    """Return what every program of the cluster has in its environment.

    MYSQL_UNIX_PORT is how slurmdbd's MySQL library is told of a socket.
    """
    mine = {"SLURM_CONF": str(layout.slurm_conf), "MYSQL_UNIX_PORT": str(layout.database_socket)}
    return {key: value for key, value in os.environ.items() if not _is_of_a_job(key)} | mine


def tell(layout: Layout, *command: str) -> subprocess.CompletedProcess[str]:
    """Run one of SLURM's commands and return what it said.

    Raises:
        ClusterError: if it doesn't answer.
    """
    mine = environment(layout)
    try:
        return subprocess.run(
            command, env=mine, capture_output=True, text=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"{' '.join(command)} has not ended in 60 seconds; {layout.log('slurmctld')} says why"
        ) from error


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Return whether the condition came true in that time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def wait_for(what: str, condition: Callable[[], bool], seconds: float, log: Path) -> None:
    """Wait for a condition.

    Raises:
        ClusterError: if it has not come true in that time; the sentence names the log.
    """
    if not wait_until(condition, seconds):
        raise ClusterError(f"{what} within {seconds:g} seconds; {log} says why")


def belongs(pid: int, layout: Layout) -> bool:
    """Return whether a process was started by the cluster of this folder."""
    entry = f"SLURM_CONF={layout.slurm_conf}".encode()
    return entry in _environment_of(pid) and not _is_zombie(pid)


def any_runs(*programs: str) -> bool:
    """Return whether the machine runs one of these programs, whosoever's."""
    return any(_program(pid) in programs and not _is_zombie(pid) for pid in _pids())


def end_steps(layout: Layout) -> None:
    """End what jobs still have running: a node that failed leaves it behind."""
    for pid in _steps(layout):
        _signal(pid, signal.SIGKILL)


def _steps(layout: Layout) -> Iterator[int]:
    for pid in _pids():
        in_a_job = any(entry.startswith(b"SLURM_JOB_ID=") for entry in _environment_of(pid))
        if belongs(pid, layout) and (in_a_job or _program(pid) == "slurmstepd"):
            yield pid


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _is_of_a_job(key: str) -> bool:
    return key.startswith(("SLURM_", "SLURMD_", "SBATCH_", "SQUEUE_", "SINFO_"))


def _environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return []


def _program(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
