"""Whole studies on a SLURM cluster and PostgreSQL, while everything goes wrong that can.

    pytest tests/slurm/test_slurm_studies.py -s

The same with 64 trials and a database that is away for five minutes: HPSEARCH_TEST_TRIALS=64
HPSEARCH_TEST_OUTAGE=300.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from cli_tools import (
    METRIC,
    damage,
    hpsearch,
    jobs_of,
    kill_jobs,
    outcomes,
    refused,
    write_study,
    write_trainer,
)
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from servers import Server
from slurm_tools import SlurmCluster, ask, end_all_jobs, wait_until
from tried import tried

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config.ending import NEVER

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1800)]

VARIABLE = "HPSEARCH_TEST_STORAGE"
SPIRALS = Path(__file__).parents[2] / "studies/spirals.yaml"
PROFILE = Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml"
NUM_TRIALS = int(os.environ.get("HPSEARCH_TEST_TRIALS", "8"))
OUTAGE_SECONDS = float(os.environ.get("HPSEARCH_TEST_OUTAGE", "10"))
DRIVER = "hpsearch-driver-"
INTERVAL = 100
"""steps between two checkpoints"""
TRAINER = {
    "steps": 4000,
    "evaluation/interval": 400,
    "evaluation/num_games": 100,
    "checkpoint/interval": INTERVAL,
}


@dataclass
class Sweep:
    """A study that was submitted, as its files and commands show it."""

    folder: Path
    url: str
    cluster: SlurmCluster

    @property
    def files(self) -> StudyDir:
        return StudyDir(self.folder / "runs" / "tiny")

    def do(self, *arguments: str, code: int | None = 0) -> str:
        return hpsearch(self.folder, *arguments, code=code).stdout

    def status(self) -> dict[str, Any]:
        return json.loads(self.do("status", "tiny", "--json"))

    def wait(self, condition: Callable[[dict[str, Any]], bool], seconds: float = 600) -> None:
        """Wait for something to be so in the status."""
        seen: dict[str, Any] = {}

        def look() -> bool:
            seen.update(self.status())
            return condition(seen)

        def tell() -> str:
            return json.dumps(seen, indent=1) + self.output()

        # A look takes processor time, which jobs need, and drivers look once a second, too.
        wait_until(look, seconds, tell, pause=1.0)

    def output(self) -> str:
        return self.files.output.read_text() if self.files.output.exists() else ""

    def kill_driver(self) -> None:
        """Kill the driver's process as if its node had run out of memory, and see the next one."""
        # One on a node that failed is gone, and the next one has not written its own yet.
        wait_until(lambda: psutil.pid_exists(self.driver_process()), 60, self.output)
        killed = self.driver_process()
        os.kill(killed, signal.SIGKILL)
        wait_until(
            lambda: self.driver_process() != killed, 60, lambda: f"no new driver; {self.output()}"
        )

    def driver_process(self) -> int:
        pid: int = json.loads(self.files.driver.read_text())["pid"]
        return pid

    def kill_driver_process(self) -> None:
        """The same, while no other one may be able to drive."""
        wait_until(lambda: bool(self.drivers()), 60, self.output)
        for process in self.drivers():
            process.kill()

    def drivers(self) -> list[psutil.Process]:
        """Return the driver's process, which its supervisor would start again."""
        words = ["hpsearch.cli", "drive", str(self.files.root.parent)]
        return [
            process
            for process in psutil.process_iter(["cmdline"])
            if all(word in (process.info["cmdline"] or []) for word in words)
        ]

    def driver_jobs(self) -> list[str]:
        """Return the ids of the jobs that drive, waiting or running."""
        lines = ask("squeue", "--noheader", "--format=%i %j").splitlines()
        return [line.split()[0] for line in lines if line.split()[1].startswith(DRIVER)]

    def wait_for_a_round(self) -> None:
        """Wait until the driver has done one from now on."""
        now = time.time()
        self.wait(lambda seen: seen["driver"] is not None and seen["driver"]["at"] > now)

    def node_of_a_job(self) -> str:
        """Return a node on which trials train, as soon as there is one."""
        wait_until(lambda: bool(self.busy_nodes()), 120, self.output)
        return self.busy_nodes()[0]

    def busy_nodes(self) -> list[str]:
        lines = ask("squeue", "--noheader", "--states=RUNNING", "--format=%j %N").splitlines()
        return [line.split()[1] for line in lines if line.startswith("hps-")]

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        """Return the trials as plain Optuna reads them."""
        storage = RDBStorage(self.url)
        try:
            return optuna.load_study(study_name="tiny", storage=storage).trials
        finally:
            storage.remove_session()
            storage.engine.dispose()


