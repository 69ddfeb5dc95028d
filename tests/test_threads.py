"""With how many threads jobs train where no number is asked for, and how threads wait."""

import os

import pytest
import torch
from cli_tools import write_study, write_trainer

from hpsearch.api import executors
from hpsearch.cluster.machine import let_threads_wait, useful_threads
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands import train
from hpsearch.study.spec import load_spec
from hpsearch.trainers.config import read_config

WIDE = {"host.net_arch": [1024, 1024], "host.batch_size": 256}
"""one of whose products takes 256 * 1024 * 1024 multiplications, worth five threads"""
NARROW = {"host.net_arch": [1024, 2], "host.batch_size": 1}
"""1024 * 2, and 1024 times the inputs"""


@pytest.mark.parametrize(
    ("changes", "members", "ranks", "cores", "threads"),
    [
        (WIDE, 1, 1, 2, 2),
        (WIDE, 1, 1, 64, 5),
        (WIDE, 1, 2, 64, 2),
        (WIDE, 2, 1, 64, 10),
        (WIDE, 1, 4, 2, 1),
        (NARROW, 1, 1, 64, 1),
        (NARROW, 1, 100, 64, 1),
        (NARROW | {"device": "cuda"}, 1, 2, 64, 32),
    ],
)
def test_a_thread_for_every_50_million_multiplications(
    plain_config, changes, members, ranks, cores, threads
):
    config = read_config(plain_config(changes), source="test")
    assert useful_threads(config, members=members, ranks=ranks, cores=cores) == threads


def test_minibatches_and_value_networks_count_too(plain_config):
    changes = {"host.value_net_arch": [512, 512], "ppo.minibatch_size": 4}
    config = read_config(plain_config(changes, "ppo"), source="test")
    assert config.largest_product() == 4 * 512 * 512


@pytest.mark.parametrize(
    ("executor", "threads"),
    [
        ({"jobs": 1}, 5),
        ({"jobs": 4}, 4),
        ({"jobs": 1, "members_per_job": 2}, 10),
        ({"jobs": 1, "cpus_per_job": 1}, 1),
        ({"jobs": 1, "cpus_per_job": 16}, 16),
    ],
)
def test_jobs_of_a_study_have_as_many_as_pay_or_as_it_says(
    tmp_path, monkeypatch, executor, threads
):
    monkeypatch.setattr(executors, "num_cores", lambda: 16)
    write_trainer(tmp_path, {path.replace(".", "/"): value for path, value in WIDE.items()})
    own = {"name": "local", "members_per_job": 1, **executor}
    path = write_study(tmp_path, {"executor": own})
    built = executors.build_executor(load_spec(path), StudyDir(tmp_path))
    assert built.num_threads == threads


def test_a_run_without_a_study_keeps_to_the_users_environment(plain_config, monkeypatch):
    """Torch has read it; this is what the number of its threads stands for."""
    config = read_config(plain_config(NARROW), source="test")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert train._threads(1, config) == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        assert train._threads(1, config) == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
        ({"GOMP_SPINCOUNT": "7"}, {"GOMP_SPINCOUNT": "7"}),
    ],
)
def test_threads_sleep_soon_unless_the_user_says_otherwise(monkeypatch, given, expected):
    monkeypatch.setattr(os, "environ", dict(given))
    let_threads_wait()
    assert os.environ == expected
