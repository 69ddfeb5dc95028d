"""What a study file may say where a program is run, and how its population is judged."""

from pathlib import Path

import numpy as np
import pytest
from fakes import FakeExecutor
from study_files import load, plain_study

from hpsearch import yaml_file
from hpsearch.api.background import refuse_what_changes_nothing
from hpsearch.api.driving import study_to_resume
from hpsearch.audit import descent
from hpsearch.errors import ConfigError, UsageError
from hpsearch.population.fitness import by_values
from hpsearch.study.opening import open_driver
from hpsearch.study.spec import load_spec
from hpsearch.study.spec_warnings import example_trial
from hpsearch.study.stored_spec import HOW_A_PROGRAM_RUNS, spec_hash, spec_json, stored_study
from hpsearch.study.view import open_view

RATE = {"type": "float", "low": 0.1, "high": 1.0}
BASE = {"command": ["python", "toy.py", "{config}"], "parameters": {"rate": 0.5}, "steps": 8}
PROGRAM = {
    "base": BASE,
    "objectives": [{"metric": "walked", "goal": "maximize"}],
    "space": {"parameters.rate": RATE},
}
POPULATION = {"population": {"members": 4, "interval": 2}, "budget": {"trials": 8}}


def faults(folder: Path, **changes) -> str:
    path = folder / "study.yaml"
    path.write_text(yaml_file.dump(plain_study(**(PROGRAM | changes))))
    with pytest.raises(ConfigError) as raised:
        load_spec(path)
    return "\n".join(raised.value.problems)


def test_a_program_is_the_base_of_a_study_and_comes_back_from_the_database(tmp_path):
    study = load(tmp_path, **PROGRAM)
    assert study.is_program
    assert not study.uses_gpus
    stored = stored_study(spec_json(study), study.path)
    assert spec_hash(stored) == spec_hash(study)
    assert stored.trial_config(3, {"parameters.rate": 0.25}) == {
        "algorithm": "program",
        "command": BASE["command"],
        "parameters": {"rate": 0.25},
        "steps": 8,
        "seed": 1_000_003,
        "interval": 1,
        "gpus": 0,
        "may_end_early": False,
        "stop_seconds": 20.0,
        "hang_timeout": None,
    }
    assert 0.1 <= example_trial(study).params["parameters.rate"] <= 1.0


RUN_BY = {
    "command": ["python", "mended.py", "{config}"],
    "gpus": 1,
    "hang_timeout": 60.0,
    "may_end_early": True,
    "stop_seconds": 5.0,
}


def test_how_a_program_runs_may_change_but_not_what_is_searched(tmp_path):
    def hash_with(**changes) -> str:
        return spec_hash(load(tmp_path, **PROGRAM | {"base": BASE | changes}))

    first = hash_with()
    assert {hash_with(**{key: RUN_BY[key]}) for key in HOW_A_PROGRAM_RUNS} == {first}
    assert first not in {
        hash_with(steps=4),
        hash_with(interval=2),
        hash_with(parameters={"rate": 0.5, "depth": 3}),
    }
    assert HOW_A_PROGRAM_RUNS == descent.HOW_A_PROGRAM_RUNS


def test_a_driver_notes_that_the_command_has_changed(tmp_path):
    def notes(**changes) -> list[str]:
        given = {"base": BASE | changes, "storage": f"sqlite:///{tmp_path}/study.db"}
        study, said = load(tmp_path, **PROGRAM | given), []
        with open_driver(study, tmp_path / "runs", FakeExecutor(), on_event=said.append):
            return [event.data["message"] for event in said if event.kind == "note"]

    assert notes() == notes(gpus=1) == []
    (note,) = notes(command=RUN_BY["command"])
    assert note.endswith("in place of: python toy.py '{config}'")
    assert notes(command=RUN_BY["command"]) == []


def test_a_running_study_is_resumed_with_a_corrected_command(tmp_path):
    given = {"storage": f"sqlite:///{tmp_path}/study.db"}
    study = load(tmp_path, **PROGRAM | given)
    with open_driver(study, tmp_path / "runs", FakeExecutor(), on_event=lambda event: None):
        view = open_view(study.spec.name, tmp_path / "runs")
        with pytest.raises(UsageError, match="nothing to resume"):
            refuse_what_changes_nothing(view, study, "resume")
        load(tmp_path, **PROGRAM | given | {"base": BASE | {"command": RUN_BY["command"]}})
        refuse_what_changes_nothing(view, study_to_resume(view), "resume")


def test_a_program_says_how_many_gpus_its_job_needs(tmp_path):
    study = load(tmp_path, **PROGRAM | {"base": BASE | {"gpus": 2}})
    assert study.uses_gpus
    assert (study.gpus_per_rank, study.gpus_per_job) == (2, 2)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"base": {"command": ["x"], "parameters": {}}}, "base.steps is missing"),
        (
            {"base": BASE | {"comand": 1}},
            "base.comand is an unknown key 'comand' (did you mean 'command'?)",
        ),
        ({"base": {"dqn": "a.yaml", "ppo": 3}}, "base"),
        ({"space": {"rate": RATE}}, "space.rate is no path of the program base"),
        ({"executor": {"name": "local", "ranks": 2}}, "executor.ranks must be 1"),
        (
            {"base": BASE | {"gpus": 2}, "executor": {"name": "local", "gpus_per_job": 1}},
            "gpus_per_job must be 2 or more, as gpus of base says, but is 1; leave it out, or",
        ),
        (POPULATION | {"base": BASE | {"interval": 4}}, "must be a multiple of the base's"),
    ],
)
def test_a_fault_is_told_with_its_path(tmp_path, changes, fault):
    assert fault in faults(tmp_path, **changes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("matches", {"num_games": 8}),
        ("founders", ["runs/a/trials/0/checkpoints/step-000000004"]),
        ("islands", {"members": 2, "generations": 2}),
        ("closing", {"operators": [{"name": "gaussian_mutation", "strength": 0.1}]}),
        ("selection", {"name": "pareto"}),
        ("operators", [{"name": "gaussian_mutation", "strength": 0.1}]),
    ],
)
def test_a_population_of_programs_has_nothing_that_needs_games(tmp_path, key, value):
    population = POPULATION["population"] | {key: value}
    assert f"population.{key} must" in faults(tmp_path, **POPULATION | {"population": population})


def test_scores_by_values_are_the_values():
    scores = by_values(np.array([3.0, -1.0, 2.0]))
    assert scores.strength.tolist() == [3.0, -1.0, 2.0]
    assert scores.naming.shape == scores.confirming.shape == (1, 3)
