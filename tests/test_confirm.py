"""hpsearch confirm with real trainings: interrupted, killed, submitted, and exported from."""

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest
from cli_tools import (
    METRIC,
    PATIENCE_SECONDS,
    hpsearch,
    jobs_of,
    kill_jobs,
    kill_study,
    no_jobs_left,
    plain_optuna,
    read,
    refused,
    write_study,
    write_trainer,
)
from optuna.trial import TrialState

from hpsearch.cluster.study_dir import StudyDir

CONFIRM = ("confirm", "tiny", "--top", "2", "--seeds", "2", "--games", "300")
NAME = "tiny-confirm"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A folder with a search that has finished, and whose confirmation was cut off twice."""
    folder = tmp_path_factory.mktemp("searched")
    write_trainer(folder, {"steps": 2000, "checkpoint/interval": 50})
    executor = {"name": "local", "jobs": 1, "members_per_job": 4, "cpus_per_job": 1}
    steps = {"type": "int", "low": 200, "high": 300}
    write_study(folder, {"budget": {"trials": 3}, "executor": executor, "space/steps": steps})
    hpsearch(folder, "run", "study.yaml", "--no-export")
    yield folder
    kill_jobs(folder)


def has_begun(folder) -> bool:
    """Return whether a job trains, and trials of the confirmation have checkpoints."""
    saved = StudyDir(folder / "runs" / NAME).trials.glob("*/checkpoints/step-*")
    return any(saved) and bool(jobs_of(folder))


def cut_off(folder, number: signal.Signals) -> tuple[int, str]:
    """Send a confirmation a signal while it trains; return exit code and stderr."""
    command = [sys.executable, "-m", "hpsearch.cli", *CONFIRM]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=folder, text=True, start_new_session=True, **pipes)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not has_begun(folder):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    if number == signal.SIGKILL:
        kill_jobs(folder)
    _, error = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, error


def test_it_goes_on_after_interruptions_and_says_what_to_export(searched, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # its policies take seconds to write
    assert cut_off(searched, signal.SIGKILL)[0] == -signal.SIGKILL
    code, error = cut_off(searched, signal.SIGINT)
    assert code == 130
    assert "interrupted; go on with: hpsearch confirm tiny --games 300\n" in error
    assert read(searched, "status", NAME)["study"] == NAME
    done = hpsearch(searched, *CONFIRM, "--json")
    plain = json.loads(done.stdout)
    assert plain == json.loads((searched / "runs/tiny/confirmation.json").read_text())
    assert [len(trial["seeds"]) for trial in plain["trials"]] == [2, 2]
    assert sum(trial["chance"] for trial in plain["trials"]) == pytest.approx(1.0)
    assert no_jobs_left(searched)

    search = {row["trial"]: row for row in read(searched, "trials", "tiny")}
    again = {row["trial"]: row for row in read(searched, "trials", NAME)}
    studies_trials = plain_optuna(searched, "tiny").trials, _optuna(searched)
    assert [len(trials) for trials in studies_trials] == [3, 4]
    assert {trial.state for trials in studies_trials for trial in trials} == {TrialState.COMPLETE}
    ranked = sorted(search.values(), key=lambda row: -row["value"])
    assert {trial["trial"] for trial in plain["trials"]} == {row["trial"] for row in ranked[:2]}
    for row in plain["trials"]:
        for seed in row["seeds"]:
            assert again[seed["trial"]]["params"] == search[row["trial"]]["params"]
            config, before = again[seed["trial"]]["config"], search[row["trial"]]["config"]
            assert config == before | {"seed": seed["seed"]}
            assert 0.0 < seed["metrics"][METRIC] < 1.0

    done = hpsearch(searched, *CONFIRM)
    assert done.stdout.splitlines()[-1] == plain["advice"]
    done = hpsearch(searched, "export", "tiny", "-o", "out")
    assert f"\n trial {plain['best']} " in done.stdout
    message = refused(searched, "confirm", "tiny", "--top", "3", code=4)
    assert "leave out --top to go on with them" in message


def _optuna(folder):
    import optuna

    url = f"sqlite:///{folder}/runs/tiny.db"
    return optuna.load_study(study_name=NAME, storage=url).trials


def test_a_submitted_confirmation_is_compared_later(searched, tmp_path):
    arguments = ("confirm", "study.yaml", "--top", "1", "--seeds", "2", "--games", "300")
    folder = tmp_path
    for name in ("trainer.yaml", "study.yaml"):
        (folder / name).write_text((searched / name).read_text())
    hpsearch(folder, "run", "study.yaml", "--no-export")
    done = hpsearch(folder, *arguments, "--submit")
    assert "tiny-confirm: driven by process " in done.stdout
    assert done.stdout.endswith("compare with: hpsearch confirm tiny --games 300\n")
    deadline = time.monotonic() + PATIENCE_SECONDS
    note = StudyDir(folder / "runs" / NAME).driver
    while not note.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    driver = psutil.Process(json.loads(note.read_text())["pid"])
    driver.suspend()  # a busy machine may let it finish before it is asked
    message = refused(folder, *arguments, code=4)
    driver.resume()
    assert "tiny-confirm" in message
    while read(folder, "status", NAME)["state"] != "finished":
        assert time.monotonic() < deadline
        time.sleep(0.5)
    done = hpsearch(folder, *arguments, "--submit")
    assert "held up" in done.stdout
    kill_study(folder)  # what may still wait to see whether the driver ended well
