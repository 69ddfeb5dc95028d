"""What `hpsearch validate` shows: an example, what is asked of SLURM, and what the study costs."""

import csv
import json
import random
import time
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest
from cli_tools import STUDY, hpsearch, read, refused, write_study, write_trainer
from fake_actors import FIXED
from profiles import plain_profile

from hpsearch import yaml_file
from hpsearch.cluster.records import (
    Assignment,
    JobHeartbeat,
    JobPlan,
    MemberHeartbeat,
    RankHeartbeat,
)
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.doctor.machine import check_asked_gpus
from hpsearch.errors import ConfigError
from hpsearch.report import forecast as forecast_module
from hpsearch.report.forecast import forecast
from hpsearch.schema import to_plain
from hpsearch.study import spec_warnings
from hpsearch.study.samplers import build_sampler
from hpsearch.study.spec import load_spec
from hpsearch.study.spec_warnings import example_trial, warnings_of
from hpsearch.trainers.algorithms import TRAINERS
from hpsearch.trainers.config import read_config

ROOT = Path(__file__).parent.parent
LR = "host.optim.args.lr"
GRID = {
    LR: {"type": "categorical", "choices": [1e-3, 1e-2]},
    "host.gamma": {"type": "float", "low": 0.8, "high": 0.95, "step": 0.05},
}
LISTED = [{LR: 1e-3, "host.gamma": 0.9}, {LR: 2e-3, "host.gamma": 0.8}]
PROFILE = plain_profile(account=None, setup=["module load cuda"])
SLURM = {"executor": {"name": "slurm", "profile": "site.yaml", "jobs": 2}}


def load(folder: Path, changes: dict | None = None):
    return load_spec(write_study(folder, changes))


