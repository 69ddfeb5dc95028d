"""Every YAML file that we ship loads and says how it is run; no configuration has a default."""

import dataclasses
from pathlib import Path

import pytest

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.plain import to_plain
from hpsearch.trainers import config as trainer_config
from hpsearch.trainers.config import read_config, shape_key

STUDIES = Path(__file__).parent.parent / "studies"
FILES = sorted(STUDIES.rglob("*.yaml"))
TRAINER_FILES = [path for path in FILES if path.parent.name == "trainers"]
STUDY_FILES = [path for path in FILES if path.parent == STUDIES]
CLASSES = [
    value
    for value in vars(trainer_config).values()
    if dataclasses.is_dataclass(value) and value.__module__ == trainer_config.__name__
]


def name(path: Path) -> str:
    return str(path.relative_to(STUDIES))


def test_every_file_is_of_a_known_kind():
    assert FILES
    assert {*TRAINER_FILES, *STUDY_FILES} == set(FILES)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_begins_with_a_comment(path):
    assert path.read_text().startswith("# ")
    assert yaml_file.load(path)


@pytest.mark.parametrize("path", TRAINER_FILES, ids=name)
def test_a_trainer_file_is_complete(path):
    data = yaml_file.load(path)
    config = read_config(data, source=name(path))
    assert read_config(to_plain(config), source=name(path)) == config
    for key in data:
        rest = {other: value for other, value in data.items() if other != key}
        with pytest.raises(ConfigError, match=f"{key}.* is missing"):
            read_config(rest, source=name(path))


@pytest.mark.parametrize("path", STUDY_FILES, ids=name)
def test_a_study_file_loads(path):
    from hpsearch.study.spec import load_spec

    assert load_spec(path)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_field_has_a_default_and_none_can_be_changed(cls):
    assert cls.__dataclass_params__.frozen
    for field in dataclasses.fields(cls):
        assert field.default is dataclasses.MISSING
        assert field.default_factory is dataclasses.MISSING


def test_a_shape_is_all_but_what_members_may_differ_in(tiny_config):
    shape = shape_key(tiny_config())
    for key, value in {
        "seed": 7,
        "steps": 99,
        "host.gamma": 0.5,
        "host.er": 0.5,
        "host.tau": 0.1,
        "host.optim.args.lr": 0.5,
        "host.optim.lr_schedule.initial": 0.5,
        "host.er_schedule.steps": 9,
        "host.max_grad_norm": 9.0,
        "host.huber_delta": 9.0,
        "host.steps_before_update_target": 9,
    }.items():
        assert shape_key(tiny_config({key: value})) == shape, key
    for key, value in {
        "dimension": 4,
        "rollout_length": 9,
        "host.net_arch": [9],
        "host.batch_size": 9,
        "host.rollout_size": 9,
        "host.er_schedule.mode": "cosine",
        "agent": {"player": "choose_last"},
        "dqn.double": False,
        "evaluation.interval": 9,
    }.items():
        assert shape_key(tiny_config({key: value})) != shape, key


def test_the_shape_does_not_depend_on_the_order_of_keys(plain_config):
    data = plain_config()
    reordered = dict(reversed(data.items()))
    assert shape_key(read_config(reordered, source="")) == shape_key(read_config(data, source=""))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"host.net_arch": [8, "x"]}, "host.net_arch is not of the grammar: .* got 'x'"),
        ({"host": {"player": "random"}}, "both are scripted players"),
        ({"evaluation.opponents": ["zeillinger"]}, "no player that the host can meet"),
        ({"host": {"player": "zeilinger"}}, "did you mean 'zeillinger'"),
        ({"algorithm": "dqm"}, "unknown algorithm 'dqm' .did you mean 'dqn'"),
        ({"host.optim.args.beta2": 1.0}, r"host.optim.args.beta2 must lie in \[0, 1\)"),
        ({"host.optim.args.lr": "1e-3"}, "host.optim.args.lr must be a number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"checkpoint.keep_last": 1}, "checkpoint.keep_last must lie in"),
        ({"replay_buffer.buffer_size": 7}, "replay_buffer.buffer_size must hold"),
        ({"host.er_schedule": {"mode": "linear", "initial": 1.0}}, "er_schedule.steps is missing"),
    ],
)
def test_what_makes_no_sense_is_refused(tiny_config, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        tiny_config(changes)
