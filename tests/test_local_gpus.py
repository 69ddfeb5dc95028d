"""A study on a machine with GPUs, from its file to what its jobs see."""

import json
import os
import re
import sqlite3
from contextlib import closing

import pytest
from cli_tools import hpsearch, read, write_study, write_trainer
from gpu_tools import install_nvidia_smi, new_uuid

from hpsearch.cluster.study_dir import StudyDir

pytestmark = pytest.mark.slow

SHORT = {"steps": 10, "checkpoint/interval": 5, "evaluation/interval": 5}
SEES = re.compile(r"^CUDA_VISIBLE_DEVICES=(.*)$", re.MULTILINE)


def seen_by_jobs(folder):
    """Return what each job of the study said that it sees, in their order."""
    logs = sorted((folder / "runs/tiny/jobs").glob("*/*_log.out"))
    return [SEES.findall(log.read_text()) for log in logs]


def machine(folder, *uuids):
    """Return the environment of a machine with these GPUs."""
    programs = install_nvidia_smi(folder / "bin", list(uuids))
    return {"PATH": f"{programs}:{os.environ['PATH']}"}


def test_as_many_jobs_at_once_as_there_are_gpus_for(tmp_path, monkeypatch):
    """Three jobs are allowed, two GPUs are there; trials on the CPU stand for those on a GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    executor = {"name": "local", "jobs": 3, "cpus_per_job": 1, "gpus_per_job": 1}
    write_trainer(tmp_path, SHORT)
    write_study(tmp_path, {"budget": {"trials": 4}, "executor": executor})
    env = machine(tmp_path, new_uuid(), new_uuid())
    done = hpsearch(tmp_path, "run", "study.yaml", "--no-export", env=env)
    said = "2 jobs train at once, each on 1 of 2 GPUs (0,1); executor.jobs is 3"
    assert f"hpsearch: {said}\n" in done.stderr
    seen = seen_by_jobs(tmp_path)
    assert sorted(seen[:2]) == [["0"], ["1"]]
    assert len(seen) == 4
    assert all(gpus in (["0"], ["1"]) for gpus in seen)
    assert not list((tmp_path / "runs/tiny/jobs").glob("*/waits-for-gpus"))
    summary = read(tmp_path, "status", "tiny")
    assert summary["trials"]["finished"] == 4
    assert summary["gpu_hours"]["spent"] > 0


def test_a_job_begins_with_as_many_ranks_as_gpus_are_left(tmp_path, monkeypatch):
    """The study wants two, and one is there."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    job = {"jobs": 1, "cpus_per_job": 1, "gpus_per_job": 2, "ranks": 2, "min_ranks": 1}
    write_trainer(tmp_path, SHORT | {"shards": 2})
    write_study(tmp_path, {"budget": {"trials": 1}, "executor": {"name": "local", **job}})
    env = machine(tmp_path, new_uuid())
    hpsearch(tmp_path, "run", "study.yaml", "--no-export", env=env)
    assert seen_by_jobs(tmp_path) == [["0"]]
    assert read(tmp_path, "status", "tiny")["trials"]["finished"] == 1
    of_ranks = (tmp_path / "runs/tiny/trials/0/checkpoints").glob("*/tensors*.safetensors")
    assert {path.name for path in of_ranks} == {"tensors.safetensors"}
    spent = read(tmp_path, "status", "tiny")["gpu_hours"]["spent"]
    with closing(sqlite3.connect(tmp_path / "runs/tiny.db")) as database:
        times = "SELECT kind, at FROM hpsearch_events WHERE kind IN ('job_began', 'job_ended')"
        at = dict(database.execute(times).fetchall())
    # The one GPU that it had, not the two that were asked for.
    assert 3600 * spent == pytest.approx(at["job_ended"] - at["job_began"], abs=0.01)
    hpsearch(tmp_path, "audit", "tiny")


def test_a_job_on_cuda_gets_as_far_as_torch(tmp_path):
    """The GPU is nowhere, so torch finds none; but the job was given what it was to see."""
    uuid = new_uuid()
    write_trainer(tmp_path, SHORT | {"device": "cuda"})
    write_study(tmp_path, {"budget": {"trials": 1}, "max_failures": 0})
    env = machine(tmp_path, uuid) | {"CUDA_VISIBLE_DEVICES": uuid}
    done = hpsearch(tmp_path, "run", "study.yaml", env=env, code=8)
    assert "device is cuda, but torch finds no CUDA device on this machine" in done.stderr
    assert seen_by_jobs(tmp_path) == [[uuid]]
    plan = json.loads((StudyDir(tmp_path / "runs/tiny").job("00001").root / "job.json").read_text())
    assert plan["probes"] is None
