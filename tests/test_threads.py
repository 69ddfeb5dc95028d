"""With how many threads jobs train where no number is asked for, and how threads wait."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cli_tools import write_study, write_trainer

from hpsearch.api import executors
from hpsearch.cluster import training_threads
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.machine import num_cores
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.team import Team
from hpsearch.cluster.threads import (
    BOUND,
    SPIN_LONG,
    SPIN_SHORTLY,
    let_threads_spin,
    let_threads_wait,
    useful_threads,
)
from hpsearch.cluster.training_threads import CoresLeft, TrainingThreads, idle_seconds
from hpsearch.commands import train
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE
from hpsearch.study.spec import load_spec
from hpsearch.trainers.config import read_config

WIDE = {"host.net_arch": [1024, 1024], "host.batch_size": 256}
"""one of whose products takes 256 * 1024 * 1024 multiplications, worth 67 threads"""
FIXED = WIDE | {"precision": "bf16"}
"""worth five, as the number cannot change where another program needs the cores"""
ALONE = {"members": 1, "ranks": 1, "cores": 64}
NARROW = {"host.net_arch": [1024, 2], "host.batch_size": 1}
"""1024 * 2, and 1024 times the inputs"""


@pytest.fixture(autouse=True)
def no_users_choice(monkeypatch):
    for name in (*SPIN_SHORTLY, *BOUND):
        monkeypatch.delenv(name, raising=False)


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
        ({"host.net_arch": [2048], "host.batch_size": 2048}, 1, 1, 64, 1),
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
        assert train._threads(None, 1, config) == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        assert train._threads(None, 1, config) == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("given", [{}, SPIN_SHORTLY, SPIN_LONG])
def test_threads_sleep_soon_and_spin_longer_where_they_train(monkeypatch, given):
    monkeypatch.setattr(os, "environ", dict(given))
    let_threads_wait()
    assert os.environ == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    let_threads_spin()
    assert os.environ == {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}


@pytest.mark.parametrize("users", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}])
def test_they_wait_as_a_user_says(monkeypatch, plain_config, users):
    monkeypatch.setattr(os, "environ", dict(users))
    let_threads_wait()
    let_threads_spin()
    assert os.environ == users
    assert useful_threads(read_config(plain_config(WIDE), source="test"), **ALONE) == 5
    assert_stays(TrainingThreads(2), trainer())


@pytest.mark.parametrize("variable", sorted(BOUND))
def test_threads_that_a_user_binds_to_cores_do_not_spin_longer(monkeypatch, variable):
    monkeypatch.setattr(os, "environ", {variable: "0"})
    let_threads_spin()
    assert os.environ == {variable: "0"}


# While training.


@pytest.fixture
def spinning(monkeypatch):
    """A process that may change its number of threads, which is 1 before and after."""
    for name, value in SPIN_LONG.items():
        monkeypatch.setenv(name, value)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def trainer(*, by_member=True, members=1, can_change=True):
    config = SimpleNamespace(can_change_threads=lambda: can_change)
    learner = SimpleNamespace(net=SimpleNamespace(has_layers_by_member=by_member))
    return SimpleNamespace(config=config, learners=[learner], num_members=members)


def number_within(own, of):
    with own.adapted(of):
        return torch.get_num_threads()


def assert_stays(own, of):
    most = torch.get_num_threads()
    assert number_within(own, of) == most
    assert not THREADS_MAY_CHANGE.is_set()


@pytest.mark.parametrize(
    ("of", "left", "number"),
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
def test_a_thread_for_each_core_that_is_left(spinning, monkeypatch, of, left, number):
    monkeypatch.setattr(CoresLeft, "look", lambda _: left)
    own = TrainingThreads(6)
    assert torch.get_num_threads() == 6
    assert number_within(own, of) == number
    assert torch.get_num_threads() == 6  # of what is not known to give the same digits


def test_one_thread_stays_one(spinning):
    assert_stays(TrainingThreads(1), trainer())


def test_the_number_stays_where_the_system_does_not_tell_of_its_cores(spinning, monkeypatch):
    monkeypatch.setattr(training_threads, "idle_seconds", lambda cores: None)
    assert_stays(TrainingThreads(2), trainer())


PROC_STAT = """cpu  100 0 0 900 70 0 0 0 0 0
cpu0 50 0 0 {} 30 0 0 0 0 0
cpu7 50 0 0 {} 40 0 0 0 0 0
intr 1 2 3
"""


def test_cores_are_idle_also_while_they_wait_for_a_disk(monkeypatch):
    ticks = os.sysconf("SC_CLK_TCK")
    text = PROC_STAT.format(4 * ticks - 30, 9 * ticks - 40)
    monkeypatch.setattr(Path, "read_text", lambda path: text)
    assert idle_seconds([0]) == 4.0
    assert idle_seconds([0, 7]) == 13.0
    assert idle_seconds([0, 1]) is None


def test_cores_left_are_those_idle_and_ones_own(monkeypatch):
    """Of four cores for two seconds each: 4 seconds idle and 2 its own, then half a second each."""
    clock = SimpleNamespace(
        monotonic=iter([10.0, 10.1, 12.0, 12.1, 14.0]).__next__,
        process_time=iter([1.0, 3.0, 3.5]).__next__,
    )
    idle = iter([100.0, 104.0, 104.5])
    monkeypatch.setattr(training_threads, "time", clock)
    monkeypatch.setattr(training_threads, "idle_seconds", lambda cores: next(idle))
    cores = CoresLeft([0, 1, 2, 3])
    assert [cores.look() for _ in range(4)] == [4.0, 3.0, 3.0, 0.5]


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="Linux alone tells of idle cores")
def test_programs_that_need_the_cores_leave_none_to_a_waiting_one():
    """The real clock, which the test before this one plays."""
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    own = sorted(os.sched_getaffinity(0))
    busy = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in own]
    try:
        for process in busy:
            process.stdout.readline()
        cores = CoresLeft(own)
        time.sleep(1.0)
        assert cores.look() < 0.3
        began, end = time.monotonic(), time.process_time() + 0.3
        while time.process_time() < end:  # what this process takes is left to it
            pass
        assert cores.look() > 0.25 / (time.monotonic() - began)
    finally:
        for process in busy:
            process.kill()
            process.communicate()


def test_a_job_adapts_for_its_steps_and_its_evaluations(spinning, monkeypatch, tiny_config):
    monkeypatch.setattr(CoresLeft, "look", lambda _: 1.0)
    numbers = []
    team = Team(StopFlag(), num_threads=2)
    team.build([tiny_config()])
    numbers.append(torch.get_num_threads())
    monkeypatch.setattr(
        team.trainer, "train", lambda steps: numbers.append(torch.get_num_threads())
    )
    team.train(1)
    team.do_together(lambda trainer: numbers.append(torch.get_num_threads()))
    numbers.append(torch.get_num_threads())
    assert numbers == [2, 1, 1, 2]


BUSY = """
import multiprocessing, os, time