def first_of_sampler(study):
    """Return what the sampler itself asks for first, decoded."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = build_sampler(study.spec.sampler, study.spec.seed, study.space)
    trial = optuna.create_study(sampler=sampler).ask()
    study.space.suggest(trial)
    return study.space.decode(trial.params)


# The example.


@pytest.mark.parametrize(
    "changes",
    [
        {"space": GRID, "sampler": {"name": "grid"}},
        {"space": GRID, "sampler": {"name": "grid"}, "seed": 12},
        {"sampler": {"name": "listed", "configurations": LISTED}},
    ],
    ids=["grid", "grid of another seed", "listed"],
)
def test_the_example_is_the_first_trial_where_that_is_known(tmp_path, changes):
    study = load(tmp_path, changes)
    example = example_trial(study)
    assert example.what == "the first trial"
    assert example.params == first_of_sampler(study)


def test_the_example_is_drawn_by_the_studys_seed(tmp_path):
    examples = [example_trial(load(tmp_path, {"seed": seed})) for seed in (3, 3, 4)]
    assert examples[0] == examples[1] != examples[2]
    for example in examples:
        assert 1e-4 <= example.params[LR] <= 1e-2
        assert 0.8 <= example.params["host.gamma"] <= 0.97
        config = read_config(example.config, source="example")
        assert config.host.optim.args.lr == example.params[LR]
        assert config.host.gamma == example.params["host.gamma"]
    assert examples[0].config["seed"] == 3_000_000


def test_an_example_has_the_parameters_that_exist_in_it(tmp_path):
    space = {
        "dqn.double": {"type": "categorical", "choices": [True, False]},
        "host.gamma": {"type": "float", "low": 0.8, "high": 0.9, "when": {"dqn.double": True}},
        "host.tau": {"type": "float", "low": 0.1, "high": 0.2, "when": {"dqn.double": False}},
    }
    seen = set()
    for seed in range(8):
        study = load(tmp_path, {"space": space, "sampler": {"name": "random"}, "seed": seed})
        params = example_trial(study).params
        assert params.keys() == {"dqn.double", "host.gamma" if params["dqn.double"] else "host.tau"}
        seen.add(params["dqn.double"])
    assert seen == {True, False}


def test_examples_are_spread_over_the_space(tmp_path):
    """A uniform number lies below its middle half of the time: 200 seeds, five deviations."""
    study = load(tmp_path)
    data = yaml_file.load(study.path)
    below = 0
    for seed in range(200):
        study.path.write_text(yaml_file.dump(data | {"seed": seed}))
        below += example_trial(load_spec(study.path)).params["host.gamma"] < 0.885
    assert abs(below - 100) < 5 * (200 * 0.25) ** 0.5


def test_validate_prints_parameters_and_configuration(tmp_path):
    write_study(tmp_path)
    text = hpsearch(tmp_path, "validate", "study.yaml").stdout
    data = read(tmp_path, "validate", "study.yaml")
    _, params, config = text.split(":\n\n")
    params = yaml_file.parse(params.rpartition("\n\n")[0])
    assert (
        params == data["example_params"] == example_trial(load_spec(tmp_path / "study.yaml")).params
    )
    assert yaml_file.parse(config) == data["example"]


# SLURM.


def test_what_sbatch_is_asked_is_what_submitit_asks(tmp_path, monkeypatch):
    import submitit

    from hpsearch.cluster.slurm_profile import load_profile, sbatch_parameters

    (tmp_path / "site.yaml").write_text(yaml_file.dump(PROFILE))
    write_study(tmp_path, SLURM)
    shown = read(tmp_path, "validate", "study.yaml")["sbatch"]
    monkeypatch.setattr(submitit.SlurmExecutor, "affinity", classmethod(lambda cls: 2))
    executor = submitit.SlurmExecutor(folder=tmp_path)
    executor.update_parameters(**sbatch_parameters(load_profile(tmp_path / "site.yaml")))
    script = executor._make_submission_file_text("work", "uid").splitlines()
    *lines, step = shown["trials"]
    assert set(lines) <= set(script)
    (begins,) = [line for line in script if line.startswith("srun ")]
    assert set(step.split()) <= set(begins.split())
    others = [line for line in script if line.startswith("#SBATCH") and line not in shown["trials"]]
    names = {line.split()[1].partition("=")[0] for line in others}
    assert names <= {"--job-name", "--output", "--open-mode", "--wckey"}
    assert lines[-1] == shown["driver"][-1] == "module load cuda"
    assert "#SBATCH --partition=cpu" in shown["driver"]
    assert "#SBATCH --cpus-per-task=1" in shown["driver"]
    text = hpsearch(tmp_path, "validate", "study.yaml").stdout
    assert "\n".join(["a job of trials is submitted with:", "", *shown["trials"]]) in text
    assert "\n".join(["the driver is submitted with:", "", *shown["driver"]]) in text


def test_each_profile_of_a_study_is_shown(tmp_path):
    for name, minutes in (("one", 60), ("two", 30)):
        profile = PROFILE | {"walltime_minutes": minutes}
        (tmp_path / f"{name}.yaml").write_text(yaml_file.dump(profile))
    slurm = {"name": "slurm", "jobs": 1}
    executors = [slurm | {"profile": f"{name}.yaml"} for name in ("one", "two")]
    write_study(tmp_path, {"executors": executors, "executor": ...})
    shown = read(tmp_path, "validate", "study.yaml")["sbatch"]
    assert {key: [line for line in lines if "--time" in line] for key, lines in shown.items()} == {
        "trials by one.yaml": ["#SBATCH --time=60"],
        "driver": [f"#SBATCH --time={PROFILE['driver']['walltime_minutes']}"],
        "trials by two.yaml": ["#SBATCH --time=30"],
    }
    text = hpsearch(tmp_path, "validate", "study.yaml").stdout
    assert "a job of trials by two.yaml is submitted with:" in text


def test_a_study_for_this_machine_asks_slurm_nothing(tmp_path):
    write_study(tmp_path)
    assert read(tmp_path, "validate", "study.yaml")["sbatch"] == {}


# The cost.


def seconds_a_step(case: str) -> float:
    """Return the sum of the parts of a step, straight from the table."""
    with (ROOT / forecast_module.ROWS).open() as file:
        rows = [row for row in csv.DictReader(file) if row["case"] == case]
    run = itemgetter("date", "commit", "machine")
    return sum(float(row["seconds_a_step"]) for row in rows if run(row) == run(rows[-1]))


def test_the_quickstart_costs_what_its_shape_was_measured_to(tmp_path):
    """Sixteen trials of 2,400 steps, each of which took two threads the table's time."""
    cost = forecast(load_spec(ROOT / "studies/quickstart.yaml"), StudyDir(tmp_path))
    step = seconds_a_step("dqn, shipped")
    assert cost.trials * cost.steps_per_trial == 38_400
    assert cost.steps_per_second == pytest.approx(1 / step)
    assert cost.hours == pytest.approx(38_400 * step * 2 / 3600)
    assert (cost.unit, cost.is_bound) == ("CPU-hours", True)
    assert "host 24-64-64-4" in cost.source


