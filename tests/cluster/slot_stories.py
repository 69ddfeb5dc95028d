"""What the tests of slots share: three trials, what happens at a step, how a trial went."""

import os
import signal

import pytest
import torch

from hpsearch.cluster.study_dir import JobDir
from hpsearch.trainers import checkpoint
from hpsearch.trainers.trainer import Trainer

METRIC = "rho/host/choose_first"
SHORT, LONG, NEW = {"seed": 1, "steps": 4}, {"seed": 2, "steps": 16}, {"seed": 3, "steps": 12}


def at_step(monkeypatch, step: int, action) -> None:
    """Call ``action`` once, when the furthest row is to be trained on from ``step``."""
    original, done = Trainer.train, []

    def train(self, steps):
        if int(self.step.max()) >= step and not done:
            done.append(step)
            action()
        original(self, steps)

    monkeypatch.setattr(Trainer, "train", train)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def counted(monkeypatch, owner, name: str) -> list:
    """Return a list that grows with every call of a function, by what it returns."""
    original, calls = getattr(owner, name), []

    def wrapped(*arguments, **options):
        calls.append(original(*arguments, **options))
        return calls[-1]

    monkeypatch.setattr(owner, name, wrapped)
    return calls


def ended(job: JobDir, number: int, attempt: int = 1) -> tuple[str, int] | None:
    result = job.study.trial(number).attempt(attempt).read_result()
    return None if result is None else (result.status, result.step)


def curve(trial) -> dict[int, float]:
    rows = [(row["step"], row["metrics"][METRIC]["value"]) for row in trial.read_metrics()]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def assert_same_training(trial, other, step: int) -> None:
    """Assert that two trials learned the same, to rounding."""
    assert curve(trial) == pytest.approx(curve(other))
    tensors, expected = (
        checkpoint.load(checkpoint.path_of(run.checkpoints, step)).tensors for run in (trial, other)
    )
    for name, tensor in expected.items():
        torch.testing.assert_close(tensors[name], tensor, rtol=1e-4, atol=1e-5, msg=name)
