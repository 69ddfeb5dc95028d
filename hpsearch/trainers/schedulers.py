"""Schedules: numbers that are pure functions of a member's step, one row a member."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hpsearch.trainers.config.schedules import (
    ConstantSchedule,
    CosineSchedule,
    ExponentialSchedule,
    InverseSchedule,
    LinearSchedule,
    Schedule,
)


class Scheduler:
    """The values of one number for P members at their steps.

    Computed in float64, so that the value at a step does not depend on how it was reached.
    """

    def __init__(
        self, schedules: Sequence[Schedule], finals: Sequence[float], device: torch.device
    ) -> None:
        """Take each member's schedule, all of one mode, and the value that each tends to."""
        self._function = _FUNCTIONS[schedules[0].mode]
        self._final = torch.tensor(finals, dtype=torch.float64, device=device)
        numbers = [_numbers(schedule) for schedule in schedules]
        initial, pace = torch.tensor(numbers, dtype=torch.float64, device=device).unbind(1)
        self._initial, self._pace = initial.clone(), pace.clone()

    def __call__(self, step: Tensor) -> Tensor:
        """Return float32 (P,) at ``step`` int64 (P,)."""
        value = self._function(step.double(), self._initial, self._final, self._pace)
        return value.float()

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return {"initial": self._initial, "final": self._final, "pace": self._pace}


def _numbers(schedule: Schedule) -> tuple[float, float]:
    """Return the initial value and the pace: a rate or a number of steps."""
    match schedule:
        case ConstantSchedule():
            return 0.0, 0.0
        case ExponentialSchedule(initial=initial, rate=rate):
            return initial, rate
        case InverseSchedule(initial=initial, rate=rate):
            return initial, rate
        case LinearSchedule(initial=initial, steps=steps):
            return initial, steps
        case CosineSchedule(initial=initial, steps=steps):
            return initial, steps


def _constant(step: Tensor, initial: Tensor, final: Tensor, pace: Tensor) -> Tensor:
    return final


def _exponential(step: Tensor, initial: Tensor, final: Tensor, rate: Tensor) -> Tensor:
    return final + (initial - final) * rate**step


def _inverse(step: Tensor, initial: Tensor, final: Tensor, rate: Tensor) -> Tensor:
    return rate / (step + rate / initial)


def _linear(step: Tensor, initial: Tensor, final: Tensor, steps: Tensor) -> Tensor:
    return torch.lerp(initial, final, (step / steps).clamp(max=1.0))


def _cosine(step: Tensor, initial: Tensor, final: Tensor, steps: Tensor) -> Tensor:
    share = (1 - torch.cos(torch.pi * (step / steps).clamp(max=1.0))) / 2
    return torch.lerp(initial, final, share)


_FUNCTIONS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "constant": _constant,
    "exponential": _exponential,
    "inverse": _inverse,
    "linear": _linear,
    "cosine": _cosine,
}
