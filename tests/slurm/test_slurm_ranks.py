"""Jobs of several ranks on a SLURM cluster: over two nodes, killed, and resumed by fewer."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from slurm_tools import ask, wait_until
from test_slurm_executor import executor, profile_file, study, wait_for, write_jobs

from hpsearch.cluster.slurm import Allowance, SlurmExecutor
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.trainers import checkpoint

__all__ = ["executor", "study"]
pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]

SHORT = {"shards": 2, "steps": 12, "evaluation.interval": 4, "checkpoint.interval": 4}
ENDLESS = {**SHORT, "steps": 10**9, "evaluation.interval": 50, "checkpoint.interval": 10}
ENDING_SECONDS = 30.0
"""in which a lost rank ends all"""
TWO_NODES = {"nodes": 2, "gpus_per_task": 0, "gpu_type": None}


@pytest.fixture
def on_two_nodes(executor, study, tmp_path: Path) -> SlurmExecutor:
    allowance = Allowance(load_profile(profile_file(tmp_path, **TWO_NODES)))
    return SlurmExecutor([allowance], study, ranks=2)


def nodes_of(slurm_id: str) -> str:
    return ask("squeue", "--noheader", "--states=all", "--format=%D", "--jobs", slurm_id).strip()


def workers(jobs: Path) -> list[psutil.Process]:
    """Return the processes of the tasks of jobs below a folder, the first rank first."""
    tasks = []
    for process in psutil.process_iter(["name", "cmdline", "environ"]):
        words = process.info["cmdline"] or []
        is_task = process.info["name"] != "srun" and "submitit.core._submit" in words
        if is_task and any(word.startswith(str(jobs)) for word in words):
            tasks.append((int(process.info["environ"]["SLURM_PROCID"]), process))
    return [process for _, process in sorted(tasks, key=lambda task: task[0])]


def test_ranks_on_two_nodes(on_two_nodes, study, plain_config) -> None:
    jobs = write_jobs(study, 1, plain_config, SHORT, ranks=2)
    ids = on_two_nodes.submit(jobs)
    assert nodes_of(ids["00001"]) == "2"
    wait_for(on_two_nodes, jobs, ids, j1="ended")
    log = on_two_nodes.log(jobs[0], ids["00001"]).read_text()
    result = study.trial(1).attempt(1).read_result()
    assert result is not None, log
    assert result.status == "finished"
    whole = checkpoint.path_of(study.trial(1).checkpoints, 12)
    assert checkpoint.is_whole(whole)
    assert (whole / "tensors-1.safetensors").exists()


def test_with_one_node_less_it_goes_on_with_fewer_ranks(
    executor, study, tmp_path: Path, plain_config
) -> None:
    """Three of four nodes are taken, so the second of two is not free."""
    profile = load_profile(profile_file(tmp_path, **TWO_NODES))
    slurm = SlurmExecutor([Allowance(profile)], study, ranks=2, min_ranks=1)
    others = ask("sbatch", "--parsable", "--exclusive", "--nodes=3", "--wrap=sleep 600").strip()
    wait_until(lambda: nodes_of(others) == "3", 60, lambda: ask("squeue"))
    jobs = write_jobs(study, 1, plain_config, SHORT, ranks=2)
    ids = slurm.submit(jobs)
    wait_for(slurm, jobs, ids, j1="running")
    assert slurm.look([(jobs[0], ids["00001"])])["00001"].share == 0.5
    wait_for(slurm, jobs, ids, j1="ended")
    result = study.trial(1).attempt(1).read_result()
    assert result is not None, slurm.log(jobs[0], ids["00001"]).read_text()
    assert result.status == "finished"
    assert not (
        checkpoint.path_of(study.trial(1).checkpoints, 12) / "tensors-1.safetensors"
    ).exists()
    assert nodes_of(ids["00001"]) == "1"


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("SIGSTOP", 0),
        ("SIGTERM", 1),
        pytest.param("SIGKILL", 0, marks=pytest.mark.exhaustive),
        pytest.param("SIGKILL", 1, marks=pytest.mark.exhaustive),
        pytest.param("SIGSTOP", 1, marks=pytest.mark.exhaustive),
        pytest.param("SIGTERM", 0, marks=pytest.mark.exhaustive),
    ],
)
def test_a_rank_is_lost(on_two_nodes, study, plain_config, name: str, rank: int) -> None:
    jobs = write_jobs(study, 1, plain_config, ENDLESS, ranks=2)
    ids = on_two_nodes.submit(jobs)
    folder = study.trial(1).checkpoints
    wait_until(lambda: any(checkpoint.valid_steps(folder)), 120, lambda: ask("squeue"))
    processes = workers(jobs[0].root)
    assert len(processes) == 2
    os.kill(processes[rank].pid, getattr(signal, name))
    began = time.monotonic()
    try:
        wait_for(on_two_nodes, jobs, ids, j1="ended")
        assert time.monotonic() - began < ENDING_SECONDS
    finally:
        for process in processes:
            if process.is_running():
                process.kill()
    result = study.trial(1).attempt(1).read_result()
    newest = next(checkpoint.valid_steps(folder))
    if name == "SIGTERM":
        assert result is not None
        assert (result.status, result.step) == ("interrupted", newest)
    else:
        assert result is None