@pytest.fixture
def sweep(
    slurm_cluster: SlurmCluster,
    postgresql: Server,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Sweep]]:
    """Return a function that submits a study; at the end nothing of it runs any more."""

    def submit(profile: dict[str, Any] | None = None, **changes: Any) -> Sweep:
        settings = {**yaml_file.load(PROFILE), "max_calls_per_minute": 120, **(profile or {})}
        (tmp_path / "profile.yaml").write_text(yaml_file.dump(settings))
        write_trainer(tmp_path, TRAINER | changes.pop("trainer", {}))
        executor = {"name": "slurm", "profile": "profile.yaml", "jobs": 3, "members_per_job": 2}
        study = {
            "storage": f"env:{VARIABLE}",
            "executor": {**executor, "poll_seconds": 1},
            "budget/trials": NUM_TRIALS,
            "sampler/n_startup_trials": 6,
        }
        write_study(tmp_path, study | changes)
        name = re.sub(r"\W", "_", request.node.name).lower()
        sweep = Sweep(tmp_path, postgresql.new_database(name), slurm_cluster)
        monkeypatch.setenv(VARIABLE, sweep.url)
        began = time.monotonic()
        sweep.do("submit", "study.yaml")
        print(f"submit returned after {time.monotonic() - began:.1f} s")
        return sweep

    yield submit
    end_all_jobs()


def check_books(sweep: Sweep, num_trials: int = NUM_TRIALS) -> None:
    """Every trial finished and was told once, and none repeated more than one interval."""
    trials = sweep.trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * num_trials
    told = re.findall(r" told trial (\d+) ", sweep.files.log.read_text())
    assert Counter(map(int, told)) == Counter(range(num_trials))
    for trial in trials:
        files = sweep.files.trial(trial.number)
        result = json.loads(files.result.read_text())
        assert [result["metrics"][METRIC]["value"]] == trial.values
        rows = [row["step"] for row in files.read_metrics()]
        (steps, *_) = checkpoint.valid_steps(files.checkpoints)
        assert rows == list(range(400, steps + 1, 400)), "an evaluation is missing or stands twice"
        for step in repeated_steps(sweep, trial.number):
            assert step <= INTERVAL


def repeated_steps(sweep: Sweep, number: int) -> Iterator[int]:
    """Yield how many steps each attempt made again, by its beginning and the last heartbeat."""
    files = sweep.files.trial(number)
    for k in range(1, files.newest_attempt()):
        beat, begun = sweep.files.heartbeat(number, k), files.attempt(k + 1).start
        start = begun.try_read()
        # A job on a node that failed runs on, behind a broken network.
        if start is not None and beat is not None and beat.at <= begun.path.stat().st_mtime:
            yield beat.step - start.step