def test_ppo_costs_what_its_shape_was_measured_to(tmp_path):
    cost = forecast(load_spec(ROOT / "studies/ppo_20x3.yaml"), StudyDir(tmp_path))
    assert cost.hours == pytest.approx(6400 * seconds_a_step("ppo, shipped") * 2 / 3600)


@pytest.mark.parametrize(
    "changes",
    [
        {"host/net_arch": [8192, 8192]},
        {"host/batch_size": 8192},
        {"device": "cuda"},
        {},
    ],
    ids=["wide", "large batches", "a GPU", "tiny"],
)
def test_what_was_never_measured_is_unknown(tmp_path, changes):
    write_trainer(tmp_path, {"replay_buffer/buffer_size": 20000, **changes})
    cost = forecast(load(tmp_path), StudyDir(tmp_path / "runs/tiny"))
    assert (cost.hours, cost.steps_per_second, cost.source) == (None, None, None)
    text = hpsearch(tmp_path, "validate", "study.yaml").stdout.splitlines()[1]
    assert text == (
        "cost: 6 trials of 60 steps; hours unknown, because nothing like it was measured"
    )


def begun(folder: Path, jobs: dict[str, list[float]], threads: int = 3) -> StudyDir:
    """Write the folder of a study that had these jobs, whose members were as fast as each other."""
    study = StudyDir(folder / "runs/tiny")
    study.root.mkdir(parents=True)
    study.spec.write_text(json.dumps({"name": "tiny", "storage": STUDY["storage"]}))
    number = 0
    for name, speeds in jobs.items():
        assignments = []
        for _ in speeds:
            assignments.append(Assignment(number, 1, "token"))
            number += 1
        study.job(name).root.mkdir(parents=True)
        study.job(name).plan.write(JobPlan(tuple(assignments), threads, 0.0, False))
        members = tuple(MemberHeartbeat.at(assignment, 60, 60, 0) for assignment in assignments)
        beat = JobHeartbeat(0.0, "here", 1, False, speeds[0], members)
        study.job(name).heartbeat.replace(beat)
    return study


def test_a_job_that_has_ended_counts_with_all_its_trials(tmp_path):
    """Its last heartbeat names none, as none trains any more."""
    study, folder = load(tmp_path), begun(tmp_path, {"00000": [10.0] * 3})
    before = forecast(study, folder)
    file = folder.job("00000").heartbeat
    file.replace(replace(file.required(), members=()))
    assert forecast(study, folder) == before


@pytest.mark.parametrize(("num", "cores"), [(2, 2 * 3), (1, 3)])
def test_a_job_that_began_with_fewer_ranks_costs_those_alone(tmp_path, num, cores):
    """Of four that were asked for; with one rank alone a heartbeat names none."""
    study = load(tmp_path)
    folder = begun(tmp_path, {"00000": [40.0]})
    job = folder.job("00000")
    job.plan.write(replace(job.plan.required(), ranks=4))
    ranks = (RankHeartbeat("here", 60, 0.0),) * (num if num > 1 else 0)
    job.heartbeat.replace(replace(job.heartbeat.read(), ranks=ranks))
    assert forecast(study, folder).hours == pytest.approx(9 * cores / 3600)


def test_a_study_that_was_begun_costs_what_its_jobs_do(tmp_path):
    """Jobs of 30, 40 and 90 member steps a second: the median makes 360 steps in 9 seconds."""
    study = load(tmp_path)
    folder = begun(tmp_path, {"00000": [10.0] * 3, "00001": [20.0] * 2, "00002": [90.0]})
    (folder.jobs / "00003").mkdir()  # announced, and never written
    cost = forecast(study, folder)
    assert (cost.trials * cost.steps_per_trial, cost.steps_per_second) == (360, 40.0)
    assert cost.hours == pytest.approx(9 * 3 / 3600)
    assert (cost.is_bound, cost.source) == (False, "its own jobs so far")
    line = hpsearch(tmp_path, "validate", "study.yaml").stdout.splitlines()[1]
    assert line == (
        "cost: 6 trials of 60 steps, about 0.0075 CPU-hours, by the 40 steps a second of its own "
        "jobs so far"
    )


