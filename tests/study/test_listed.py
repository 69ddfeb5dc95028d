"""The listed sampler: exactly the configurations of the file, one after another, then again."""

from pathlib import Path
from typing import Any

import optuna
import pytest
from spaces import CONDITIONAL, PLAIN
from study_files import LR, NET_ARCH, load

from hpsearch.errors import ConfigError
from hpsearch.study.options import ListedOptions
from hpsearch.study.samplers import build_sampler
from hpsearch.study.stored_spec import spec_hash

GOOD = {"host.optim.args.lr": 1e-3, "host.net_arch": [64, 64]}
SWITCHED = {
    "host.optim.args.lr": LR,
    "dqn.double": {"type": "categorical", "choices": [True, False]},
    "host.batch_size": {
        **{"type": "int", "low": 64, "high": 512, "step": 64},
        "when": {"dqn.double": True},
    },
}


def listed(*configurations: dict[str, Any]) -> dict[str, Any]:
    return {"name": "listed", "configurations": list(configurations)}


def problems(folder: Path, *configurations: dict[str, Any], **changes: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(folder, sampler=listed(*configurations), **changes)
    return caught.value.problems


@pytest.mark.parametrize(
    ("space", "configurations"),
    [
        (
            PLAIN,
            [
                {"lr": 1e-3, "gamma": 1, "width": 16, "net": [64, 64]},
                {"lr": 1e-5, "gamma": 0.5, "width": 8, "net": {"repeat": 2}},
                {"lr": 1e-1, "gamma": 0.7, "width": 64, "net": None},
            ],
        ),
        (
            CONDITIONAL,
            [
                {"algorithm": "ppo", "clip": 0.2, "lr": 1e-3},
                {"algorithm": "dqn", "lr": 1e-3, "double": False},
                {"algorithm": "dqn", "lr": 1e-3, "double": True, "delay": 7},
            ],
        ),
    ],
    ids=["plain", "conditional"],
)
def test_configurations_are_tried_in_turn(space, configurations):
    options = ListedOptions("listed", tuple(configurations))
    study = optuna.create_study(sampler=build_sampler(options, 5, space))
    asked = []
    for _ in range(7):
        trial = study.ask()
        asked.append(space.suggest(trial))
        assert space.decode(trial.params) == asked[-1]
        study.tell(trial, 0.0)
    assert asked == [configurations[number % 3] for number in range(7)]


def test_all_faults_are_listed_at_once(tmp_path):
    assert problems(
        tmp_path,
        {"host.optim.args.lr": 1.0, "host.net_arch": [64, 32]},
        {"host.optim.args.lr": "1e-3", "host.gama": 0.9},
        GOOD,
    ) == (
        "sampler.configurations[0].host.optim.args.lr must lie in [1e-05, 0.01], but is 1.0",
        "sampler.configurations[0].host.net_arch is an unknown choice '[64, 32]' "
        "(did you mean '[64, 64]'?); valid: [128, 128], [64, 64]",
        "sampler.configurations[1].host.optim.args.lr must be a number, but is '1e-3'",
        "sampler.configurations[1] names an unknown parameter 'host.gama'; "
        "valid: host.net_arch, host.optim.args.lr",
        "sampler.configurations[1] lacks host.net_arch, which exists in this configuration",
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dqn.double": 1}, ".dqn.double is an unknown choice '1'; valid: false, true"),
        (
            {"dqn.double": False, "host.batch_size": 64},
            ".host.batch_size must be left out, for its conditions do not hold",
        ),
        ({"dqn.double": True}, " lacks host.batch_size, which exists in this configuration"),
        (
            {"dqn.double": True, "host.batch_size": 100},
            ".host.batch_size must lie a whole number of steps of 64 above 64, but is 100",
        ),
        (
            {"dqn.double": True, "host.batch_size": 64.0},
            ".host.batch_size must be a whole number, but is 64.0",
        ),
        (
            {"dqn.double": True, "host.batch_size": True},
            ".host.batch_size must be a whole number, but is true",
        ),
    ],
)
def test_a_fault_is_named(tmp_path, values, message):
    given = {"host.optim.args.lr": 1e-3, **values}
    assert f"sampler.configurations[0]{message}" in problems(tmp_path, given, space=SWITCHED)


def test_steps_are_decimal_numbers(tmp_path):
    space = {"host.gamma": {"type": "float", "low": 0.1, "high": 0.9, "step": 0.1}}
    load(tmp_path, space=space, sampler=listed({"host.gamma": 0.3}, {"host.gamma": 0.7}))
    assert problems(tmp_path, {"host.gamma": 0.35}, space=space)


def test_a_fault_of_the_space_is_reported_once(tmp_path):
    wrong = {"host.optim.args.lr": {"type": "flot", "low": 1e-5, "high": 1e-2}}
    messages = problems(tmp_path, GOOD, space={**wrong, "host.net_arch": NET_ARCH})
    assert len(messages) == 1
    assert messages[0].startswith("space.host.optim.args.lr.type is an unknown type 'flot' ")


def test_an_empty_list_is_refused(tmp_path):
    assert problems(tmp_path) == (
        "sampler.configurations must name at least one, but the list is empty",
    )


def test_other_configurations_are_another_search(tmp_path):
    spec = load(tmp_path, sampler=listed(GOOD))
    longer = load(tmp_path, sampler=listed(GOOD), budget={"trials": 99})
    other = load(tmp_path, sampler=listed(GOOD, GOOD))
    assert spec_hash(spec) == spec_hash(longer) != spec_hash(other)
