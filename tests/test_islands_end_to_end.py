"""A population whose jobs breed by themselves, in real jobs that are killed."""

import json

import pytest
from cli_tools import (
    Run,
    hpsearch,
    kill_jobs,
    newest_step,
    no_jobs_left,
    outcomes,
    read,
    write_study,
)
from test_population_end_to_end import STUDY, TRAINER, checkpoints, write_trainer

ISLANDS = {
    "members": 2,
    "generations": 2,
    "num_games": 32,
    "selection": {"name": "truncation", "share": 0.5, "confidence": 0.5},
}

MATCHES = {"num_games": 64, "num_samples": 50}


def new_study(folder):
    changes = {
        "population": STUDY["population"] | {"islands": ISLANDS, "matches": MATCHES},
        "budget": {"trials": 8},
        "executor": STUDY["executor"] | {"pilot": True},
    }
    write_trainer(folder, TRAINER)
    write_study(folder, STUDY | changes)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = new_study(tmp_path_factory.mktemp("whole"))
    hpsearch(folder, "run", "study.yaml", "--no-export")
    return folder


@pytest.mark.slow
def test_members_take_each_others_places_and_replay_follows(whole):
    status = read(whole, "status", "tiny")
    assert status["state"] == "finished"
    told = [
        json.loads(path.read_text())["takeovers"]
        for path in whole.glob("runs/tiny/trials/*/result.json")
    ]
    assert len(told) == 8 + status["untrained"]
    assert any(told)
    # Of each trial its last checkpoint, and those that were copied.
    assert len({(trial, step) for trial, step, *_ in checkpoints(whole)}) > 8
    hpsearch(whole, "replay", "tiny", "--seeds", "2", "--games", "64", "--submit")
    (study,) = (whole / "runs").glob("tiny-replay-*")
    hpsearch(whole, "cancel", study.name)  # tests/test_replay_end_to_end.py trains one
    assert "interval: 20" in (study / "study.yaml").read_text()


@pytest.mark.slow
def test_killed_it_comes_to_the_same_members(tmp_path, whole):
    folder = new_study(tmp_path)
    run = Run(folder, "--no-export")
    run.wait_until(lambda: newest_step(folder, 0) > 0)
    run.process.kill()
    run.wait()
    kill_jobs(folder)
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert checkpoints(folder) == checkpoints(whole)
    assert outcomes(folder) == outcomes(whole)
    assert no_jobs_left(folder)
