"""A whole study by PSI/J, and a driver that is killed."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from cli_tools import (
    Run,
    events,
    kill_study,
    newest_step,
    no_jobs_left,
    plain_optuna,
    write_study,
    write_trainer,
)
from optuna.trial import TrialState

from hpsearch.cluster.child_processes import same_code
from hpsearch.cluster.study_dir import StudyDir

NUM_TRIALS = 3


@pytest.mark.slow
def test_the_doctor_says_where_a_scheduler_that_is_not_here_would_be(tmp_path: Path) -> None:
    pytest.importorskip("psij", reason="PSI/J is not installed, see Makefile")
    write_trainer(tmp_path)
    write_study(tmp_path, {"executor": {"name": "psij", "scheduler": "pbs"}})
    done = subprocess.run(  # PSI/J listens to the ends of a process's children
        [sys.executable, "-m", "hpsearch.cli", "doctor", "study.yaml"],
        cwd=tmp_path,
        env=os.environ | same_code() | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "the scheduler pbs needs the program qsub, which is not here; run this" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_driver_is_followed_by_one_that_finds_the_jobs(tmp_path: Path) -> None:
    pytest.importorskip("psij", reason="PSI/J is not installed, see Makefile")
    psij = {"name": "psij", "scheduler": "local", "poll_seconds": 0.5, "pilot": False, "jobs": 2}
    write_trainer(tmp_path, {"steps": 600, "evaluation/interval": 300, "checkpoint/interval": 100})
    write_study(tmp_path, {"executor": psij, "budget/trials": NUM_TRIALS})
    files = StudyDir(tmp_path / "runs/tiny")
    try:
        run = Run(tmp_path, "--no-export")
        run.wait_until(lambda: all(newest_step(tmp_path, number) for number in range(2)))
        run.end(signal.SIGKILL)
        code, _, err = Run(tmp_path, "--no-export").wait()
        assert code == 0, err
        assert no_jobs_left(tmp_path)
    finally:
        kill_study(tmp_path)
    states = [trial.state for trial in plain_optuna(tmp_path).trials]
    assert states == [TrialState.COMPLETE] * NUM_TRIALS
    assert Counter(events(tmp_path, "told")) == Counter(range(NUM_TRIALS)), "each once"
    assert {files.trial(number).newest_attempt() for number in range(2)} == {1}, "jobs went on"
