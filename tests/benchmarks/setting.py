"""Where and how long a suite measures, and the rows it gives."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import rows
import torch
from measuring import Case, Plan, Spread, measure

T = TypeVar("T")

FULL = Plan(repeats=9, least_repeats=3, least_seconds=0.2, most_seconds=15.0)
QUICK = Plan(repeats=2, least_repeats=2, least_seconds=0.0, most_seconds=0.0)


@dataclass(frozen=True)
class Setting:
    """What all suites of a run share."""

    device: torch.device
    quick: bool
    """tiny sizes, which say nothing but that everything runs"""

    def pick(self, *, full: T, quick: T) -> T:
        """Return the size that is measured."""
        return quick if self.quick else full

    def context(self) -> dict[str, object]:
        """Return the columns that all rows begin with."""
        return rows.context(self.device.type, torch.get_num_threads())

    def time(self, cases: Iterable[Case]) -> Iterator[dict[str, object]]:
        """Measure cases and return a row for every contender and baseline."""
        plan = QUICK if self.quick else FULL
        for case in cases:
            yield from self._rows(case, plan)

    def _rows(self, case: Case, plan: Plan) -> Iterator[dict[str, object]]:
        context = self.context()
        timings = measure(case, plan, self.device)
        for name, timing in timings.items():
            wall = Spread.of(timing.wall)
            for baseline in case.baselines:
                if name == baseline != case.baselines[0]:
                    continue  # it has its row already
                times = timing.times_faster(timings[baseline])
                yield context | {
                    "case": case.name,
                    "sizes": case.sizes,
                    "contender": name,
                    "unit": case.unit,
                    "units_a_run": timing.units,
                    "repeats": len(timing.wall),
                    "seconds": f"{wall.median:.4g}",
                    "seconds_q1": f"{wall.low:.4g}",
                    "seconds_q3": f"{wall.high:.4g}",
                    "processor_seconds": f"{Spread.of(timing.processor).median:.4g}",
                    "baseline": baseline,
                    "times_faster": f"{times.median:.4g}",
                    "times_q1": f"{times.low:.4g}",
                    "times_q3": f"{times.high:.4g}",
                    "goal": case.goal,
                }
