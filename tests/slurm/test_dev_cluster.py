"""The one-machine cluster is a real one: what SLURM does to jobs, as the executor relies on it."""

import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from slurm_tools import SlurmCluster, ask, wait_until

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]

ANSWER_SECONDS = 5.0
"""in which a node that starts is idle again, where SLURM takes it back"""
ALL_GPUS = "--gres=gpu:a100:8"

RECORDER = """
    import signal, sys, time

    path, last = sys.argv[1:]

    def record(name):
        with open(path, "a") as file:
            print(time.time(), name, file=file)

    def hear(number, frame):
        record(signal.Signals(number).name)
        if signal.Signals(number).name == last:
            sys.exit(0)

    signal.signal(signal.SIGTERM, hear)
    signal.signal(signal.SIGUSR2, hear)
    record("start")
    while True:
        time.sleep(0.2)
        with open(path + ".alive", "w") as file:
            print(time.time(), file=file)
"""


@dataclass(frozen=True)
class Recorded:
    """A job that writes down which signals it hears, and leaves at one of them."""

    job: str
    path: Path

    def lines(self):
        """Return (time, signal) for all it heard, its start first."""
        if not self.path.exists():
            return []
        pairs = (line.split() for line in self.path.read_text().splitlines())
        return [(float(when), name) for when, name in pairs]

    def signals(self):
        """Return what it heard, once each, in order."""
        return list(dict.fromkeys(name for _, name in self.lines()[1:]))

    def seconds_left(self):
        """Return how long it lived after its first signal."""
        return float(Path(f"{self.path}.alive").read_text()) - self.lines()[1][0]


@pytest.fixture(scope="module")
def record(slurm_cluster, tmp_path_factory):
    """Return a function (signal at which to leave, options of sbatch) -> the submitted job."""
    folder = tmp_path_factory.mktemp("recorded")
    program = folder / "recorder.py"
    program.write_text(textwrap.dedent(RECORDER))

    def submit(last, *options):
        path = folder / f"{len(list(folder.iterdir()))}-{last}"
        path.touch()
        command = f"srun {sys.executable} {program} {path} {last}"
        return Recorded(slurm_cluster.submit(command, *options), path)

    return submit


@pytest.fixture(scope="module", autouse=True)
def out_of_time(record):
    """Return a job that will run out of its minute; it begins before all other tests."""
    return record("SIGTERM", "--nodelist=n4", "--time=1", "--signal=USR2@30", "--no-requeue")


def started(*jobs):
    """Wait until the recorders run."""
    wait_until(lambda: all(job.lines() for job in jobs), 30, lambda: str(jobs))


def test_up_twice_is_up(slurm_cluster):
    before = slurm_cluster.dev("status").stdout
    up = slurm_cluster.dev("up")
    assert up.returncode == 0, up.stderr
    assert up.stdout == f"export SLURM_CONF={slurm_cluster.folder}/slurm.conf\n"
    pids = [line for line in before.splitlines() if "pid" in line]
    after = slurm_cluster.dev("status").stdout.splitlines()
    assert [line for line in after if "pid" in line] == pids


def test_status_names_daemons_and_nodes(slurm_cluster):
    status = slurm_cluster.dev("status")
    assert status.returncode == 0, status.stdout
    names = [line.split()[0] for line in status.stdout.splitlines()]
    assert names[:4] == ["munged", "mariadbd", "slurmdbd", "slurmctld"]
    assert names[-4:] == ["node"] * 4


def test_another_size_is_refused(slurm_cluster):
    up = slurm_cluster.dev("up", "--nodes", "3")
    assert up.returncode == 1
    assert "has 4 nodes of 8 GPUs" in up.stderr


def test_a_job_sees_its_gpus_and_is_accounted(slurm_cluster):
    job = slurm_cluster.submit(
        'srun sh -c "echo gpus $CUDA_VISIBLE_DEVICES on $SLURMD_NODENAME"', "--gres=gpu:a100:2"
    )
    slurm_cluster.wait_for_state(job, ["COMPLETED"])
    words = slurm_cluster.output(job).split()
    assert len(words[1].split(",")) == 2
    slurm_cluster.wait_until_accounted(job, "COMPLETED")


