"""Small trainer configurations; torch is imported by the tests that need it alone."""

import copy
import os

import pytest
from hypothesis import settings
from tiny_configs import CONFIGS

from hpsearch.trainers.config import read_config

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def plain_config():
    """Return a function (changes, algorithm) -> complete configuration as plain data.

    ``changes`` are dotted keys; ``{"agent": "learn"}`` gives a role what the other one has.
    """

    def make(changes=None, algorithm="dqn"):
        config = copy.deepcopy(CONFIGS[algorithm])
        for path, value in (changes or {}).items():
            *parents, key = path.split(".")
            place = config
            for parent in parents:
                place = place[parent]
            place[key] = copy.deepcopy(CONFIGS[algorithm]["host"] if value == "learn" else value)
        return config

    return make


@pytest.fixture(scope="session")
def tiny_config(plain_config):
    """Return a function (changes, algorithm) -> trainer configuration."""

    def make(changes=None, algorithm="dqn"):
        return read_config(plain_config(changes, algorithm), source="tests/conftest.py")

    return make
