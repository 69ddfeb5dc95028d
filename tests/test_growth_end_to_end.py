"""A population whose members grow, in real jobs: shapes meet, breed, and are killed."""

import json
import random
import time

import pytest
from cli_tools import (
    Run,
    hpsearch,
    kill_jobs,
    no_jobs_left,
    outcomes,
    read,
    write_study,
    write_trainer,
)
from test_population_end_to_end import PILOTED, STUDY, TRAINER, checkpoints

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir

ARCHES = {"type": "categorical", "choices": [[8], [16], [16, 16]]}
GROWING = {
    "space/host.net_arch": ARCHES,
    "space/agent.net_arch": ARCHES,
    "budget": {"trials": 8},
    "population": {
        "members": 4,
        "interval": 20,
        "matches": {"num_games": 32, "num_samples": 50},
        "selection": {"name": "tournament", "size": 2, "elites": 1, "confidence": 0.5},
        "operators": [{"name": "grow", "noise": 0.01}],
        "adoption": {"num_games": 32, "confidence": 0.8},
    },
}


def new_study(folder, changes=None):
    write_trainer(folder, TRAINER)
    write_study(folder, STUDY | GROWING | (changes or {}))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A population that nothing disturbed, by few processes."""
    folder = new_study(tmp_path_factory.mktemp("whole"), PILOTED)
    hpsearch(folder, "run", "study.yaml", "--no-export")
    return folder


@pytest.mark.slow
def test_members_grow_and_play_on(whole):
    status = read(whole, "status", "tiny")
    assert (status["state"], status["population"]["matches"]) == ("finished", 2)
    lineage = read(whole, "lineage", "tiny")
    grown = [trial for trial in lineage["trials"] if trial["operator"] == "grow"]
    assert grown
    folder = StudyDir(whole / "runs/tiny")
    for member in grown:
        trial = folder.trial(member["trial"])
        assert trial.birth.read().adopted
        (path,) = [path for path in member["changes"] if path.endswith(".net_arch")]
        before, after = map(json.loads, member["changes"][path])
        assert (before, after) in [([8], [16]), ([16], [16, 16])]
        role, _, key = path.partition(".")
        assert yaml_file.load(trial.config)[role][key] == after
    assert read(whole, "best", "tiny")["trial"] == status["population"]["champion"]


@pytest.mark.exhaustive  # of members that do not grow: tests/test_population_end_to_end.py
def test_killed_at_random_it_comes_to_the_same_members(tmp_path, whole):
    moments = random.Random(1)
    new_study(tmp_path)
    try:
        for _ in range(2):
            run = Run(tmp_path, "--no-export")
            time.sleep(moments.uniform(5.0, 25.0))
            if run.process.poll() is not None:
                run.wait()
                break
            run.process.kill()
            run.wait()
            kill_jobs(tmp_path)
        hpsearch(tmp_path, "run", "study.yaml", "--no-export")
        assert checkpoints(tmp_path) == checkpoints(whole)
        assert outcomes(tmp_path) == outcomes(whole)
        assert no_jobs_left(tmp_path)
    finally:
        kill_jobs(tmp_path)
