"""A study interrupted and killed anywhere ends as the one that nothing disturbed."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

import psutil
import pytest
from cli_tools import (
    METRIC,
    PATIENCE_SECONDS,
    Run,
    damage,
    hpsearch,
    in_this_process,
    jobs_of,
    kill_jobs,
    newest_step,
    no_jobs_left,
    outcomes,
    plain_optuna,
    read,
    refused,
    told,
    write_study,
    write_trainer,
)
from optuna.trial import TrialState
from tried import tried

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study import driver as driver_module
from hpsearch.trainers import checkpoint

TRIALS = set(range(4))

# Two jobs after one another, each of two trials that end at different times; the second job's
# are suggested from what the first one's came to.
ONE_JOB = {
    "executor": {"name": "local", "jobs": 1, "members_per_job": 2, "cpus_per_job": 1},
    "sampler": {"name": "tpe", "n_startup_trials": 2},
    "budget": {"trials": 4},
    "seed": 21,  # the first two trials take 350 and 970 steps
    "space/steps": {"type": "int", "low": 300, "high": 1200, "step": 10},
}
FIRST_JOB = {"budget": {"trials": 2}}
"""its first job alone, where another one would meet nothing new"""
MEASURED_OFTEN = {
    "updates_per_step": 2,
    "evaluation/interval": 100,
    "checkpoint/interval": 20,
    "evaluation/final_num_games": 100,
}
ENDLESS = {"steps": 10**7, "checkpoint/interval": 50, "evaluation/interval": 10**7}


def new_study(folder: Path, changes: dict | None = None) -> Path:
    write_trainer(folder, MEASURED_OFTEN)
    write_study(folder, ONE_JOB | (changes or {}))
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The outcomes of a study that nothing disturbed."""
    folder = new_study(tmp_path_factory.mktemp("whole"))
    hpsearch(folder, "run", "study.yaml", "--no-export")
    ending = outcomes(folder)
    assert len({values[0] for _, values, _, _ in ending.values()}) == 4
    return ending


@pytest.fixture(scope="module")
def first_two(whole):
    """Those of its first job, which are drawn and trained the same without the other two."""
    return {number: whole[number] for number in (0, 1)}


@pytest.fixture
def folder(tmp_path):
    """An empty folder; jobs that a failed test leaves there are killed."""
    yield tmp_path
    kill_jobs(tmp_path)


def attempts(folder: Path) -> dict[int, int]:
    return {trial["trial"]: trial["attempts"] for trial in read(folder, "trials", "tiny")}


RECORDED_ENDS = "SELECT trial FROM hpsearch_events WHERE kind = 'told'"


def recorded_ends(folder: Path) -> list[int]:
    """Return the trials whose end is an event; a driver may be killed before it logs one."""
    with closing(sqlite3.connect(folder / "runs/tiny.db")) as database:
        return [n for (n,) in database.execute(RECORDED_ENDS)]


def assert_as_if_undisturbed(folder: Path, whole: dict) -> None:
    """Every trial has the same parameters, values and curve, and was told once."""
    assert outcomes(folder) == whole
    assert sorted(recorded_ends(folder)) == sorted(whole)
    status = read(folder, "status", "tiny")
    assert status["state"] == "finished"
    assert status["trials"]["finished"] == len(whole)
    for number in whole:
        rows = list(StudyDir(folder / "runs/tiny").trial(number).read_metrics())
        curve = {row["step"]: row["metrics"][METRIC]["value"] for row in rows}
        assert len(curve) == len(rows)
        assert curve == whole[number][3]
    assert no_jobs_left(folder)


