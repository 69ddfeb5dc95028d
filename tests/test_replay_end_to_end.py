"""hpsearch replay with real trainings: killed, gone on with, and compared."""

import json

import pytest
from cli_tools import hpsearch, no_jobs_left, read, write_study, write_trainer

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.trainers import checkpoint

POPULATION = {
    "members": 2,
    "interval": 20,
    "matches": {"num_games": 32, "num_samples": 50},
    "selection": {"name": "truncation", "share": 0.5, "confidence": 0.5},
}


@pytest.mark.slow
def test_a_schedule_is_trained_on_new_seeds_and_compared(tmp_path):
    write_trainer(tmp_path)
    changes = {"population": POPULATION, "budget": {"trials": 4}, "sampler": {"name": "random"}}
    write_study(tmp_path, changes | {"executor/jobs": 1, "executor/pilot": True})
    hpsearch(tmp_path, "run", "study.yaml", "--no-export")
    champion = read(tmp_path, "lineage", "tiny")["champion"]
    done = hpsearch(tmp_path, "replay", "tiny", "--seeds", "2", "--games", "50", "--json")
    plain = json.loads(done.stdout)
    written = tmp_path / "runs/tiny" / f"replay-{champion}.json"
    assert plain == json.loads(written.read_text())
    name = f"tiny-replay-{champion}"
    assert (plain["trained_by"], plain["intervals"], plain["unfinished"]) == (name, 2, 0)
    assert read(tmp_path, "status", name)["state"] == "finished"
    folder = StudyDir(tmp_path / "runs" / name)
    for replicate in plain["replicates"]:
        assert next(checkpoint.valid_steps(folder.trial(replicate["trial"]).checkpoints)) == 40
    done = hpsearch(tmp_path, "replay", "tiny", "--games", "50")
    assert done.stdout.splitlines()[-1] == plain["conclusion"]
    assert no_jobs_left(tmp_path)