def test_everything_goes_wrong(sweep, postgresql: Server, slurm_cluster: SlurmCluster) -> None:
    """A node fails, a higher partition preempts, walltimes end, the driver is killed three times,
    and the database goes away."""
    profile = {"walltime_minutes": 2, "signal_delay_seconds": 30, "array_parallelism": 2}
    # By seconds of training, as many on slow machines, so that each trouble comes in them.
    trainer = {"steps": 10**6, "end": NEVER | {"seconds": 60.0}}
    study = sweep(profile, trainer=trainer, **{"executor/jobs": 2})
    study.wait(lambda seen: seen["jobs"]["running"] > 0)

    postgresql.kill()
    study.kill_driver_process()
    time.sleep(OUTAGE_SECONDS)
    study.kill_driver_process()  # one that began while the database was away
    postgresql.start()
    study.wait_for_a_round()

    node = study.node_of_a_job()
    slurm_cluster.dev("fail", node)
    time.sleep(5)
    slurm_cluster.dev("restore", node)
    study.wait(lambda seen: "node_fail" in seen["waste"])
    study.wait(lambda seen: seen["jobs"]["running"] > 0)
    study.kill_driver()

    urgent = slurm_cluster.submit(
        "sleep 3", "--partition=urgent", "--nodes=4", "--exclusive", "--time=1"
    )
    slurm_cluster.wait_for_state(urgent, {"COMPLETED"}, 180)
    study.wait(lambda seen: seen["state"] == "finished", 1500)
    check_books(study)
    print(study.do("status", "tiny"))
    summary = study.status()
    assert summary["waste"]["node_fail"]["attempts"] > 0
    assert summary["waste"]["interrupted"]["attempts"] > 0
    assert summary["gpu_hours"]["spent"] > 0
    password = "".join(re.findall(r"://[^:]*:([^@]*)@", study.url))
    assert password
    for path in study.folder.rglob("*"):
        assert not path.is_file() or password.encode() not in path.read_bytes(), path


def test_programs_as_trials_go_on_after_preemption(
    sweep, slurm_cluster: SlurmCluster, tmp_path: Path
) -> None:
    """The program of PyTorch that the documentation shows."""
    example = yaml_file.load(SPIRALS)
    shutil.copytree(SPIRALS.parent / "programs", tmp_path / "programs")
    study = sweep(
        **{
            "base": example["base"] | {"steps": 1000, "interval": 20, "stop_seconds": 5.0},
            "objectives": example["objectives"],
            "space": example["space"],
            "budget/trials": 2,
            "executor/jobs": 1,
        }
    )
    study.wait(lambda seen: any(study.files.trial(0).read_metrics()))
    urgent = slurm_cluster.submit(
        "sleep 3", "--partition=urgent", "--nodes=4", "--exclusive", "--time=1"
    )
    slurm_cluster.wait_for_state(urgent, {"COMPLETED"}, 180)
    study.wait(lambda seen: seen["state"] == "finished")
    assert study.status()["waste"]["interrupted"]["attempts"] > 0
    for trial in study.trials():
        files = study.files.trial(trial.number)
        rows = sorted(row["step"] for row in files.read_metrics())
        assert rows == list(range(20, 1001, 20))
        (kept,) = files.checkpoints.glob("*/program/metrics.jsonl")
        measured = [json.loads(line) for line in kept.read_text().splitlines()]
        steps = Counter(row["step"] for row in measured)
        assert {*steps} == {*range(1, 1001)}
        assert len(measured) - len(steps) < files.newest_attempt(), "an epoch an interruption"
        assert trial.values == [measured[-1]["accuracy"]]
    study.do("audit", "tiny")


@pytest.mark.parametrize("when", tried(["at the start", "in the middle"], slow=["in the middle"]))
def test_killed_while_the_scheduler_is_away(
    sweep, slurm_cluster: SlurmCluster, tmp_path: Path, when: str
) -> None:
    """With jobs by two profiles, or before there are any."""
    other = yaml_file.load(PROFILE) | {"gpus_per_task": 2, "max_calls_per_minute": 120}
    (tmp_path / "other.yaml").write_text(yaml_file.dump(other))
    slurm = {"name": "slurm", "members_per_job": 1, "poll_seconds": 1, "pilot": False}
    executors = [
        {**slurm, "profile": "profile.yaml", "jobs": 1},
        {**slurm, "profile": "other.yaml", "jobs": 2},
    ]
    changes = {"executors": executors, "executor": ..., "budget/trials": 4}
    study = sweep(**changes, trainer={"steps": 1600})

    def gpus_asked() -> set[str]:
        listed = ask("squeue", "--noheader", "--format=%j %b").splitlines()
        return {line.rpartition(":")[2] for line in listed if line.startswith("hps-")}

    study.wait(lambda now: now["driver"] is not None)
    if when == "in the middle":
        wait_until(lambda: gpus_asked() == {"1", "2"}, 120, study.output)
        study.wait(lambda now: now["jobs"]["running"] > 0)
    slurm_cluster.stop_controller()
    try:
        study.kill_driver_process()
        wait_until(lambda: study.files.driver_retry.try_read() is not None, 120, study.output)
        wait_until(
            lambda: "does not answer" in study.files.driver_retry.try_read().reason,
            120,
            study.output,
        )
        study.kill_driver_process()
    finally:
        up = slurm_cluster.dev("up")
        assert up.returncode == 0, up.stderr
    study.wait(lambda now: now["state"] == "finished")
    check_books(study, num_trials=4)


