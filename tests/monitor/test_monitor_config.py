"""The block `monitor` of a configuration."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hpsearch.monitor
from hpsearch.errors import ConfigError
from hpsearch.monitor.config import MonitorConfig
from hpsearch.schema import leaves, read, to_plain

EVERYTHING = {
    "interval": 100,
    "training_log": True,
    "tensorboard": True,
    "layer_statistics": True,
    "timings": True,
    "resources": True,
    "prometheus": {"textfile": True, "port": 9400},
    "profiler": {"first_step": 200, "steps": 10},
    "max_loss": 1.0e3,
    "hang_timeout": 600.0,
}


def test_everything_on_is_read_back():
    assert to_plain(read(MonitorConfig, EVERYTHING, source="x")) == EVERYTHING


def test_members_of_a_population_share_what_is_observed():
    config = read(MonitorConfig, EVERYTHING, source="x")
    assert not [leaf.path for leaf in leaves(config) if leaf.per_member]


@pytest.mark.parametrize("key", EVERYTHING)
def test_nothing_has_a_default(key):
    data = {name: value for name, value in EVERYTHING.items() if name != key}
    with pytest.raises(ConfigError, match=f"{key} is missing"):
        read(MonitorConfig, data, source="x")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"interval": 0}, "interval must lie in"),
        ({"hang_timeout": 0}, "hang_timeout must lie in"),
        ({"max_loss": -1.0}, "max_loss must lie in"),
        ({"prometheus": {"textfile": True, "port": 70000}}, "prometheus.port must lie in"),
        ({"prometheus": {"textfile": False, "port": None}}, "prometheus.textfile must be true"),
        ({"profiler": {"first_step": 0, "steps": 1}}, "profiler.first_step must lie in"),
    ],
)
def test_faults_are_named(change, fault):
    with pytest.raises(ConfigError, match=fault):
        read(MonitorConfig, {**EVERYTHING, **change}, source="x")


def test_the_block_that_the_readme_shows():
    text = (Path(hpsearch.monitor.__file__).parent / "README.md").read_text()
    block = text.split("```yaml\n")[1].split("```")[0]
    config = read(MonitorConfig, yaml.safe_load(block)["monitor"], source="README.md")
    assert config.training_log


def test_what_is_switched_off_is_not_imported():
    script = """
import sys
import hpsearch.monitor.config
assert "torch" not in sys.modules
from pathlib import Path
import torch
before = set(sys.modules)
from hpsearch.monitor.config import MonitorConfig
from hpsearch.monitor.monitor import JobMonitor
from hpsearch.monitor.snapshot import JobPlace
config = MonitorConfig(1, False, False, False, False, False, None, None, None, None)
place = JobPlace("s", "j", Path("/none"), Path("/none"))
JobMonitor(config, place, [], torch.device("cpu"), print).close()
assert not {"tensorboard", "prometheus_client", "pynvml", "psutil"} & (set(sys.modules) - before)
assert not {"hpsearch.monitor." + name for name in ("tensorboard", "prometheus")} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
