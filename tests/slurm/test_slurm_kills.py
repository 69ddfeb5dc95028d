"""A study on a SLURM cluster of which something is killed every few seconds.

    HPSEARCH_TEST_KILLS=200 pytest -m exhaustive tests/slurm -s

HPSEARCH_TEST_SEED repeats the order of a run, not its moments.
"""

import json
import os
import re
import secrets
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest
from cli_tools import METRIC, hpsearch, jobs_of, outcomes, write_study, write_trainer
from optuna.trial import TrialState
from servers import Server
from slurm_tools import SlurmCluster, ask
from test_slurm_ranks import workers
from test_slurm_studies import DRIVER, INTERVAL, TRAINER, Sweep, repeated_steps, sweep

__all__ = ["sweep"]
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("HPSEARCH_TEST_KILLS", "40"))
WAYS = {"job": 12, "driver": 4, "database": 2, "node": 2}
"""how often each is drawn"""


def test_whatever_is_killed_nothing_is_lost_and_nothing_told_twice(
    sweep, postgresql: Server, slurm_cluster: SlurmCluster
) -> None:
    seed = int(os.environ.get("HPSEARCH_TEST_SEED", secrets.randbelow(2**32)))
    print(f"HPSEARCH_TEST_SEED={seed}", flush=True)
    rng = Random(seed)
    # As many trials as it takes; one that is killed three times before it got further fails.
    study: Sweep = sweep(**{"budget/trials": 100_000, "max_failures": 100_000})
    study.wait(lambda seen: seen["jobs"]["running"] > 0)
    done: Counter[str] = Counter()
    while sum(done.values()) < KILLS:
        time.sleep(rng.uniform(2.0, 8.0))
        (way,) = rng.choices(list(WAYS), list(WAYS.values()))
        match way:
            case "job":
                is_done = kill_a_job(study, rng)
            case "driver":
                is_done = kill_a_driver(study)
            case "database":
                postgresql.kill()
                time.sleep(rng.uniform(0.0, 20.0))
                postgresql.start()
                is_done = True
            case "node":
                is_done = fail_a_node(study, slurm_cluster)
        done[way] += is_done
        print(f"killed: {dict(done)}", flush=True)
    study.do("stop", "tiny")
    study.wait(lambda seen: seen["state"] == "stopped" and not seen["jobs"]["running"], 600)
    print(study.do("status", "tiny"))
    check_told(study)
    study.do("audit", "tiny")


def test_whichever_rank_is_killed_trials_end_as_undisturbed(sweep, tmp_path: Path) -> None:
    """Four ranks on two nodes, bit for bit what four that nothing disturbs come to.

    One process comes to the same but for rounding, which thousands of steps may make large.
    """
    seed = int(os.environ.get("HPSEARCH_TEST_SEED", secrets.randbelow(2**32)))
    print(f"HPSEARCH_TEST_SEED={seed}", flush=True)
    rng = Random(seed)
    endless = {"budget/trials": 100_000, "max_failures": 100_000, "sampler": {"name": "random"}}
    study: Sweep = sweep(
        profile={"nodes": 2, "gpus_per_task": 0, "gpu_type": None},
        trainer={"shards": 4},
        **endless,
        **{"executor/ranks": 4, "executor/jobs": 1},
    )
    killed: Counter[int] = Counter()
    while sum(killed.values()) < KILLS:
        # To start takes several seconds; a trial that is killed three times before it got further
        # fails.
        time.sleep(rng.uniform(2.0, 40.0))
        ranks = workers(study.files.jobs)
        if len(ranks) == 4:  # else the last one ends, or the next one begins
            rank = rng.randrange(4)
            with suppress(psutil.NoSuchProcess):
                ranks[rank].kill()
                killed[rank] += 1
        print(f"killed: {dict(sorted(killed.items()))}", flush=True)
    study.do("stop", "tiny")
    study.wait(lambda seen: seen["state"] == "stopped" and not seen["jobs"]["running"], 600)
    check_told(study)
    study.do("audit", "tiny")
    ended = [trial for trial in study.trials() if trial.state == TrialState.COMPLETE]
    alone = tmp_path / "alone"
    write_trainer(alone, TRAINER | {"shards": 4})
    local = {"name": "local", "jobs": 1, "members_per_job": 2, "ranks": 4, "cpus_per_job": 4}
    budget = {"budget/trials": max(trial.number for trial in ended) + 1}
    write_study(alone, {"executor": local, "sampler": {"name": "random"}} | budget)
    hpsearch(alone, "run", "study.yaml", "--no-export")
    undisturbed = outcomes(alone)
    for trial in ended:
        _, values, params, _ = undisturbed[trial.number]
        assert trial.params == params
        assert trial.values == values


def check_told(study: Sweep) -> None:
    """Every trial that ended was told once, with the value of its file, and has its whole curve."""
    told = Counter(map(int, re.findall(r" told trial (\d+) ", study.files.log.read_text())))
    ended = {trial.number: trial for trial in study.trials() if trial.state.is_finished()}
    assert told == Counter(ended.keys())
    finished = [trial for trial in ended.values() if trial.state == TrialState.COMPLETE]
    assert len(finished) > len(ended) / 2
    for trial in finished:
        files = study.files.trial(trial.number)
        result = json.loads(files.result.read_text())
        assert [result["metrics"][METRIC]["value"]] == trial.values
        assert [row["step"] for row in files.read_metrics()] == list(range(400, 4001, 400))
        for step in repeated_steps(study, trial.number):
            assert step <= INTERVAL


def kill_a_job(study: Sweep, rng: Random) -> bool:
    """Kill the processes of a job that trains, or one of them; return whether there was one."""
    workers = jobs_of(study.folder)
    if not workers:
        return False
    with suppress(psutil.NoSuchProcess):
        rng.choice(workers).kill()
    return True


def kill_a_driver(study: Sweep) -> bool:
    """Kill the driver's process, if it is not just being started again; return whether it was."""
    drivers = study.drivers()
    for driver in drivers:
        with suppress(psutil.NoSuchProcess):
            driver.kill()
    return bool(drivers)


def fail_a_node(study: Sweep, cluster: SlurmCluster) -> bool:
    """Let a node fail on which trials train, if there is one without the driver, and come back.

    SLURM starts a job again two minutes after its node failed; one that is started sooner on the
    same node is refused there ("credential revoked"), and for good.
    """
    jobs = ask("squeue", "--noheader", "--states=RUNNING", "--format=%j %N").splitlines()
    driven = {line.split()[1] for line in jobs if line.startswith(DRIVER)}
    busy = [node for node in study.busy_nodes() if node not in driven]
    if not busy:
        return False
    cluster.dev("fail", busy[0])
    time.sleep(3)
    cluster.dev("restore", busy[0])
    return True