def test_a_driver_goes_on_after_its_walltime(sweep) -> None:
    driver = {**yaml_file.load(PROFILE)["driver"], "walltime_minutes": 2}
    study = sweep({"driver": driver}, trainer={"steps": 10**6})
    (job,) = study.driver_jobs()
    wait_until(lambda: "Restarts=1" in ask("scontrol", "show", "job", job), 180, study.output)
    assert study.status()["state"] == "starting"
    study.wait(lambda now: now["state"] == "running" and now["driver"]["slurm_job"] == job, 300)
    study.do("cancel", "tiny")


def test_six_submits_at_once_queue_one_driver(sweep) -> None:
    study = sweep()
    wait_until(lambda: study.files.driver_start.exists(), 10, study.output)
    ask("scancel", *study.driver_jobs())
    wait_until(lambda: not study.driver_jobs(), 60, lambda: ask("squeue"))
    command = [sys.executable, "-m", "hpsearch.cli", "submit", "study.yaml"]
    submits = [subprocess.Popen(command, cwd=study.folder) for _ in range(6)]
    assert Counter(submit.wait(120) for submit in submits) == {0: 1, 4: 5}
    assert len(study.driver_jobs()) == 1


def test_trial_jobs_do_not_get_the_password(sweep, slurm_cluster: SlurmCluster) -> None:
    """Neither in the environment of their processes, nor where SLURM keeps what they were
    submitted with."""
    study = sweep(**{"budget/trials": 4, "executor/jobs": 2, "trainer": {"steps": 10**7}})
    study.wait(lambda seen: seen["jobs"]["running"] == 2)
    (password,) = re.findall(r"://[^:]*:([^@]*)@", study.url)
    of_jobs = [process.environ() for process in jobs_of(study.folder)]
    assert len(of_jobs) >= 2
    for environment in of_jobs:
        assert environment["SLURM_JOB_NAME"].startswith("hps-")
        assert VARIABLE not in environment
        assert password not in "".join(environment.values())

    stored = [path for path in (slurm_cluster.folder / "state").rglob("*") if path.is_file()]
    holding = {path.parent.name for path in stored if password.encode() in path.read_bytes()}
    listed = ask("squeue", "--noheader", "--format=%F %j").splitlines()
    (driver,) = {line.split()[0] for line in listed if "hpsearch-driver-" in line}
    of_trials = {f"job.{line.split()[0]}" for line in listed if line.split()[1].startswith("hps-")}
    assert of_trials
    assert of_trials <= {path.parent.name for path in stored}, "SLURM keeps environments elsewhere"
    assert f"job.{driver}" in holding, "the driver's job needs the database"
    assert not of_trials & holding, "and no other one"
    study.do("cancel", "tiny")