def test_gpus_are_counted_by_the_profile(tmp_path):
    write_trainer(tmp_path, {"device": "cuda"})
    (tmp_path / "site.yaml").write_text(yaml_file.dump(PROFILE))
    cost = forecast(load(tmp_path, SLURM), begun(tmp_path, {"00000": [10.0] * 4}))
    assert (cost.unit, cost.hours) == ("GPU-hours", pytest.approx(9 * 2 / 3600))


def test_gpus_that_no_job_would_use_are_told(tmp_path):
    (tmp_path / "site.yaml").write_text(yaml_file.dump(PROFILE))
    write_trainer(tmp_path)
    (said,) = warnings_of(load(tmp_path, SLURM))
    assert "no trial uses a GPU, which leaves them idle; set device: cuda, or gpus_per_task" in said
    devices = {"type": "categorical", "choices": ["cpu", "cuda"]}
    assert warnings_of(load(tmp_path, SLURM | {"space/device": devices})) == []
    write_trainer(tmp_path, {"device": "cuda"})
    assert warnings_of(load(tmp_path, SLURM)) == []
    without = PROFILE | {"gpus_per_task": 0, "gpu_type": None}
    (tmp_path / "site.yaml").write_text(yaml_file.dump(without))
    (said,) = warnings_of(load(tmp_path, SLURM))
    assert "a task asks for 0 GPUs" in said
    actors = {"rollouts": to_plain(replace(FIXED, device="cuda", sync_method="nccl")), "shards": 2}
    write_trainer(tmp_path, {"device": "cuda", "monitor/hang_timeout": 60.0} | actors)
    (tmp_path / "site.yaml").write_text(yaml_file.dump(PROFILE))
    (said,) = warnings_of(load(tmp_path, SLURM))
    assert "a task asks for 2 GPUs, but trials need 3 GPUs a task; set device: cpu" in said