def half_way(folder: Path, num_told: int):
    """Return a condition: so many trials have ended; another has begun and is far from its end."""
    study = StudyDir(folder / "runs/tiny")

    def is_half_way(number: int) -> bool:
        config = study.trial(number).config
        steps = yaml_file.load(config)["steps"] if config.exists() else 0
        # A driver looks twice a second, in which a quick machine makes 400 steps.
        return 0 < newest_step(folder, number) < steps - 200

    def holds() -> bool:
        ended = told(folder)
        return len(ended) >= num_told and any(is_half_way(number) for number in TRIALS - ended)

    return holds


# Ctrl-C.


@pytest.mark.parametrize("stop", tried([signal.SIGINT, signal.SIGTERM], slow=[signal.SIGINT]))
def test_an_interrupted_study_goes_on_where_it_was(folder, whole, stop):
    new_study(folder)
    run = Run(folder, "--no-export")
    run.wait_until(half_way(folder, 1))
    code, _, err = run.end(stop)
    assert code == 130
    assert err.splitlines() == [
        "hpsearch: stopping; running trials are saved ...",
        "hpsearch: interrupted; go on with: hpsearch run study.yaml --no-export",
    ]
    assert jobs_of(folder) == []

    finished = told(folder)
    assert 0 < len(finished) < 4
    results = StudyDir(folder / "runs/tiny")
    stamps = {n: results.trial(n).result.stat().st_mtime_ns for n in finished}
    status = read(folder, "status", "tiny")
    assert status["state"] == "interrupted"
    assert (status["trials"]["running"], status["trials"]["finished"]) == (0, len(finished))
    left = {t["trial"] for t in read(folder, "trials", "tiny") if t["state"] == "waiting"}
    saved = {number: newest_step(folder, number) for number in left}
    assert left
    assert all(saved.values())
    assert read(folder, "best", "tiny")["trial"] in finished
    text = hpsearch(folder, "status", "tiny").stdout
    counts = f"({len(finished)} finished, {len(left)} waiting)"
    assert text.startswith(f"tiny: interrupted\ntrials: {len(finished)} of 4 {counts}\n")

    again = hpsearch(folder, "run", "study.yaml", "--no-export")
    assert again.stderr == ""
    assert_as_if_undisturbed(folder, whole)
    counts = attempts(folder)
    assert all(counts[number] == 1 for number in TRIALS - left)
    assert all(counts[number] == 2 for number in left)
    assert {n: results.trial(n).result.stat().st_mtime_ns for n in finished} == stamps
    logs = "".join(path.read_text() for path in results.root.glob("jobs/*/*_log.out"))
    for number, step in saved.items():
        assert f"trial {number} goes on from step {step}\n" in logs


@pytest.mark.slow
def test_by_name_and_in_another_folder_of_runs(folder, first_two):
    """What says how to go on says where; the name of a started study is enough."""
    new_study(folder, FIRST_JOB | {"storage": "sqlite:///elsewhere/runs/tiny.db"})
    (folder / "elsewhere").mkdir()
    run = Run(folder, "--no-export", "--runs", "elsewhere/runs")
    run.wait_until(lambda: list(folder.glob("elsewhere/runs/tiny/trials/*/checkpoints/step-*")))
    code, _, err = run.end(signal.SIGINT)
    assert code == 130
    last = err.splitlines()[-1]
    assert last == (
        "hpsearch: interrupted; go on with: "
        "hpsearch run study.yaml --runs elsewhere/runs --no-export"
    )
    hpsearch(folder, "run", "tiny", "--no-export", "--runs", "elsewhere/runs")
    assert outcomes(folder / "elsewhere") == first_two


@pytest.mark.slow
def test_a_run_outlives_the_reader_of_what_it_says(folder):
    """As `run 2>&1 | tee log`, where Ctrl-C ends tee, too: it trains on, and trials are saved."""
    write_trainer(folder, ENDLESS)
    write_study(folder, {"executor/jobs": 1})
    command = [sys.executable, "-m", "hpsearch.cli", "run", "study.yaml"]
    run = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    with run.stdout as output:
        output.readline()
    while newest_step(folder, 2) == 0:
        assert run.poll() is None
        time.sleep(0.01)
    step = newest_step(folder, 2)
    time.sleep(6)  # a line is said every five seconds
    run.send_signal(signal.SIGINT)
    assert run.wait(PATIENCE_SECONDS) == 130
    assert jobs_of(folder) == []
    assert newest_step(folder, 2) > step
    assert read(folder, "status", "tiny")["state"] == "interrupted"


