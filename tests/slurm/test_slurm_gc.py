"""hpsearch gc on what SLURM's jobs left: submitit's pickles of whole arrays, copies of the code."""

import json
import time
from pathlib import Path

import pytest
from cli_tools import hpsearch, write_study, write_trainer

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.housekeeping import gc

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(300)]

PROFILE = Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml"


def test_gc_frees_what_arrays_left(slurm_cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_trainer(tmp_path, {"checkpoint/keep_last": 2})
    executor = {"name": "slurm", "profile": str(PROFILE), "jobs": 2, "poll_seconds": 1}
    write_study(tmp_path, {"executor": executor, "budget": {"trials": 2}})
    hpsearch(tmp_path, "run", "study.yaml", "--no-export")
    study = StudyDir(tmp_path / "runs" / "tiny")
    old = study.code / "0123456789ab"
    [copy] = study.code.iterdir()
    copy.rename(old)
    time.sleep(0.1)  # else one is no older than the other
    copy.mkdir()

    gc.function("tiny", Path("runs"), dry_run=False, traces=False, as_json=True)
    freed = json.loads(capsys.readouterr().out)["kinds"]
    assert {kind: some["count"] for kind, some in freed.items()} == {
        "checkpoints": 2,
        "pickles": 4,
        "temporary": 0,
        "code": 1,
        "traces": 0,
    }
    assert list(study.code.iterdir()) == [copy]
    assert list(study.jobs.rglob("*.pkl")) == []
    assert hpsearch(tmp_path, "export", "tiny").returncode == 0
