"""A population that trains, plays and breeds in real jobs, interrupted and killed anywhere.

With the same members in each job it comes to the same networks, bit for bit.
"""

import random
import signal
import sqlite3
import time
from contextlib import closing

import pytest
from cli_tools import (
    Run,
    hpsearch,
    jobs_of,
    kill_jobs,
    no_jobs_left,
    outcomes,
    read,
    write_study,
    write_trainer,
)
from tried import tried

TRAINER = {
    "agent": {
        "encoder": {"name": "flatten", "num_points": 5},
        "net_arch": [8],
        "activation": "relu",
        "optim": {
            "name": "adam",
            "args": {"lr": 1.0e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1.0e-8},
            "lr_schedule": {"mode": "constant"},
        },
        "max_grad_norm": 10.0,
        "gamma": 0.9,
        "rollout_size": 16,
        "batch_size": 16,
        "er": 0.2,
        "er_schedule": {"mode": "constant"},
        "tau": 1.0,
        "steps_before_update_target": 10,
        "huber_delta": 1.0,
    },
    "evaluation/opponents": ["choose_first", "zeillinger"],
    "evaluation/interval": 20,
    "checkpoint/interval": 10,
}
OPERATORS = [
    {"name": "clone"},
    {"name": "host_and_agent"},
    {"name": "gaussian_mutation", "strength": 0.1},
    {"name": "aligned_average", "share": 0.5},
]
STUDY = {
    "space/agent.gamma": {"type": "float", "low": 0.8, "high": 0.99},
    "sampler": {"name": "random"},
    "budget": {"trials": 8},
    "executor": {"name": "local", "jobs": 2, "members_per_job": 2, "cpus_per_job": 1},
    "population": {
        "members": 4,
        "interval": 40,
        "matches": {"num_games": 64, "num_samples": 50, "best_response": 10},
        "selection": {"name": "truncation", "share": 0.5, "confidence": 0.6},
        "operators": OPERATORS,
        "floor": 0.2,
        "adoption": {"num_games": 32, "confidence": 0.8},
        "closing": {"operators": OPERATORS[1:], "generations": 1},
    },
}


PILOTED = {"executor": STUDY["executor"] | {"pilot": True}}


def new_study(folder, changes=None):
    write_trainer(folder, TRAINER)
    write_study(folder, STUDY | (changes or {}))
    return folder


def checkpoints(folder):
    """Return the content of every trial's last checkpoint, and its parents', from SQL."""
    with closing(sqlite3.connect(folder / "runs/tiny.db")) as file:
        return file.execute(
            "SELECT trial, step, c.sha256, operator, adopted, seed, changes, position, p.sha256 "
            "FROM hpsearch_checkpoints c LEFT JOIN hpsearch_parents p ON p.checkpoint_id = c.id "
            "JOIN hpsearch_studies s ON s.id = c.study_id WHERE s.name = 'tiny' "
            "ORDER BY trial, step, position"
        ).fetchall()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A population that nothing disturbed, by few processes."""
    folder = new_study(tmp_path_factory.mktemp("whole"), PILOTED)
    hpsearch(folder, "run", "study.yaml", "--no-export")
    return folder


@pytest.fixture
def folder(tmp_path):
    """A folder with the same study; jobs that a failed test leaves there are killed."""
    yield new_study(tmp_path)
    kill_jobs(tmp_path)


@pytest.mark.slow
def test_a_population_trains_plays_and_breeds(whole):
    status = read(whole, "status", "tiny")
    assert status["state"] == "finished"
    population = status["population"]
    assert (population["members"], population["match"]) == (4, None)
    assert population["matches"] > 2  # one at the end answers the last champion
    assert population["standings"][0]["trial"] == population["champion"]
    assert status["untrained"] > 0
    assert status["trials"]["finished"] == 8 + status["untrained"]
    assert len(checkpoints(whole)) >= 8
    assert {answer["role"] for answer in population["answers"]} == {"host", "agent"}
    assert {answer["trial"] for answer in population["answers"]} == {population["champion"]}
    lineage = read(whole, "lineage", "tiny")
    assert lineage["line"][-1] == population["champion"]
    assert {trial["operator"] for trial in lineage["trials"]} > {"fresh", "clone"}
    assert read(whole, "best", "tiny")["trial"] == population["champion"]


@pytest.mark.parametrize("seed", tried(range(6), slow=[0]))
def test_killed_at_random_again_and_again_it_comes_to_the_same_members(folder, whole, seed):
    """Twice killed, and interrupted once, after which it has saved."""
    moments = random.Random(seed)
    for _ in range(2):
        run = Run(folder, "--no-export")
        time.sleep(moments.uniform(1.0, 12.0))
        if run.process.poll() is not None:
            run.wait()
            break
        run.process.kill()
        run.wait()
        if moments.random() < 0.7:
            kill_jobs(folder)
    run = Run(folder, "--no-export")
    run.wait_until(lambda: jobs_of(folder))
    time.sleep(1.0)
    code, _, err = run.end(signal.SIGINT)
    assert code == 130
    assert "go on with: hpsearch run study.yaml" in err
    assert no_jobs_left(folder)
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert checkpoints(folder) == checkpoints(whole)
    assert outcomes(folder) == outcomes(whole)
    assert no_jobs_left(folder)


@pytest.mark.slow
def test_a_steady_population_ends_with_every_trial_in_one_descent(tmp_path):
    steady = STUDY["population"] | {"generations": {"name": "steady"}}
    new_study(tmp_path, PILOTED | {"population": steady, "budget": {"trials": 10}})
    hpsearch(tmp_path, "run", "study.yaml", "--no-export")
    lineage = read(tmp_path, "lineage", "tiny")
    assert len(lineage["trials"]) == 10 + read(tmp_path, "status", "tiny")["untrained"]
    by_trial = {trial["trial"]: trial for trial in lineage["trials"]}
    for edge in lineage["edges"]:
        assert edge["parent"] in by_trial