@pytest.mark.parametrize("seconds", tried([0.0, 0.1, 0.4, 1.0, 1.6], slow=[1.0]))
def test_a_job_that_is_still_starting_leaves_too(folder, seconds):
    """It does not listen while it imports torch, and would train for ever."""
    write_trainer(folder, ENDLESS)
    write_study(folder, {"executor/jobs": 1})
    run = Run(folder, "--no-export")
    run.wait_until(lambda: list(folder.glob("runs/tiny/jobs/*/*_submitted.pkl")))
    time.sleep(seconds)
    assert run.end(signal.SIGINT)[0] == 130
    assert jobs_of(folder) == []
    status = read(folder, "status", "tiny")
    assert (status["state"], status["trials"]["waiting"]) == ("interrupted", 3)


@pytest.mark.parametrize("seconds", tried([0.3, 0.6, 0.9, 1.2, 1.5, 2.0, 2.5, 3.0], slow=[0.6]))
def test_interrupted_at_any_moment_no_job_is_left_behind(folder, first_two, seconds):
    """While Python starts, while the study is opened, while the jobs import torch."""
    new_study(folder, FIRST_JOB)
    run = Run(folder, "--no-export")
    time.sleep(seconds)
    code, _, err = run.end(signal.SIGINT)
    assert code == 130, err
    assert err.splitlines()[-1].startswith("hpsearch: interrupted")
    assert jobs_of(folder) == []
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert_as_if_undisturbed(folder, first_two)


# Looking at a study that runs.


@pytest.mark.slow
def test_looking_at_a_study_before_its_first_finished_trial(folder):
    write_trainer(folder, ENDLESS)
    write_study(folder, {"executor/jobs": 1})
    run = Run(folder)
    run.wait_until(lambda: newest_step(folder, 2) > 0)
    status = read(folder, "status", "tiny")
    expected = {
        "study": "tiny",
        "state": "running",
        "trials": {"finished": 0, "running": 3, "waiting": 0, "pruned": 0, "failed": 0},
        "budget": 6,
        "failures": {},
        "best": None,
        "jobs": {"queued": 0, "running": 1, "ended": 0},
        "compiling": False,
        "stragglers": [],
        "actors": {},
        "waste": {},
    }
    assert {key: status[key] for key in expected} == expected
    assert status["driver"]["pid"] == run.process.pid
    trials = read(folder, "trials", "tiny")
    assert [trial["state"] for trial in trials] == ["running"] * 3
    assert [trial["metrics"] for trial in trials] == [{}] * 3
    assert "running" in hpsearch(folder, "trials", "tiny").stdout
    assert [trial.state for trial in plain_optuna(folder).trials] == [TrialState.RUNNING] * 3

    sentence = "no trial of tiny has finished yet; look at it with: hpsearch status tiny"
    assert refused(folder, "best", "tiny", code=1) == sentence
    assert refused(folder, "export", "tiny", code=1) == sentence
    message = refused(folder, "export", "tiny", "--trial", "0", code=2)
    assert message == "trial 0 has not finished, so there is nothing to export"

    for command in ("run", "tick"):
        message = refused(folder, command, "study.yaml", code=4)
        assert f"/{run.process.pid}/" in message
        assert "end it with hpsearch stop or cancel; a living driver renews it" in message
    assert run.process.poll() is None

    code, out, _ = run.end(signal.SIGINT)
    assert code == 130
    assert "0 of 6 (3 running) | no value yet" in out
    assert jobs_of(folder) == []
    status = read(folder, "status", "tiny")
    assert (status["state"], status["trials"]["waiting"]) == ("interrupted", 3)
    assert refused(folder, "best", "tiny", code=1) == sentence


