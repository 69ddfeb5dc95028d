"""What several ranks save: beside training, bit for bit; after an error, if all are whole."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from saving_ranks import FAULTS
from working import work

from hpsearch import yaml_file
from hpsearch.trainers import checkpoint

pytestmark = pytest.mark.slow

SHARDED = {"shards": 2, "checkpoint.keep_last": 9}


def run(case: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    # Not by -m: what ranks tell each other is found by the name of its module.
    script = "import sys, saving_ranks; saving_ranks.main(*sys.argv[1:])"
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", script, case, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=180)


def told(case: str, folder: Path, config: dict) -> dict:
    done = run(case, str(folder), yaml_file.dump(config))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return json.loads(line)


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_parts_are_written_beside_training_and_the_manifest_after_all(
    tmp_path, plain_config, algorithm
):
    seen = told("beside", tmp_path, plain_config(SHARDED, algorithm))
    three, seven = "step-000000003", "step-000000007"
    assert seen["held"] == [[], []]  # the second rank's disk was slow
    assert seen["next"] == [[three], [3]]
    assert seen["saved"] == [[three, seven], [7]]
    own = ["tensors-1.safetensors", "tensors.safetensors"]
    assert seen["files"] == ["manifest.json", "state.json", *own]
    assert seen["is_same"]
    assert seen["full"] == "rank 1: [Errno 28] No space left on device"
    assert seen["left"] == [three, seven]


def test_what_a_lost_rank_did_not_write_is_no_checkpoint(tmp_path, plain_config):
    seen = told("lost", tmp_path, plain_config(SHARDED))
    assert seen == {"message": "the process of rank 1 ended", "left": []}


RULES = {"shards": 2, "steps": 16, "checkpoint.interval": 100, "monitor.interval": 100}


@pytest.mark.parametrize("case", FAULTS)
def test_an_error_between_two_steps_leaves_checkpoints_of_all_ranks(
    tmp_path, new_job, plain_config, case
):
    is_whole = case in ("of the first rank alone", "of all ranks alike")
    configs = [plain_config({**RULES, "seed": seed}) for seed in (1, 2)]
    job = new_job(tmp_path, configs)
    done = run(case, str(job.root), "")
    assert done.returncode != 0
    for number in range(2):
        trial = job.study.trial(number)
        ended = trial.attempt(1).read_result()
        assert (ended.status, ended.kind) == ("failed", "code"), done.stderr
        assert "ZeroDivisionError: division by zero" in ended.message
        steps = list(checkpoint.valid_steps(trial.checkpoints))
        assert steps == ([ended.step] if is_whole else [])
        if is_whole:
            saved = checkpoint.path_of(trial.checkpoints, ended.step)
            assert checkpoint.load(saved).kind == "crashed"
            assert (saved / "tensors-1.safetensors").exists()
    if is_whole:
        work(str(new_job(tmp_path, configs, 2).root))
        for number in range(2):
            attempts = [job.study.trial(number).attempt(k) for k in (1, 2)]
            assert attempts[1].start.read().step == attempts[0].read_result().step > 0
            assert attempts[1].read_result().status == "finished"
