"""Founders of a study file: their values must be such that members can begin with them."""

import json
from pathlib import Path

import pytest
from study_files import BASE, BATCH_SIZE, NET_ARCH, load

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.schema import apply
from hpsearch.study.spec import Study

POPULATION = {"members": 4, "interval": 1000, "operators": [{"name": "clone"}]}


def begin(folder: Path, settings: dict, **population) -> Study:
    """Return a study with one founder, which has learned by other settings than the base's."""
    founder = folder / "step-000000008"
    founder.mkdir()
    config = apply(yaml_file.load(BASE), settings)
    (founder / "state.json").write_text(json.dumps({"config": config}))
    return load(
        folder,
        space={"host.net_arch": NET_ARCH, "host.batch_size": BATCH_SIZE},
        population=POPULATION | {"founders": [str(founder)]} | population,
    )


def test_a_founder_of_no_choice_is_refused(tmp_path) -> None:
    """Else the driver plans a trial that Optuna refuses, at each of its starts."""
    with pytest.raises(ConfigError) as error:
        begin(tmp_path, {"host.net_arch": [32]})
    assert error.value.problems == (
        "population.founders[0] cannot begin in this space: its host.net_arch is [32], which "
        "space.host.net_arch must offer, but does not",
    )


def test_a_founder_off_the_grid_begins_at_the_nearest_value(tmp_path) -> None:
    study = begin(tmp_path, {"host.net_arch": [64, 64], "host.batch_size": 100})
    (founder,) = study.founders
    assert founder["host"]["batch_size"] == 100


def test_a_schedule_overrules_what_a_founder_learned_by(tmp_path) -> None:
    intervals = [{"host.net_arch": [64, 64], "host.batch_size": 64}]
    schedule = {"name": "schedule", "intervals": intervals}
    none = {"name": "none"}
    assert begin(tmp_path, {"host.net_arch": [32]}, explore=schedule, selection=none).founders


def test_members_go_on_from_their_own_checkpoints_whatever_the_founder_did(tmp_path) -> None:
    """By `must` none could begin, and by `never` a member would begin again at each attempt."""
    settings = {"host.net_arch": [64, 64], "checkpoint.resume": "must"}
    (founder,) = begin(tmp_path, settings | {"checkpoint.warm_start": "elsewhere"}).founders
    kept = yaml_file.load(BASE)["checkpoint"]
    assert founder["checkpoint"] == kept | {"resume": "auto", "warm_start": None}


def test_a_founder_that_does_not_measure_the_objective_is_refused(tmp_path) -> None:
    """Else each of its members would train for an interval, and then fail."""
    with pytest.raises(ConfigError) as error:
        begin(tmp_path, {"host.net_arch": [64, 64], "evaluation.opponents": ["random"]})
    (problem,) = error.value.problems
    assert problem.startswith(
        "population.founders[0] does not measure rho/host/choose_first, an objective of the study: "
    )
    assert problem.endswith("name a founder that does")