@pytest.mark.parametrize(
    ("visible", "executor", "said"),
    [
        ("0,1", {"jobs": 1}, ["1 job trains at once, each on 1 of 2 GPUs (0,1)"]),
        (
            "0,1",
            {"jobs": 3},
            ["2 jobs train at once, each on 1 of 2 GPUs (0,1); executor.jobs is 3"],
        ),
        (
            "",
            {},
            ["each job is to have 1 GPU, but there is none here (CUDA_VISIBLE_DEVICES is '')"],
        ),
        ("0", {"gpus_per_job": 2}, ["each job is to have 2 GPUs, but this machine has 1 GPU (0)"]),
        (
            "0",
            {"ranks": 4, "min_ranks": 2},
            ["each job is to have 4 GPUs, or at least 2, but this machine has 1 GPU (0)"],
        ),
        (
            "0,1,2",
            {"ranks": 4, "min_ranks": 1, "jobs": 2},
            ["1 job trains at once, each on 2 of 3 GPUs (0,1,2); executor.jobs is 2"],
        ),
    ],
)
def test_how_many_jobs_the_gpus_of_this_machine_allow(
    tmp_path, monkeypatch, visible, executor, said
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvidia-smi
    write_trainer(tmp_path, {"device": "cuda", "shards": 4})
    warnings = warnings_of(load(tmp_path, {"executor": {"name": "local", **executor}}))
    assert [warning.partition(";")[0] for warning in warnings] == [
        warning.partition(";")[0] for warning in said
    ]
    assert all(warning in warnings[0] for warning in said)


def test_gpus_of_this_machine_that_no_job_would_use(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    write_trainer(tmp_path)
    idle, at_once = warnings_of(load(tmp_path, {"executor": {"name": "local", "gpus_per_job": 1}}))
    assert "which leaves the GPUs idle" in idle
    assert at_once == "1 job trains at once, each on 1 of 1 GPU (0)"
    assert warnings_of(load(tmp_path)) == []


def test_metrics_for_others_without_a_token_are_told(tmp_path):
    served = {"port": 9464, "host": "0.0.0.0"}
    (said,) = warnings_of(load(tmp_path, {"prometheus": served}))
    assert "no metrics are served at prometheus.host 0.0.0.0" in said
    assert warnings_of(load(tmp_path, {"prometheus": served | {"token": "token"}})) == []


def test_another_study_of_the_name_says_nothing(tmp_path):
    folder = begun(tmp_path, {"00000": [10.0]})
    study = load(tmp_path, {"storage": "sqlite:///elsewhere.db"})
    assert forecast(study, folder).hours is None


def test_a_study_that_has_just_begun_says_nothing(tmp_path):
    assert forecast(load(tmp_path), begun(tmp_path, {"00000": [0.0, 0.0]})).hours is None


def test_a_member_of_a_population_trains_an_interval(tmp_path):
    write_trainer(tmp_path, {"replay_buffer/buffer_size": 20000})
    study = load_spec(ROOT / "studies/population_pairs.yaml")
    cost = forecast(study, StudyDir(tmp_path))
    assert cost.trials * cost.steps_per_trial == 48 * 1000
    assert example_trial(study).config["steps"] == 1000


def test_every_measured_shape_can_be_read():
    for algorithm in TRAINERS:
        runs = [*forecast_module._measured_runs(algorithm, "cpu")]
        assert runs
        for rows in (*runs, *forecast_module._measured_runs(algorithm, "cuda")):
            assert int(rows[0]["work"]) > 1000
            assert 0 < sum(float(row["seconds_a_step"]) for row in rows) < 10


def test_work_is_weights_times_rows():
    """(24+1)64 + (64+1)64 + (64+1)4 weights, two batches of 256, as the file says by hand."""
    config = read_config(yaml_file.load(ROOT / "studies/trainers/choose_first.yaml"), source="")
    work = (25 * 64 + 65 * 64 + 65 * 4) * 512
    assert config.work() == work
    (measured,) = {
        int(rows[0]["work"])
        for rows in forecast_module._measured_runs("dqn", "cpu")
        if rows[0]["case"] == "dqn, shipped"
    }
    assert measured == work


def test_validate_stays_quick_with_all_of_it(tmp_path):
    """In half a second: the best of several, because the machine may be busy."""
    (tmp_path / "site.yaml").write_text(yaml_file.dump(PROFILE))
    write_study(tmp_path, SLURM)
    begun(tmp_path, {f"{n:05}": [random.Random(n).uniform(1, 9)] for n in range(20)})
    times = []
    for _ in range(8):
        start = time.monotonic()
        hpsearch(tmp_path, "validate", "study.yaml")
        times.append(time.monotonic() - start)
        if times[-1] < 0.5:
            return
    raise AssertionError(times)


# All faults at once.


def faults_of(folder: Path, *options: str) -> str:
    return refused(folder, "validate", "study.yaml", *options, code=3)


def test_unknown_paths_are_listed_beside_the_faults_of_the_base(tmp_path):
    write_trainer(tmp_path, {"host/gamma": 3.0, "host/optim/args": ..., "steps": "many"})
    number = {"type": "float", "low": 0.1, "high": 0.2}
    names = ["host.gama", "host.optim.args.lr", "replay.size", "host.gamma"]
    space = dict.fromkeys(names, number) | {"hosst.tau": {"type": "flot"}}
    write_study(tmp_path, {"space": space, "budget/trials": 0})
    with pytest.raises(ConfigError) as raised:
        load_spec(tmp_path / "study.yaml")
    problems = raised.value.problems
    for words in ("host.gamma must", "host.optim.args is missing", "steps must", "budget.trials"):
        assert any(words in problem for problem in problems), words
    unknown = [problem for problem in problems if " is no path of the dqn base" in problem]
    assert [problem.split()[0] for problem in unknown] == [
        *("space.host.gama", "space.replay.size", "space.hosst.tau")
    ]
    assert "did you mean host.gamma" in unknown[0]


def test_an_unknown_path_of_an_unreadable_parameter_is_listed_once(tmp_path):
    write_trainer(tmp_path)
    space = {"host.gama": {"type": "flot"}, "hosst.tau": {"type": "float", "low": 0, "high": 1}}
    write_study(tmp_path, {"space": space})
    with pytest.raises(ConfigError) as raised:
        load_spec(tmp_path / "study.yaml")
    unknown = [problem.split()[0] for problem in raised.value.problems if "is no path" in problem]
    assert sorted(unknown) == ["space.hosst.tau", "space.host.gama"]


def test_secrets_that_are_not_there_are_listed_with_all_other_faults(tmp_path):
    write_trainer(tmp_path)
    prometheus = {"port": 9464, "host": "0.0.0.0", "token": "env:HPSEARCH_NO_TOKEN"}
    changes = {"storage": "env:HPSEARCH_NO_URL", "prometheus": prometheus}
    write_study(tmp_path, changes)
    sentences = (
        "environment variable HPSEARCH_NO_URL, which is not set; export HPSEARCH_NO_URL=",
        "environment variable HPSEARCH_NO_TOKEN, which is not set; export HPSEARCH_NO_TOKEN=",
    )
    faults = faults_of(tmp_path)
    assert "has 2 problems" in faults
    assert all(sentence in faults for sentence in sentences)
    write_study(tmp_path, {**changes, "seed": -1})
    faults = faults_of(tmp_path)
    assert "has 3 problems" in faults
    assert "seed must" in faults
    assert all(sentence in faults for sentence in sentences)


def test_a_token_that_others_may_read_is_refused(tmp_path):
    write_trainer(tmp_path)
    write_study(tmp_path, {"prometheus": {"port": 9464, "token": "token"}})
    (tmp_path / "token").write_text("secret")
    (tmp_path / "token").chmod(0o644)
    faults = faults_of(tmp_path)
    assert "prometheus.token: the token " in faults
    assert "its mode is 0644; run: chmod 600 " in faults
    (tmp_path / "token").chmod(0o600)
    hpsearch(tmp_path, "validate", "study.yaml")


def test_what_a_study_needs_and_is_not_here_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(spec_warnings, "find_spec", lambda name: None)
    needy = {
        "executor": {"name": "psij", "scheduler": "local", "jobs": 1},
        "track": [{"name": "wandb", "project": "games"}],
        "notify": [{"name": "address", "to": "env:CHAT", "on": ["ended"]}],
    }
    warnings = " ".join(warnings_of(load(tmp_path, needy)))
    for package, extra in (("psij", "psij"), ("wandb", "wandb"), ("apprise", "notify")):
        assert f"needs the package {package}; pip install 'hpsearch[{extra}]'" in warnings


PROGRAM = {
    "base": {"command": ["python", "{config}"], "parameters": {"rate": 0.5}, "steps": 4},
    "space": {"parameters.rate": {"type": "float", "low": 0.1, "high": 1.0}},
    "objectives": [{"metric": "walked", "goal": "maximize"}],
}


def test_a_program_has_gpus_by_its_own_key(tmp_path):
    """PROFILE gives each task two."""
    (tmp_path / "site.yaml").write_text(yaml_file.dump(PROFILE))

    def said(gpus: int) -> list[str]:
        study = load(tmp_path, SLURM | PROGRAM | {"base": PROGRAM["base"] | {"gpus": gpus}})
        checked = check_asked_gpus(study, load_profile(tmp_path / "site.yaml"))
        return [*warnings_of(study), checked.sentence]

    assert all("set gpus: 1 in base, or gpus_per_task" in text for text in said(gpus=0))
    assert all("gpus: 0 in base" in text for text in said(gpus=3))
    assert len(said(gpus=1)) == 1
    assert all("device" not in text for gpus in (0, 1, 3) for text in said(gpus))


def test_a_program_that_is_not_there_is_told(tmp_path):
    command = ["pythn", "trian.py", "{config}"]
    base = PROGRAM["base"] | {"command": command}
    changes = PROGRAM | {"base": base}
    said = warnings_of(load(tmp_path, changes))
    assert [text.split(",")[0] for text in said if "command" in text] == [
        "base.command names pythn",
        "base.command names trian.py",
    ]
    (tmp_path / "trian.py").write_text("")
    base["command"] = ["python", *command[1:]]
    assert not [text for text in warnings_of(load(tmp_path, changes)) if "command" in text]
