"""Bring a cluster up and down, look at it, and let its nodes fail."""

import fcntl
import os
import secrets
import shutil
import stat
import subprocess
from pathlib import Path

from dev_cluster.daemons import Daemon, any_runs, end_steps, tell, wait_for, wait_until
from dev_cluster.layout import (
    ClusterError,
    Layout,
    Numbers,
    checked_layout,
    free_ports,
    read_numbers,
    write_numbers,
)
from dev_cluster.texts import CLUSTER, node_names, write_texts

PROGRAMS = (
    *("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd"),
    *("sbatch", "sacct", "sacctmgr", "scancel", "scontrol", "sinfo", "squeue"),
)
PACKAGES = "slurm-wlm slurmdbd munge mariadb-server"
WELL = ("idle", "mixed", "allocated", "completing", "planned")
DEADLINE = 60
MUNGE_FOLDER = Path("/run/munge")
LIKE_DEV_NULL = os.makedev(1, 3)


class Cluster:
    """The cluster of one folder."""

    def __init__(self, layout: Layout, numbers: Numbers) -> None:
        """Know its daemons; nothing starts."""
        self.layout = layout
        self.numbers = numbers
        self.munged = Daemon(
            layout,
            "munged",
            (
                *("munged", "--foreground", "--force", "--num-threads=10"),
                *(f"--key-file={layout.munge_key}", f"--seed-file={layout.root}/munge.seed"),
                f"--pid-file={layout.pid_file('munged')}",
            ),
        )
        self.database = Daemon(
            layout,
            "mariadbd",
            (
                *("mariadbd", "--no-defaults", "--user=root", "--skip-networking"),
                *(f"--datadir={layout.database}", f"--socket={layout.database_socket}"),
                f"--pid-file={layout.pid_file('mariadbd')}",
                *("--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0"),
                "--innodb-lock-wait-timeout=900",
            ),
        )
        self.accounting = Daemon(layout, "slurmdbd", ("slurmdbd", "-D"))
        conf = str(layout.slurm_conf)
        self.controller = Daemon(layout, "slurmctld", ("slurmctld", "-D", "-f", conf))
        self.nodes = {
            name: Daemon(layout, name, ("slurmd", "-D", "-N", name, "-f", conf))
            for name in node_names(numbers)
        }

    def daemons(self) -> list[Daemon]:
        """Return all but munged, in the order in which they start."""
        return [self.database, self.accounting, self.controller, *self.nodes.values()]

    def up(self) -> None:
        """Start what doesn't run, and wait until every node is ready.

        Raises:
            ClusterError: if something doesn't come up in time.
        """
        self._prepare()
        self._start_munged()
        self._start_accounting()
        self.controller.start()
        for node in self.nodes.values():
            node.start()
        wait_for("slurmctld does not answer", self._answers, DEADLINE, self.controller.log)
        for name in self._ill():
            self._resume(name)
        wait_for("not all nodes are idle", lambda: not self._ill(), DEADLINE, self.controller.log)

    def down(self) -> None:
        """End the jobs and every daemon that was started from this folder."""
        if self.controller.pid() is not None:
            tell(self.layout, "scancel", "--user=root")
            wait_until(lambda: not self._jobs(), 15)
        end_steps(self.layout)
        for daemon in reversed(self.daemons()):
            daemon.stop()
        if not any_runs("slurmctld", "slurmdbd", "slurmd"):  # of another cluster
            self.munged.stop()

    def report(self) -> tuple[list[str], bool]:
        """Return a line for every daemon and node, and whether all is well."""
        lines = [f"munged     {'answers' if munge_answers() else 'does not answer'}"]
        for daemon in self.daemons():
            pid = daemon.pid()
            state = f"runs, pid {pid}" if pid else f"does not run; log: {daemon.log}"
            lines.append(f"{daemon.name:10} {state}")
        states = self.node_states() if self.controller.pid() else {}
        lines += [f"node {name:5} {state}" for name, state in states.items()]
        well = munge_answers() and all(daemon.pid() for daemon in self.daemons())
        return lines, well and not self._ill(states)

    def fail(self, name: str) -> None:
        """Let a node fail: SLURM gives up its jobs, whose processes run on until `restore`.

        Raises:
            ClusterError: if there is no such node.
        """
        self._node(name).stop()
        self._update(name, "State=DOWN", "Reason=failed by dev-cluster")

    def restore(self, name: str) -> None:
        """Bring a failed node back; it ends what still runs of the jobs that SLURM gave up.

        Raises:
            ClusterError: if there is no such node, or it doesn't come back.
        """
        node = self._node(name)
        node.start()
        self._resume(name)
        wait_for(f"node {name} is not back", lambda: name not in self._ill(), DEADLINE, node.log)

    def node_states(self) -> dict[str, str]:
        """Return each node's state in SLURM's words; none if slurmctld doesn't answer."""
        lines = tell(self.layout, "sinfo", "--noheader", "--Node", "--format=%N %T").stdout
        return dict(line.split() for line in lines.splitlines())

    def _ill(self, states: dict[str, str] | None = None) -> list[str]:
        states = self.node_states() if states is None else states
        return [name for name in self.nodes if states.get(name) not in WELL]

    def _answers(self) -> bool:
        return tell(self.layout, "scontrol", "ping").returncode == 0

    def _jobs(self) -> bool:
        return bool(tell(self.layout, "squeue", "--noheader").stdout.strip())

    def _node(self, name: str) -> Daemon:
        if name not in self.nodes:
            raise ClusterError(f"unknown node {name!r}; valid: {', '.join(self.nodes)}")
        return self.nodes[name]

    def _resume(self, name: str) -> None:
        # A node that registers in time comes back by itself, and SLURM refuses to resume it then.
        tell(self.layout, "scontrol", "update", f"NodeName={name}", "State=RESUME")

    def _update(self, name: str, *settings: str) -> None:
        done = tell(self.layout, "scontrol", "update", f"NodeName={name}", *settings)
        if done.returncode:
            raise ClusterError(f"scontrol refused {settings} for {name}: {done.stderr.strip()}")

    def _prepare(self) -> None:
        self.layout.make_folders()
        write_texts(self.layout, self.numbers)
        for index in range(self.numbers.gpus):
            if not self.layout.gpu(index).exists():
                os.mknod(self.layout.gpu(index), stat.S_IFCHR | 0o666, LIKE_DEV_NULL)
        if not self.layout.munge_key.exists():
            self.layout.munge_key.touch(mode=0o600)
            self.layout.munge_key.write_bytes(secrets.token_bytes(128))

    def _start_munged(self) -> None:
        """Start munged unless one answers, whose ever: all clusters meet it on one socket."""
        MUNGE_FOLDER.mkdir(mode=0o755, exist_ok=True)
        MUNGE_FOLDER.chmod(0o755)
        with (MUNGE_FOLDER / "dev-cluster.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two clusters may come up at once
            if not munge_answers():
                self.munged.start()
                wait_for("munged does not answer", munge_answers, DEADLINE, self.munged.log)

    def _start_accounting(self) -> None:
        self._make_database()
        self.database.start()
        socket = self.layout.database_socket
        wait_for("MariaDB does not answer", socket.is_socket, DEADLINE, self.database.log)
        self.accounting.start()
        wait_for("slurmdbd does not answer", self._has_cluster, DEADLINE, self.accounting.log)

    def _make_database(self) -> None:
        if (self.layout.database / "mysql").is_dir():
            return
        log = self.layout.log("mariadb-install-db")
        with log.open("wb") as output:
            done = subprocess.run(
                [
                    *("mariadb-install-db", "--no-defaults", "--user=root", "--skip-test-db"),
                    f"--datadir={self.layout.database}",
                ],
                stdout=output,
                stderr=output,
                check=False,
            )
        if done.returncode:
            shutil.rmtree(self.layout.database, ignore_errors=True)
            raise ClusterError(f"MariaDB can't make its database; {log} says why")

    def _has_cluster(self) -> bool:
        """Return whether slurmdbd knows our cluster, after telling it."""
        tell(self.layout, "sacctmgr", "-i", "add", "cluster", CLUSTER)
        shown = tell(self.layout, "sacctmgr", "-nP", "show", "cluster", "format=cluster")
        return CLUSTER in shown.stdout.split()


def open_cluster(root: Path, nodes: int | None, gpus: int | None) -> Cluster:
    """Return the folder's cluster; its numbers are chosen if there is none.

    Raises:
        ClusterError: if the machine can't have one, or the folder holds another one.
    """
    check_machine()
    layout = checked_layout(root)
    numbers = read_numbers(layout)
    if numbers is None:
        nodes = 4 if nodes is None else nodes
        gpus = 8 if gpus is None else gpus
        numbers = Numbers(nodes, gpus, free_ports(nodes + 2))
        layout.make_folders()
        write_numbers(layout, numbers)
    elif nodes not in (None, numbers.nodes) or gpus not in (None, numbers.gpus):
        raise ClusterError(
            f"the cluster in {layout.root} has {numbers.nodes} nodes of {numbers.gpus} GPUs; give "
            "another --dir, or run down and delete the folder"
        )
    return Cluster(layout, numbers)


def existing_cluster(root: Path) -> Cluster | None:
    """Return the folder's cluster, None if there has never been one."""
    layout = checked_layout(root)
    numbers = read_numbers(layout)
    return Cluster(layout, numbers) if numbers else None


def check_machine() -> None:
    """Look whether this machine can have a cluster.

    Raises:
        ClusterError: if a program is missing or we are not root.
    """
    if os.geteuid() != 0:
        raise ClusterError("slurmd must be root to run jobs, but you are not; run this with sudo")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise ClusterError(f"{', '.join(missing)} not found; apt-get install {PACKAGES}")


def munge_answers() -> bool:
    """Return whether a munged listens on the default socket."""
    return subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0