def test_a_process_that_lies(sweep) -> None:
    """A result cut in half, a heartbeat from the future, a checkpoint with one wrong byte."""
    study = sweep(
        {"array_parallelism": 2},
        **{"budget/trials": 2, "executor/jobs": 1, "trainer": {"steps": 2000}},
    )
    trial = study.files.trial(0)

    def newest() -> int:
        return next(checkpoint.valid_steps(trial.checkpoints), 0)

    wait_until(lambda: newest() >= 200, 120, study.output)
    attempt = trial.attempt(1)
    kill_jobs(study.folder)
    # The next attempt needs seconds to begin.
    damage(checkpoint.path_of(trial.checkpoints, newest()) / "tensors.safetensors")
    (attempt.root / "result.json").write_text('{"token": "x", "status": "finished", "metr')
    (beat,) = study.files.jobs.glob("*/heartbeat.json")
    lies = json.loads(beat.read_text()) | {"at": 4e9}
    lies["members"][0]["step"] = 10**15
    beat.write_text(json.dumps(lies))
    os.utime(beat, (4e9, 4e9))
    study.wait(lambda seen: seen["state"] == "finished", 300)
    assert [trial.state for trial in study.trials()] == [TrialState.COMPLETE] * 2
    assert study.status()["waste"]["lost"]["attempts"] == 2  # both trials of the job
    assert "is damaged and left out" in "".join(
        path.read_text() for path in study.files.root.glob("jobs/*/*_log.out")
    )


def test_submit_twice_pause_resume_stop(sweep) -> None:
    study = sweep(**{"trainer": {"steps": 600}, "executor/jobs": 2})
    again = refused(study.folder, "submit", "study.yaml", code=4)
    assert "driven by" in again or "is there already" in again
    study.wait(lambda seen: seen["jobs"]["running"] > 0)
    study.do("pause", "tiny")
    study.wait(lambda seen: seen["trials"]["running"] == 0, 180)
    paused = study.status()
    assert paused["state"] == "paused"
    wait_until(lambda: not ask("squeue", "--noheader"), 60, lambda: ask("squeue"))  # none waits
    study.do("resume", "tiny")
    study.wait(lambda seen: seen["jobs"]["running"] > 0, 120)
    study.do("cancel", "tiny")
    study.wait(lambda seen: seen["state"] == "cancelled" and seen["jobs"]["running"] == 0, 60)
    wait_until(lambda: not ask("squeue", "--noheader"), 60, lambda: ask("squeue"))
    summary = study.status()
    assert summary["failures"]["cancelled"] > 0
    assert summary["trials"]["running"] == 0


def test_jobs_that_the_cluster_would_never_take_are_refused_at_once(sweep, tmp_path) -> None:
    """Before anything of the study is begun; sbatch is asked, without submitting."""
    write_trainer(tmp_path)
    profile = yaml_file.load(PROFILE) | {"partition": "no_such"}
    (tmp_path / "profile.yaml").write_text(yaml_file.dump(profile))
    executor = {"name": "slurm", "profile": "profile.yaml", "jobs": 1, "members_per_job": 1}
    write_study(tmp_path, {"executor": executor})
    for command in ("submit", "run"):
        message = refused(tmp_path, command, "study.yaml", code=2)
        assert "invalid partition" in message
        assert "change profile.yaml" in message
    assert not (tmp_path / "runs").exists()


def test_a_driver_that_waits_in_the_queue_is_starting(sweep) -> None:
    # Lines of bash, which another shell would not understand.
    study = sweep({"setup": ["source /dev/null || exit 7"]})
    seen = study.status()
    assert seen["state"] in ("starting", "running")
    study.wait(lambda seen: seen["state"] == "running", 60)
    study.do("cancel", "tiny")


def alone(folder: Path, trainer: dict[str, Any], sampler: dict[str, str]) -> dict[int, tuple]:
    """Return what two trials come to on this machine."""
    write_trainer(folder, TRAINER | trainer)
    local = {"name": "local", "jobs": 1, "members_per_job": 2}
    write_study(folder, {"executor": local, "sampler": sampler, "budget/trials": 2})
    hpsearch(folder, "run", "study.yaml", "--no-export")
    return outcomes(folder)


