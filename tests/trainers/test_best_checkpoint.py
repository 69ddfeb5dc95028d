"""The best checkpoint of a folder: high for hosts, low for agents, only while it is whole."""

import pytest
import torch
from best import write_best

from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import (
    RECORD,
    BestRecord,
    Checkpoint,
    forget_best,
    is_maximized,
    read_best,
)

BEST = BestRecord(4, "rho/host/choose_first", 0.5)


@pytest.fixture
def folder(tmp_path):
    """A folder with checkpoints of the steps 2 and 4."""
    for step in (2, 4):
        tensors = {"step": torch.tensor(step)}
        checkpoint.save(tmp_path, Checkpoint(step, tensors, {}, (), "best"))
    return tmp_path


@pytest.mark.parametrize(
    ("metric", "maximized"),
    [
        ("rho/host/choose_first", True),
        ("rho_sampled/host/random", True),
        ("panel/host", True),
        ("rho/agent/zeillinger", False),
        ("panel_sampled/agent", False),
        ("worst/host", True),
        ("worst/agent", False),
    ],
)
def test_hosts_are_maximised_and_agents_minimised(metric, maximized):
    assert is_maximized(metric) is maximized
    best = BestRecord(1, metric, 0.5)
    assert best.is_beaten_by(0.6) is maximized
    assert best.is_beaten_by(0.4) is not maximized
    assert not best.is_beaten_by(0.5)
    assert not best.is_beaten_by(float("nan"))


def test_round_trip(folder):
    assert read_best(folder) is None
    write_best(folder, BEST)
    assert read_best(folder) == BEST
    forget_best(folder)
    forget_best(folder)
    assert read_best(folder) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"step": 4}', '{"step": 4, "metric": "m", "value": 1, "x": 2}']
)
def test_a_damaged_record_is_none(folder, text):
    (folder / RECORD).write_text(text)
    assert read_best(folder) is None


def test_a_checkpoint_that_is_gone_or_damaged_is_not_the_best(folder):
    write_best(folder, BestRecord(3, BEST.metric, 0.5))
    assert read_best(folder) is None
    write_best(folder, BEST)
    tensors = checkpoint.path_of(folder, 4) / checkpoint.TENSORS
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"\xff")
    assert read_best(folder) is None


def test_the_record_is_no_checkpoint(folder):
    write_best(folder, BEST)
    assert list(checkpoint.valid_steps(folder)) == [4, 2]
    checkpoint.remove_after(folder, -1)
    assert list(checkpoint.valid_steps(folder)) == []
    assert read_best(folder) is None
