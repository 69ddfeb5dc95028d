"""What the configuration of a program must hold, and what is told of its faults."""

import pytest

from hpsearch.errors import ConfigError
from hpsearch.programs.config import ProgramConfig, read_trial_config, shape_of
from hpsearch.schema import to_plain

RIGHT = {
    "algorithm": "program",
    "command": ["python", "train.py", "{config}"],
    "parameters": {"lr": 0.1, "layers": [3, 4]},
    "steps": 10,
}


def read(**changes) -> ProgramConfig:
    config = read_trial_config(RIGHT | changes, source="test")
    assert isinstance(config, ProgramConfig)
    return config


def test_the_file_of_parameters_has_seed_and_steps_beside_them():
    assert read(seed=7).told() == {"lr": 0.1, "layers": [3, 4], "seed": 7, "steps": 10}


def test_what_was_read_is_read_again_from_its_plain_form():
    config = read(interval=2, gpus=1)
    assert read_trial_config(to_plain(config), source="again") == config


def test_any_two_programs_can_share_a_job():
    assert shape_of(read()) == shape_of(read(command=["sh", "run", "{folder}"], parameters={}))


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"command": []}, "command must name a program"),
        ({"command": ["./train"]}, "command must pass {config} or {folder} to the program"),
        ({"parameters": {"seed": 3}}, "parameters must not hold seed"),
        ({"parameters": {"steps": 3}}, "parameters must not hold steps"),
        ({"parameters": {"lr": float("nan")}}, "parameters must be what JSON can hold"),
        ({"interval": 3}, "steps must be a multiple of interval=3, but is 10"),
        ({"gpus": -1}, "gpus must lie in"),
        ({"epochs": 3}, "epochs"),
    ],
)
def test_a_fault_is_told_with_its_key(changes, fault):
    with pytest.raises(ConfigError, match=fault.replace("{", r"\{").replace("}", r"\}")):
        read(**changes)
