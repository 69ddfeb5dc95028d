"""With how many threads jobs train where no number is asked for, and how threads wait."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from cli_tools import write_study, write_trainer

from hpsearch.api import executors
from hpsearch.cluster import training_threads
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.team import Team
from hpsearch.cluster.threads import (
    LONG,
    SHORT,
    let_threads_spin,
    let_threads_wait,
    useful_threads,
)
from hpsearch.cluster.training_threads import CoresLeft, TrainingThreads
from hpsearch.commands import train
from hpsearch.game.kernels.threads import MAY_CHANGE
from hpsearch.study.spec import load_spec
from hpsearch.trainers.config import read_config

WIDE = {"host.net_arch": [1024, 1024], "host.batch_size": 256}
"""one of whose products takes 256 * 1024 * 1024 multiplications, worth 67 threads"""
FIXED = WIDE | {"precision": "bf16"}
"""worth five, as the number cannot change where another program needs the cores"""
NARROW = {"host.net_arch": [1024, 2], "host.batch_size": 1}
"""1024 * 2, and 1024 times the inputs"""


@pytest.mark.parametrize(
    ("changes", "members", "ranks", "cores", "threads"),
    [
        (WIDE, 1, 1, 2, 2),
        (WIDE, 1, 1, 128, 67),
        (WIDE, 1, 4, 128, 16),
        (WIDE, 2, 1, 256, 134),
        (WIDE, 1, 4, 2, 1),
        (FIXED, 1, 1, 64, 5),
        (FIXED, 1, 2, 64, 2),
        (FIXED, 2, 1, 64, 10),
        (NARROW, 1, 1, 64, 1),
        (NARROW, 1, 100, 64, 1),
        (NARROW | {"device": "cuda"}, 1, 2, 64, 32),
    ],
)
def test_a_thread_for_so_many_multiplications(
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
        ({"jobs": 1}, 16),
        ({"jobs": 4}, 4),
        ({"jobs": 1, "members_per_job": 2}, 16),
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


@pytest.mark.parametrize("given", [{}, SHORT, LONG])
def test_threads_sleep_soon_and_spin_longer_where_they_train(monkeypatch, given):
    monkeypatch.setattr(os, "environ", dict(given))
    let_threads_wait()
    assert os.environ == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    let_threads_spin()
    assert os.environ == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}


@pytest.mark.parametrize("users", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}])
def test_they_wait_as_a_user_says(monkeypatch, users):
    monkeypatch.setattr(os, "environ", dict(users))
    let_threads_wait()
    let_threads_spin()
    assert os.environ == users
    assert TrainingThreads(2)._may_change is False


# While training.


@pytest.fixture
def spinning(monkeypatch):
    """A process that may change its number of threads, which is 1 before and after."""
    for name, value in LONG.items():
        monkeypatch.setenv(name, value)
    before = torch.get_num_threads()
    yield
    MAY_CHANGE.clear()
    torch.set_num_threads(before)


def trainer(*, by_member=True, members=1, can_change=True):
    config = SimpleNamespace(can_change_threads=lambda: can_change)
    learner = SimpleNamespace(net=SimpleNamespace(has_layers_by_member=by_member))
    return SimpleNamespace(config=config, learners=[learner], num_members=members)


@pytest.mark.parametrize(
    ("of", "left", "count"),
    [
        (trainer(), 8.0, 6),
        (trainer(), 3.9, 4),
        (trainer(), 3.7, 3),
        (trainer(), 0.2, 1),
        (trainer(by_member=False, members=4), 8.0, 4),
        (trainer(by_member=False), 8.0, 1),
        (trainer(can_change=False), 0.2, 6),
    ],
)
def test_a_thread_for_each_core_that_is_left(spinning, monkeypatch, of, left, count):
    monkeypatch.setattr(CoresLeft, "look", lambda _: left)
    own = TrainingThreads(6)
    assert torch.get_num_threads() == 6
    own.adapt(of)
    assert torch.get_num_threads() == count
    monkeypatch.setattr(CoresLeft, "look", lambda _: None)
    own.adapt(of)
    assert torch.get_num_threads() == count


def test_one_thread_stays_one_and_runs_loops_of_its_own(spinning):
    own = TrainingThreads(1)
    own.adapt(trainer())
    assert torch.get_num_threads() == 1
    assert not MAY_CHANGE.is_set()


def test_cores_left_are_those_idle_and_ones_own(monkeypatch):
    """Of a machine with four cores: idle for 5 seconds of two, while this process computed 3."""
    clock = SimpleNamespace(monotonic=iter([10.0, 10.1, 12.0, 14.0]).__next__)
    monkeypatch.setattr(training_threads, "time", clock)
    monkeypatch.setattr(
        training_threads, "_seconds_not_of_others", iter([100.0, 108.0, 109.0]).__next__
    )
    cores = CoresLeft()
    assert [cores.look(), cores.look(), cores.look()] == [None, 4.0, 0.5]


def test_programs_that_need_the_cores_leave_none_to_a_waiting_one():
    """The real clock, which the test before this one plays."""
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    busy = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in os.sched_getaffinity(0)]
    try:
        for process in busy:
            process.stdout.readline()
        cores = CoresLeft()
        time.sleep(1.0)
        assert cores.look() < 0.3
        end = time.process_time() + 0.3
        while time.process_time() < end:  # what this process takes is left to it
            pass
        assert cores.look() > 0.1
    finally:
        for process in busy:
            process.kill()
            process.communicate()


def test_a_job_adapts_before_its_steps(spinning, monkeypatch, tiny_config):
    monkeypatch.setattr(CoresLeft, "look", lambda _: 1.0)
    team = Team(StopFlag(), num_threads=2)
    assert MAY_CHANGE.is_set()
    team.build([tiny_config()])
    assert torch.get_num_threads() == 2
    team.train(1)
    assert torch.get_num_threads() == 1