def test_preemption_warns_then_ends(slurm_cluster, record):
    options = (ALL_GPUS, "--time=9", "--signal=USR2@60", "--no-requeue")
    stubborn = record("never", "--nodelist=n1", *options)
    polite = record("SIGUSR2", "--nodelist=n2", *options)
    started(stubborn, polite)
    urgent = [
        slurm_cluster.submit("sleep 1", "-p", "urgent", ALL_GPUS, f"--nodelist={node}")
        for node in ("n1", "n2")
    ]
    slurm_cluster.wait_for_state(polite.job, ["COMPLETED"])  # it left while there was grace
    slurm_cluster.wait_for_state(stubborn.job, ["PREEMPTED"])
    slurm_cluster.wait_until_accounted(stubborn.job, "PREEMPTED")
    assert polite.signals() == ["SIGUSR2"]
    assert stubborn.signals() == ["SIGUSR2", "SIGTERM"]
    assert stubborn.seconds_left() > 13, "GraceTime 5 and KillWait 10"
    for job in urgent:
        slurm_cluster.wait_for_state(job, ["COMPLETED"])


def test_a_failed_node_fails_its_jobs_and_comes_back(slurm_cluster, record):
    job = record("SIGTERM", "--nodelist=n3", "--no-requeue")
    again = record("SIGTERM", "--nodelist=n3", "--requeue")
    started(job, again)
    assert slurm_cluster.dev("fail", "n3").returncode == 0
    assert slurm_cluster.dev("status").returncode == 1
    slurm_cluster.wait_for_state(job.job, ["NODE_FAIL"])
    assert slurm_cluster.state(again.job) == "PENDING"
    slurm_cluster.wait_until_accounted(job.job, "NODE_FAIL")
    assert job.signals() == [], "it runs on behind a broken network"
    restored = slurm_cluster.dev("restore", "n3")
    assert restored.returncode == 0, restored.stderr
    assert slurm_cluster.dev("status").returncode == 0
    subprocess.run(["scancel", again.job], check=True)


def test_a_failed_node_that_still_answers_stays_failed(slurm_cluster):
    """As its last answer may come after SLURM was told that it failed."""
    states = set()
    assert slurm_cluster.dev("fail", "n3").returncode == 0
    try:
        answering = subprocess.Popen(["slurmd", "-D", "-N", "n3"])
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            states |= {*ask("sinfo", "--noheader", "--nodes=n3", "--format=%T").split()}
            time.sleep(0.2)
        answering.terminate()
        answering.wait()
    finally:
        restored = slurm_cluster.dev("restore", "n3")
    assert restored.returncode == 0, restored.stderr
    assert states == {"down"}


def test_an_unknown_node_is_refused(slurm_cluster):
    failed = slurm_cluster.dev("fail", "n9")
    assert failed.returncode == 1
    assert failed.stderr == "dev-cluster: unknown node 'n9'; valid: n1, n2, n3, n4\n"


def test_another_cluster_comes_and_goes_twice(slurm_cluster, tmp_path):
    other = SlurmCluster(tmp_path / "other")
    size = ("--nodes", "1", "--gpus", "1")
    up = other.dev("up", *size)
    assert up.returncode == 0, up.stderr
    assert [other.dev("down").returncode for _ in range(2)] == [0, 0]
    status = other.dev("status")
    assert status.returncode == 1
    assert "slurmctld  does not run" in status.stdout
    assert slurm_cluster.dev("status").returncode == 0


def test_the_walltime_warns_then_ends(slurm_cluster, out_of_time):
    slurm_cluster.wait_for_state(out_of_time.job, ["TIMEOUT"], 150)
    assert out_of_time.signals() == ["SIGUSR2", "SIGTERM"]
    slurm_cluster.wait_until_accounted(out_of_time.job, "TIMEOUT")