@pytest.mark.parametrize("how", ["fail", pytest.param("preempt", marks=pytest.mark.exhaustive)])
def test_trials_on_two_nodes_go_on_with_one(
    sweep, slurm_cluster: SlurmCluster, tmp_path: Path, how: str
) -> None:
    """Two ranks train them until one of the only two nodes fails, or is wanted urgently."""
    trainer, sampler = {"shards": 2, "steps": 1200}, {"name": "random"}
    down = ["n3", "n4"]
    for node in down:
        slurm_cluster.dev("fail", node)
    try:
        study = sweep(
            {"nodes": 2, "gpus_per_task": 0, "gpu_type": None},
            trainer=trainer,
            sampler=sampler,
            **{"budget/trials": 2, "executor/jobs": 1},
            **{"executor/ranks": 2, "executor/min_ranks": 1},
        )
        folder = study.files.trial(0).checkpoints
        wait_until(lambda: any(checkpoint.valid_steps(folder)), 120, study.output)
        of_two = checkpoint.path_of(folder, next(checkpoint.valid_steps(folder)))
        assert (of_two / "tensors-1.safetensors").exists()
        note = json.loads(study.files.driver.read_text())
        of_driver = ask("squeue", "--noheader", "--format=%N", "--jobs", note["slurm_job"])
        lost = {"n1": "n2", "n2": "n1"}[of_driver.strip()]
        if how == "fail":
            down.append(lost)
            slurm_cluster.dev("fail", lost)
        else:
            taking = ("--partition=urgent", "--exclusive", f"--nodelist={lost}")
            slurm_cluster.submit("sleep 600", *taking)
        undisturbed = alone(tmp_path / "alone", trainer, sampler)  # meanwhile
        study.wait(lambda seen: seen["state"] == "finished", 180)
    finally:
        for node in down:
            slurm_cluster.dev("restore", node)
    # SLURM asks the rank on the other node to end, which may still save.
    kinds = {"interrupted"} if how == "preempt" else {"interrupted", "node_fail"}
    waste = study.status()["waste"]
    assert waste
    assert waste.keys() <= kinds
    final = checkpoint.path_of(folder, trainer["steps"])
    assert not (final / "tensors-1.safetensors").exists()
    told = re.findall(r" told trial (\d+) ", study.files.log.read_text())
    assert Counter(map(int, told)) == Counter(range(2))
    study.do("audit", "tiny")
    for trial in study.trials():
        _, values, params, _ = undisturbed[trial.number]
        assert trial.params == params
        assert trial.values == pytest.approx(values, rel=0.02)


def test_a_population_breeds_while_nodes_and_drivers_die(
    sweep, slurm_cluster: SlurmCluster
) -> None:
    population = {
        "members": 4,
        "interval": 400,
        "generations": {"name": "synchronous", "quorum": 1.0},
        "matches": {"num_games": 64, "num_samples": 50},
        "selection": {"name": "truncation", "share": 0.5, "confidence": 0.6},
        "operators": [{"name": "clone"}, {"name": "gaussian_mutation", "strength": 0.1}],
    }
    study = sweep(
        **{
            "population": population,
            "sampler": {"name": "random"},
            "budget/trials": 8,
            "executor/members_per_job": 2,
            "executor/jobs": 2,
        }
    )
    study.wait(lambda seen: seen["trials"]["running"] == 4)
    node = study.node_of_a_job()
    slurm_cluster.dev("fail", node)
    time.sleep(2)
    slurm_cluster.dev("restore", node)
    study.wait(lambda seen: seen["population"]["matches"] == 1)
    study.kill_driver()
    study.wait(lambda seen: seen["state"] == "finished", 900)
    trials = study.trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 8
    told = re.findall(r" told trial (\d+) ", study.files.log.read_text())
    assert Counter(map(int, told)) == Counter(range(8))
    lineage = json.loads(study.do("lineage", "tiny", "--json"))
    assert len({trial["sha256"] for trial in lineage["trials"]}) == 8
    assert Counter(trial["generation"] for trial in lineage["trials"]) == {0: 4, 1: 4}
    assert lineage["champion"] == study.status()["population"]["standings"][0]["trial"]
