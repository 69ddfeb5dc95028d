"""What jobs get of the environment of the driver that submits them."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_tools import write_study

from hpsearch import yaml_file
from hpsearch.cluster import local
from hpsearch.cluster.child_processes import changed_environment
from hpsearch.cluster.local import LocalExecutor
from hpsearch.cluster.slurm import Allowance, SlurmExecutor
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.spec import load_spec, secret_variables

PROFILE = Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml"
VARIABLE, SECRET = "HPSEARCH_TEST_STORAGE", "postgresql://me:dont-tell-93@host/db"
TOKEN = "HPSEARCH_TEST_TOKEN"
PATIENCE_SECONDS = 60
PROGRAMS = {
    "srun": "exit 1",  # by which submitit tells that there is a SLURM
    "scontrol": "echo MaxArraySize=1001",
    "sbatch": 'env > "$0.env"; echo Submitted batch job 7',
}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setenv("HPSEARCH_TEST_OTHER", "for all")


def note_environment() -> Callable[[str], None]:
    """Return what a job then does; as a nested function it travels to its process by value."""

    def note(folder: str) -> None:
        Path(folder, "environment.json").write_text(json.dumps(dict(os.environ)))

    return note


def environment_of_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return what a local job has, which is submitted without `VARIABLE`."""
    monkeypatch.setattr(local, "train", note_environment())
    job = StudyDir(folder).job("00001")
    job.root.mkdir(parents=True)
    executor = LocalExecutor(num_threads=1, withheld={VARIABLE})
    job_id = executor.submit([job])[job.name]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while executor.look([(job, job_id)])[job.name].phase != "ended":
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
    seen: dict[str, str] = json.loads((job.root / "environment.json").read_text())
    return seen


def test_a_local_job_imports_nothing_of_the_folder_where_it_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a user's queue.py, which Python's own modules would take for theirs."""
    (tmp_path / "queue.py").write_text("raise SystemExit('not mine')\n")
    monkeypatch.chdir(tmp_path)
    assert environment_of_job(tmp_path, monkeypatch)


def test_a_local_job_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = environment_of_job(tmp_path, monkeypatch)
    assert seen["HPSEARCH_TEST_OTHER"] == "for all"
    assert VARIABLE not in seen
    assert SECRET not in seen.values()
    assert os.environ[VARIABLE] == SECRET, "the driver needs it again after an outage"


@pytest.mark.parametrize("num_jobs", [1, 3])
def test_sbatch_stores_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_jobs: int
) -> None:
    """What sbatch inherits is what SLURM keeps of a job, and gives to it."""
    for name, script in PROGRAMS.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "profile.yaml").write_text(yaml_file.dump(yaml_file.load(PROFILE)))
    study = StudyDir(tmp_path / "runs" / "tiny")
    allowance = Allowance(load_profile(tmp_path / "profile.yaml"))
    executor = SlurmExecutor([allowance], study, withheld={VARIABLE})
    jobs = [study.job(f"{number:05d}") for number in range(num_jobs)]
    for job in jobs:
        job.root.mkdir(parents=True)
    assert len(executor.submit(jobs)) == num_jobs
    seen = (tmp_path / "sbatch.env").read_text()
    assert "HPSEARCH_TEST_OTHER=for all" in seen
    assert VARIABLE not in seen
    assert SECRET not in seen
    assert os.environ[VARIABLE] == SECRET


def test_what_is_withheld_comes_back_after_a_failure() -> None:
    def submit() -> None:
        with changed_environment({}, without={VARIABLE, "NOT_SET"}):
            assert VARIABLE not in os.environ
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        submit()
    assert os.environ[VARIABLE] == SECRET
    assert "NOT_SET" not in os.environ


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, set()),
        ({"storage": f"env:{VARIABLE}"}, {VARIABLE}),
        ({"prometheus": {"port": 9464}}, set()),
        ({"prometheus": {"port": 9464, "token": "token.txt"}}, set()),
        ({"prometheus": {"port": 9464, "token": f"env:{TOKEN}"}}, {TOKEN}),
    ],
)
def test_the_variables_that_a_study_names_are_its_secrets(
    tmp_path: Path, changes: dict, names: set[str]
) -> None:
    spec = load_spec(write_study(tmp_path, changes)).spec
    assert secret_variables(spec) == names
