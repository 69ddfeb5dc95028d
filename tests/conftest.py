"""Small trainer configurations; torch is imported by the tests that need it alone."""

import copy

import pytest
from hypothesis import settings

from hpsearch.trainers.config import read_config

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

_DQN_ROLE = {
    "net_arch": [8],
    "optim": {
        "name": "adam",
        "args": {"lr": 1.0e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1.0e-8},
        "lr_schedule": {"mode": "linear", "initial": 1.0e-2, "steps": 6},
    },
    "max_grad_norm": 1.0,
    "gamma": 0.9,
    "batch_size": 16,
    "rollout_size": 8,
    "er": 0.2,
    "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 8},
    "tau": 0.5,
    "steps_before_update_target": 3,
    "huber_delta": 0.5,
}

# By algorithm: a complete configuration of a game that trains in milliseconds a step.
_CONFIGS = {
    "dqn": {
        "algorithm": "dqn",
        "seed": 1,
        "device": "cpu",
        "steps": 12,
        "dimension": 3,
        "max_num_points": 4,
        "max_value": 5,
        "max_steps": 6,
        "reposition": True,
        "reward": "terminal",
        "rollout_length": 2,
        "updates_per_step": 2,
        "learning_starts": 1,
        "host": _DQN_ROLE,
        "agent": {"player": "random"},
        "replay_buffer": {"buffer_size": 40, "save": True},
        "dqn": {"double": True},
        "evaluation": {
            "interval": 4,
            "num_games": 20,
            "final_num_games": 30,
            "max_steps": 10,
            "er": 0.1,
            "opponents": ["choose_first", "zeillinger"],
        },
        "checkpoint": {"interval": 4, "keep_last": 2},
    }
}


@pytest.fixture(scope="session")
def plain_config():
    """Return a function (changes, algorithm) -> complete configuration as plain data.

    ``changes`` are dotted keys; ``{"agent": "learn"}`` gives a role what the other one has.
    """

    def make(changes=None, algorithm="dqn"):
        config = copy.deepcopy(_CONFIGS[algorithm])
        for path, value in (changes or {}).items():
            *parents, key = path.split(".")
            place = config
            for parent in parents:
                place = place[parent]
            place[key] = copy.deepcopy(_CONFIGS[algorithm]["host"] if value == "learn" else value)
        return config

    return make


@pytest.fixture(scope="session")
def tiny_config(plain_config):
    """Return a function (changes, algorithm) -> trainer configuration."""

    def make(changes=None, algorithm="dqn"):
        return read_config(plain_config(changes, algorithm), source="tests/conftest.py")

    return make