def spin():
    while time.monotonic() < until:
        pass

while True:
    until = time.monotonic() + 1.5
    others = [multiprocessing.Process(target=spin) for _ in os.sched_getaffinity(0)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    time.sleep(1.5)
"""


@pytest.mark.slow
@pytest.mark.skipif(num_cores() < 2, reason="two threads need two cores")
def test_a_run_beside_a_program_that_comes_and_goes_learns_the_same_digits(tmp_path, monkeypatch):
    changes = {
        "steps": 400,
        "host/net_arch": [256, 256],
        "host/batch_size": 256,
        "evaluation/interval": 100,
        "evaluation/num_games": 200,
    }
    config = write_trainer(tmp_path, changes)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    command = [sys.executable, "-m", "hpsearch.cli", "train", str(config), "--runs", str(tmp_path)]
    with subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True) as busy:
        try:
            for number in "12":
                own = [*command, "--threads", number, "--name", number]
                subprocess.run(own, check=True, stdout=subprocess.DEVNULL)
        finally:
            os.killpg(busy.pid, signal.SIGKILL)
    one, two = (sorted((tmp_path / name / "checkpoints").rglob("*.safetensors")) for name in "12")
    assert [path.name for path in one] == [path.name for path in two]
    assert len(one) > 0
    for path, other in zip(one, two, strict=True):
        assert path.read_bytes() == other.read_bytes()
    lines = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in "12"]
    metrics = [[json.loads(line)["metrics"] for line in of_run] for of_run in lines]
    assert metrics[0] == metrics[1]
