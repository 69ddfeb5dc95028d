"""Time the same work done in several ways, side by side.

A repetition times every contender, in the order A B C and the next time C B A, so that a machine
that grows slower favours none. Ratios are taken within each repetition, where contenders met
the same conditions, and their median and quartiles are what is reported.
"""

import math
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

LONG_SECONDS = 2.0
"""a first run that took as long needs no second one to say that it fills a timing"""


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case."""

    run: Callable[[], int]
    """does some of the work and returns how many units"""
    before: Callable[[], None] = nothing
    """what each run needs, not timed"""
    calls: int = 0
    """runs in a timing, without a warm-up; 0: as many as fill it, after one"""
    processor: Callable[[], float] | None = None
    """seconds that it has used so far, where it is a process of its own"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """The same work, done by several contenders."""

    name: str
    sizes: str
    """everything that decides how much work a unit is"""
    unit: str
    contenders: Mapping[str, Contender]
    baselines: tuple[str, ...]
    """contenders that all others are compared with"""
    same_work: bool = True
    """whether a run must be as many units for every contender"""
    goal: str = ""
    """what is to be reached, in words"""


@dataclass(frozen=True)
class Plan:
    """How long is measured."""

    repeats: int
    """repetitions, if there is time for them"""
    least_repeats: int
    """repetitions in any case"""
    least_seconds: float
    """of one timing; a contender that is faster runs several times in it"""
    most_seconds: float
    """of a whole case"""


@dataclass(frozen=True)
class Spread:
    """A median and its quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: list[float]) -> "Spread":
        """Return the spread of at least two numbers."""
        low, median, high = statistics.quantiles(numbers, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True)
class Timing:
    """What one contender took in each repetition, in seconds a unit."""

    wall: list[float]
    processor: list[float]
    units: int
    """of one run, the last one"""

    def times_faster(self, baseline: "Timing") -> Spread:
        """Return how many times faster this is, by the ratios of the repetitions."""
        return Spread.of([b / a for a, b in zip(self.wall, baseline.wall, strict=True)])


def measure(case: Case, plan: Plan, device: torch.device) -> dict[str, Timing]:
    """Return what each contender took.

    Raises:
        ValueError: if contenders do not do the same work, though they should.
    """
    calls = {name: _calls(contender, plan, device) for name, contender in case.contenders.items()}
    timings = {name: Timing([], [], 0) for name in case.contenders}
    began = time.perf_counter()
    for order in _orders(list(case.contenders), plan, began):
        for name in order:
            old = timings[name]
            wall, processor, units = _time(case.contenders[name], calls[name], device)
            timings[name] = Timing(
                [*old.wall, wall / units], [*old.processor, processor / units], units // calls[name]
            )
    units_by_name = {name: timing.units for name, timing in timings.items()}
    if case.same_work and len(set(units_by_name.values())) > 1:
        raise ValueError(
            f"contenders of {case.name} must do the same work, got units {units_by_name}"
        )
    return timings


def _orders(names: list[str], plan: Plan, began: float) -> Iterator[list[str]]:
    for repetition in range(plan.repeats):
        late = time.perf_counter() - began > plan.most_seconds
        if late and repetition >= plan.least_repeats:
            return
        yield names if repetition % 2 == 0 else names[::-1]


def _calls(contender: Contender, plan: Plan, device: torch.device) -> int:
    """Return how many runs fill a timing; the first, in which things are compiled, warms up."""
    if contender.calls:
        return contender.calls
    first, _, _ = _time(contender, 1, device)
    if first > LONG_SECONDS:
        return 1
    wall, _, _ = _time(contender, 1, device)
    return max(1, math.ceil(plan.least_seconds / wall))


def _time(contender: Contender, calls: int, device: torch.device) -> tuple[float, float, int]:
    """Return wall and processor seconds of some runs, and the units they did."""
    wall = processor = 0.0
    units, used = 0, contender.processor or _processor_seconds
    for _ in range(calls):
        contender.before()
        _wait(device)
        began, began_processor = time.perf_counter(), used()
        units += contender.run()
        _wait(device)
        wall += time.perf_counter() - began
        processor += used() - began_processor
    return wall, processor, units


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _processor_seconds() -> float:
    """Return what all threads of this process, and the processes that it waited for, have used."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