# Killed.


@pytest.mark.slow
def test_the_driver_is_killed_and_its_jobs_go_on(folder, first_two):
    new_study(folder, FIRST_JOB)
    run = Run(folder, "--no-export")
    run.wait_until(half_way(folder, 0))
    run.end(signal.SIGKILL)
    assert jobs_of(folder)
    assert read(folder, "status", "tiny")["state"] == "interrupted"
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert_as_if_undisturbed(folder, first_two)
    assert set(attempts(folder).values()) == {1}


@pytest.mark.slow
def test_driver_and_jobs_are_killed(folder, first_two):
    new_study(folder, FIRST_JOB)
    run = Run(folder, "--no-export")
    run.wait_until(half_way(folder, 1))
    run.end(signal.SIGKILL)
    kill_jobs(folder)
    finished = told(folder)
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert_as_if_undisturbed(folder, first_two)
    counts = attempts(folder)
    assert all(counts[number] == 1 for number in finished)
    assert 2 in counts.values()


@pytest.mark.parametrize(
    ("what", "seed"),
    tried(product(["both", "driver", "jobs"], range(4)), slow=[]),
)
def test_killed_at_random_again_and_again(folder, whole, what, seed):
    """Twice: jobs that vanish three times in a row without getting further fail."""
    moments = random.Random(f"{what} {seed}")
    new_study(folder)
    for _ in range(2):
        run = Run(folder, "--no-export")
        time.sleep(moments.uniform(0.5, 7.0))
        if what != "jobs":
            run.process.kill()
            run.process.wait()
        if what != "driver":
            for job in jobs_of(folder):
                with suppress(psutil.NoSuchProcess):
                    job.kill()
        run.wait()
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert_as_if_undisturbed(folder, whole)


@pytest.mark.slow
def test_a_job_whose_controller_is_killed_is_fenced_off(folder, first_two):
    """Its worker trains on as an orphan, and must not disturb the next attempt."""
    new_study(folder, FIRST_JOB)
    run = Run(folder, "--no-export")
    run.wait_until(half_way(folder, 0))
    controllers = [job for job in jobs_of(folder) if job.children()]
    assert controllers
    for job in controllers:
        job.kill()
    assert run.wait()[0] == 0
    assert_as_if_undisturbed(folder, first_two)


@pytest.mark.slow
def test_ticks_drive_a_study_as_run_does(folder, first_two):
    new_study(folder, FIRST_JOB)
    deadline = time.monotonic() + 120
    hpsearch(folder, "tick", "study.yaml")
    while read(folder, "status", "tiny")["state"] != "finished":
        assert time.monotonic() < deadline
        hpsearch(folder, "tick", "tiny")
        time.sleep(0.5)
    assert_as_if_undisturbed(folder, first_two)


@pytest.mark.slow
def test_a_tick_does_all_that_there_is_to_do(folder, monkeypatch):
    """Before, it left to the next one what it had no time for, which cron begins minutes later."""
    monkeypatch.setattr(driver_module, "ASKED_AT_ONCE", 1)
    monkeypatch.setattr(driver_module, "WORKING_SECONDS", 0.0)
    new_study(folder, {**FIRST_JOB, "executor": {"name": "local", "jobs": 2}})
    assert in_this_process(folder, "tick", "study.yaml").returncode == 0
    assert [t["state"] for t in read(folder, "trials", "tiny")] == ["running", "running"]
    hpsearch(folder, "cancel", "tiny")
    hpsearch(folder, "tick", "tiny")


# What was saved is damaged.


