"""A study whose jobs have two ranks: one is killed, then the study goes on with one rank."""

import signal

import psutil
import pytest
from cli_tools import Run, events, hpsearch, newest_step, outcomes, read, write_study, write_trainer

SHARDED = {
    "shards": 2,
    "steps": 400,
    "evaluation/interval": 100,
    "checkpoint/interval": 20,
    "evaluation/final_num_games": 100,
}
TRIALS = {"budget": {"trials": 2}, "sampler": {"name": "random"}}


def executor(ranks: int) -> dict:
    job = {"name": "local", "jobs": 1, "members_per_job": 2, "cpus_per_job": 1, "ranks": ranks}
    return {"executor": job}


def other_ranks() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "hpsearch.cluster.job_entry" in (process.info["cmdline"] or [])
    ]


@pytest.mark.slow
def test_a_rank_is_killed_and_the_study_ends_with_one_rank(tmp_path):
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    for where, ranks in ((whole, 1), (folder, 2)):
        write_trainer(where, SHARDED)
        write_study(where, TRIALS | executor(ranks))
    hpsearch(whole, "run", "study.yaml", "--no-export")
    run = Run(folder, "--no-export")
    run.wait_until(lambda: newest_step(folder, 0) >= 20)
    (other,) = other_ranks()
    other.kill()
    run.wait_until(lambda: events(folder, "retry") or newest_step(folder, 0) >= 200)
    assert run.end(signal.SIGINT)[0] == 130
    write_study(folder, TRIALS | executor(1))
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert read(folder, "status", "tiny")["trials"]["finished"] == 2
    undisturbed, resumed = outcomes(whole), outcomes(folder)
    for number, (state, values, params, curve) in undisturbed.items():
        assert resumed[number][0] == state
        assert resumed[number][2] == params
        assert resumed[number][1] == pytest.approx(values, rel=1e-3)
        assert resumed[number][3].keys() == curve.keys()
