"""What a cluster is: a few numbers, chosen when it is first brought up, and its files' places."""

import json
import random
import re
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

LONGEST_SOCKET_PATH = 107
"""bytes that Linux allows for the path of a socket"""


class ClusterError(Exception):
    """What a user can act on; one sentence."""


@dataclass(frozen=True)
class Numbers:
    """What distinguishes one cluster from another; stored in its folder."""

    nodes: int
    """count of nodes, named n1, n2, ..."""
    gpus: int
    """fake GPUs of each node"""
    first_port: int
    """port of slurmctld; slurmdbd and the nodes have the ones after it"""


@dataclass(frozen=True)
class Layout:
    """Where a cluster keeps its files."""

    root: Path

    @property
    def numbers(self) -> Path:
        """Numbers as JSON."""
        return self.root / "cluster.json"

    @property
    def slurm_conf(self) -> Path:
        """What SLURM_CONF names."""
        return self.root / "slurm.conf"

    @property
    def database(self) -> Path:
        """MariaDB's data."""
        return self.root / "database"

    @property
    def database_socket(self) -> Path:
        """Where slurmdbd meets MariaDB; there is no port."""
        return self.root / "run" / "db.sock"

    @property
    def munge_key(self) -> Path:
        """Key of a munged of our own."""
        return self.root / "munge.key"

    def gpu(self, index: int) -> Path:
        """Return the character device that stands for a GPU."""
        return self.root / "gpu" / f"nvidia{index}"

    def pid_file(self, name: str) -> Path:
        """Return where a daemon's process id stands."""
        return self.root / "run" / f"{name}.pid"

    def log(self, name: str) -> Path:
        """Return where a daemon writes what happens."""
        return self.root / "log" / f"{name}.log"

    def make_folders(self) -> None:
        """Make what is missing."""
        for name in ("run", "log", "gpu", "state", "spool"):
            (self.root / name).mkdir(parents=True, exist_ok=True)


def checked_layout(root: Path) -> Layout:
    """Return the places under ``root``.

    Raises:
        ClusterError: if SLURM or a socket can't have such a path.
    """
    layout = Layout(root.absolute())
    if not re.fullmatch(r"[\w./+-]+", str(layout.root)):
        raise ClusterError(
            "the folder's path must be of letters, digits and . _ + - / for slurm.conf, "
            f"but is {str(layout.root)!r}; give another --dir"
        )
    length = len(str(layout.database_socket))
    if length > LONGEST_SOCKET_PATH:
        raise ClusterError(
            f"the path of {layout.database_socket} must have at most {LONGEST_SOCKET_PATH} "
            f"characters to be a socket, but has {length}; give a shorter --dir"
        )
    return layout


def read_numbers(layout: Layout) -> Numbers | None:
    """Return what the folder's cluster was made with, None if there is none.

    Raises:
        ClusterError: if the file is damaged.
    """
    try:
        return Numbers(**json.loads(layout.numbers.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ClusterError(
            f"{layout.numbers} is damaged ({error}); delete {layout.root} and run up again"
        ) from error


def write_numbers(layout: Layout, numbers: Numbers) -> None:
    """Store what the cluster is made with."""
    layout.numbers.write_text(json.dumps(asdict(numbers)) + "\n")


def free_ports(count: int) -> int:
    """Return the first of ``count`` neighbouring ports on which no program listens.

    They lie below those that Linux gives to outgoing connections, so they stay free while the
    cluster is down.
    """
    for _ in range(100):
        first = random.randrange(10_000, 32_000 - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first
    raise ClusterError(f"no {count} neighbouring ports are free; end some servers and try again")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            return False
    return True