@pytest.mark.slow
def test_a_damaged_checkpoint_is_left_out(folder, first_two):
    new_study(folder, FIRST_JOB)
    run = Run(folder, "--no-export")
    run.wait_until(half_way(folder, 1))
    run.end(signal.SIGINT)
    left = [t["trial"] for t in read(folder, "trials", "tiny") if t["state"] == "waiting"]
    steps = {number: newest_step(folder, number) for number in left}
    study = StudyDir(folder / "runs/tiny")
    for number in left:
        newest = checkpoint.path_of(study.trial(number).checkpoints, steps[number])
        damage(newest / checkpoint.TENSORS)
    older = {number: newest_step(folder, number) for number in left}
    assert all(0 < older[number] < steps[number] for number in left)
    hpsearch(folder, "run", "study.yaml", "--no-export")
    assert_as_if_undisturbed(folder, first_two)
    logs = "".join(path.read_text() for path in study.root.glob("jobs/*/*_log.out"))
    for number in left:
        assert f"trial {number} goes on from step {older[number]}\n" in logs


# The rest of what a study file can say.


@pytest.mark.slow
def test_a_raised_budget_goes_on(folder):
    write_study(folder, {"budget/trials": 2, "executor/jobs": 1})
    hpsearch(folder, "run", "study.yaml", "--no-export")
    before = outcomes(folder)
    write_study(folder, {"budget/trials": 4, "executor/jobs": 1})
    hpsearch(folder, "run", "study.yaml", "--no-export")
    after = outcomes(folder)
    assert {number: after[number] for number in before} == before
    assert set(after) == {0, 1, 2, 3}
    status = read(folder, "status", "tiny")
    assert (status["state"], status["budget"]) == ("finished", 4)


@pytest.mark.exhaustive  # that no death changes what is drawn: tests/study/test_driver_deaths.py
@pytest.mark.parametrize("sampler", ["random", "qmc", "grid", "cmaes", "gp"])
def test_every_sampler_goes_on_by_name_as_if_undisturbed(folder, sampler):
    """By name, the study is what the database holds, whose keys may stand in another order."""
    space = {
        "steps": {"type": "int", "low": 600, "high": 1200, "step": 100},
        "host.optim.args.lr": {"type": "float", "low": 1e-3, "high": 9e-3, "step": 1e-3},
        "host.gamma": {"type": "float", "low": 0.8, "high": 0.95, "step": 0.05},
    }
    changes = {"space": space, "sampler": {"name": sampler}, "seed": 21}
    runs = []
    for name in ("whole", "interrupted"):
        new_study(folder / name, changes)
        if name == "interrupted":
            run = Run(folder / name, "--no-export")
            run.wait_until(half_way(folder / name, 0))
            run.end(signal.SIGINT)
        hpsearch(folder / name, "run", "study.yaml" if name == "whole" else "tiny", "--no-export")
        runs.append(outcomes(folder / name))
    assert runs[0] == runs[1]
    assert len(runs[0]) == 4


@pytest.mark.slow
def test_a_study_that_prunes_ends_the_same_after_an_interruption(folder):
    changes = {
        "pruner": {"name": "median", "n_startup_trials": 2},
        "budget": {"trials": 6},
        "executor": ONE_JOB["executor"] | {"pilot": True},
        "space/steps": {"type": "int", "low": 600, "high": 600},
    }
    runs = []
    for name in ("whole", "interrupted"):
        new_study(folder / name, changes)
        if name == "interrupted":
            run = Run(folder / name, "--no-export")
            run.wait_until(half_way(folder / name, 1))
            run.end(signal.SIGINT)
        hpsearch(folder / name, "run", "study.yaml", "--no-export")
        runs.append(outcomes(folder / name))
        status = read(folder / name, "status", "tiny")
        assert status["trials"]["pruned"] + status["trials"]["finished"] == 6
        assert status["trials"]["pruned"] > 0
    assert [(state, values, params) for state, values, params, _ in runs[0].values()] == [
        (state, values, params) for state, values, params, _ in runs[1].values()
    ]
