"""Schedules against their closed formulas."""

import math

import pytest
import torch

from hpsearch.trainers.config import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    InverseSchedule,
    LinearSchedule,
)
from hpsearch.trainers.schedulers import Scheduler

CPU = torch.device("cpu")
STEPS = (0, 1, 7, 50, 99, 100, 101, 100_000)


def linear(t, initial, final, steps):
    return initial + (final - initial) * min(t / steps, 1)


def cosine(t, initial, final, steps):
    return final + (initial - final) * (1 + math.cos(math.pi * min(t / steps, 1))) / 2


# Two members of each mode: schedule, final value, value at step t.
CASES = {
    "constant": [
        (ConstantSchedule("constant"), 0.3, lambda t: 0.3),
        (ConstantSchedule("constant"), 1e-5, lambda t: 1e-5),
    ],
    "exponential": [
        (
            ExponentialSchedule("exponential", 1.0, 0.99),
            0.2,
            lambda t: 1.0 * 0.99**t + 0.2 * (1 - 0.99**t),
        ),
        (
            ExponentialSchedule("exponential", 1e-2, 0.5),
            1e-4,
            lambda t: 1e-2 * 0.5**t + 1e-4 * (1 - 0.5**t),
        ),
    ],
    "inverse": [
        (InverseSchedule("inverse", 0.5, 10.0), 9.0, lambda t: 10.0 / (t + 20.0)),
        (InverseSchedule("inverse", 1e-3, 0.1), 9.0, lambda t: 0.1 / (t + 100.0)),
    ],
    "linear": [
        (LinearSchedule("linear", 1.0, 100), 0.05, lambda t: linear(t, 1.0, 0.05, 100)),
        (LinearSchedule("linear", 1e-4, 7), 1e-2, lambda t: linear(t, 1e-4, 1e-2, 7)),
    ],
    "cosine": [
        (CosineSchedule("cosine", 1.0, 100), 0.05, lambda t: cosine(t, 1.0, 0.05, 100)),
        (CosineSchedule("cosine", 1e-2, 50), 1e-5, lambda t: cosine(t, 1e-2, 1e-5, 50)),
    ],
}


@pytest.mark.parametrize("members", CASES.values(), ids=CASES)
def test_closed_formula(members):
    schedules, finals, formulas = zip(*members, strict=True)
    scheduler = Scheduler(schedules, finals, CPU)
    for first in STEPS:
        for second in STEPS:  # members need not be at the same step
            value = scheduler(torch.tensor([first, second]))
            assert value.dtype == torch.float32
            expected = [formulas[0](first), formulas[1](second)]
            assert value.tolist() == pytest.approx(expected, rel=1e-6)
