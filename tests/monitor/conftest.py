"""A job of two members in a temporary folder, and monitors of it."""

import pytest
import torch

from hpsearch.monitor.config import MonitorConfig
from hpsearch.monitor.monitor import JobMonitor
from hpsearch.monitor.snapshot import JobPlace, MemberPlace, MemberSnapshot, MonitorSnapshot, Timing
from hpsearch.schema import read

OFF = {
    "interval": 2,
    "training_log": False,
    "tensorboard": False,
    "layer_statistics": False,
    "timings": False,
    "resources": False,
    "prometheus": None,
    "profiler": None,
    "max_loss": None,
    "hang_timeout": None,
}


@pytest.fixture
def make_config():
    """Return a function (what is switched on) -> configuration."""

    def make(**changes):
        return read(MonitorConfig, {**OFF, **changes}, source="tests/monitor/conftest.py")

    return make


@pytest.fixture
def job(tmp_path):
    return JobPlace("cubes", "job-1", tmp_path / "job" / "gauges.prom", tmp_path / "job" / "traces")


@pytest.fixture
def make_places(tmp_path):
    """Return a function (steps from which the members go on) -> their places."""

    def make(*steps):
        roots = [tmp_path / str(number) for number in range(len(steps))]
        return [
            MemberPlace(root.name, step, root / "training.jsonl", root / "tensorboard")
            for root, step in zip(roots, steps, strict=True)
        ]

    return make


@pytest.fixture
def make_monitor(make_config, make_places, job):
    """Return a function (steps, what is switched on) -> monitor; all are closed at the end."""
    monitors = []

    def make(steps=(0, 0), on_hang=None, **changes):
        config, places = make_config(**changes), make_places(*steps)
        monitors.append(JobMonitor(config, job, places, torch.device("cpu"), on_hang))
        return monitors[-1]

    yield make
    for monitor in monitors:
        monitor.close()


@pytest.fixture
def make_look(make_places):
    """Return a function (step, loss of each member) -> look."""

    def make(step, *losses, places=None):
        members = tuple(
            MemberSnapshot(
                place, step, {"host/loss": loss, "agent/er": 0.5}, {"host/0/weight_std": 2.0}
            )
            for place, loss in zip(places or make_places(*[0] * len(losses)), losses, strict=True)
        )
        timings = {"rollout": Timing(milliseconds=30.0, count=4)}
        return MonitorSnapshot(1000.0 + step, members, timings, {"cpu_percent": 150.0})

    return make
