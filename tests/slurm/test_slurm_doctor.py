"""hpsearch doctor asks a real SLURM: what it says of the cluster, and what sbatch refuses."""

from pathlib import Path

import pytest
import yaml
from cli_tools import write_study, write_trainer
from slurm_tools import ask

from hpsearch import yaml_file
from hpsearch.api.executors import build_executor
from hpsearch.doctor import machine
from hpsearch.doctor.preflight import examine_all

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(180)]

PROFILE = Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml"


@pytest.fixture
def look(slurm_cluster, tmp_path, monkeypatch):
    """Return a function: changes of the profile -> findings by name."""
    monkeypatch.chdir(tmp_path)

    def look_with(**changes):
        profile = tmp_path / "site.yaml"
        profile.write_text(yaml.safe_dump(yaml_file.load(PROFILE) | changes))
        executor = {"name": "slurm", "profile": "site.yaml", "jobs": 4}
        write_study(tmp_path, {"executor": executor})
        findings = examine_all("study.yaml", Path("runs"), "", build_executor)
        return {finding.name: finding for finding in findings}

    return look_with


def test_the_cluster_is_well(look):
    findings = look()
    assert [finding for finding in findings.values() if finding.level == "error"] == []
    assert findings["SLURM"].sentence.endswith("answers, the cluster is dev")
    for name in ("array size", "accounting", "MinJobAge", "submission of jobs"):
        assert findings[name].level == "ok", findings[name]
    assert findings["preemption"].sentence == "PreemptMode REQUEUE, preempted jobs are told to save"
    assert findings["partition of jobs"].sentence == "normal takes jobs of 10 minutes"
    assert "can train on cpu: CUDA_VISIBLE_DEVICES is '0'" in findings["job"].sentence


def test_a_gpu_that_does_not_work_is_found_in_a_job(look, tmp_path):
    """The cluster's GPUs are names without a device behind them."""
    write_trainer(tmp_path, {"device": "cuda"})
    findings = look()
    assert findings["GPUs"].level == "ok"
    assert findings["job"].level == "error"
    assert "cannot train on cuda" in findings["job"].sentence
    assert "CUDA_VISIBLE_DEVICES is '0'" in findings["job"].sentence


def test_a_job_that_waits_is_taken_back(look, monkeypatch):
    monkeypatch.setattr(machine, "JOB_SECONDS", 5.0)
    blocker = ask("sbatch", "--parsable", "-N4", "--gres=gpu:8", "--wrap", "sleep 60").strip()
    try:
        assert "still waited for its turn" in look()["job"].sentence
        assert ask("squeue", "--noheader", "--format=%F").split() == [blocker]
    finally:
        ask("scancel", blocker)


def test_without_a_study_too(slurm_cluster, tmp_path):
    findings = examine_all(None, tmp_path / "runs", "", build_executor)
    levels = {finding.name: finding.level for finding in findings}
    assert (levels["SLURM"], levels["accounting"]) == ("ok", "ok")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"partition": "nowhere"}, "partition of jobs"),
        ({"partition": "short", "walltime_minutes": 30}, "partition of jobs"),
        ({"partition": "short", "walltime_minutes": 30}, "submission of jobs"),
        ({"gpu_type": "h200"}, "submission of jobs"),
        ({"gpus_per_task": 9}, "submission of jobs"),
        ({"constraint": "infiniband"}, "submission of jobs"),
    ],
)
def test_what_the_cluster_has_not_is_an_error(look, changes, name):
    finding = look(**changes)[name]
    assert finding.level == "error", finding
    assert "sbatch" in finding.sentence or name.startswith("partition")
