"""How fast trainers of some shapes were measured to train: rows of reports/benchmarks/shares.csv.

Steps whose gradients take about as many multiplications take about as long, on a like machine.
"""

import csv
import re
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from hpsearch.shipped import shipped
from hpsearch.trainers.config import CommonConfig, DQNConfig, DQNRole, LearningRole, PPOConfig
from hpsearch.trainers.policy_size import policy_size

ROWS = "reports/benchmarks/shares.csv"
ALIKE = 2.0
"""ratio of work a step up to which shapes are alike"""

_NETWORK = re.compile(r"host ([\d-]+)")
_NUM_ROWS = {
    "dqn": re.compile(r"batch (\d+), (\d+) updates"),
    "ppo": re.compile(r"(\d+) games of (\d+) moves, (\d+) passes"),
}
"""numbers whose product are the rows that gradients pass in a step, in the text of sizes"""


@dataclass(frozen=True)
class Shape:
    """What was timed: one member that trains alone."""

    algorithm: str
    device: str
    sizes: str
    machine: str
    threads: int


@dataclass(frozen=True)
class Speed:
    """How fast it was."""

    shape: Shape
    steps_per_second: float


def nearest(config: CommonConfig) -> Speed | None:
    """Return the measured shape that is most like a configuration, None if none is."""
    work = sum(_work(config, name, role) for name, role in config.learning().items())
    seconds = _seconds_a_step()
    ratios = {
        shape: max(_work_of(shape) / work, work / _work_of(shape))
        for shape in seconds
        if (shape.algorithm, shape.device) == (config.algorithm, config.device)
    }
    best = min(ratios, key=lambda shape: ratios[shape], default=None)
    if best is None or ratios[best] > ALIKE:
        return None
    return Speed(best, 1 / seconds[best])


def _work(config: CommonConfig, name: str, role: LearningRole) -> int:
    """Return weights times rows that gradients pass in a step."""
    rows = 0
    if isinstance(config, DQNConfig) and isinstance(role, DQNRole):
        rows = role.batch_size * config.updates_per_step
    elif isinstance(config, PPOConfig):
        rows = role.rollout_size * config.rollout_length * config.ppo.train_epochs
    return policy_size(name, config) * rows


def _work_of(shape: Shape) -> int:
    """Return the same of a measured shape."""
    network, rows = _NETWORK.search(shape.sizes), _NUM_ROWS[shape.algorithm].search(shape.sizes)
    assert network is not None, shape.sizes
    assert rows is not None, shape.sizes
    widths = [int(width) for width in network[1].split("-")]
    num_weights = sum((before + 1) * after for before, after in pairwise(widths))
    return num_weights * prod(int(number) for number in rows.groups())


def _seconds_a_step() -> dict[Shape, float]:
    """Return what a step took, all of its parts together; of several measurements the newest."""
    totals: dict[Shape, dict[tuple[str, str], float]] = {}
    with shipped(ROWS).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["members"] != "1":
                continue
            shape = Shape(
                algorithm=row["case"].partition(",")[0],
                device=row["device"],
                sizes=row["sizes"],
                machine=row["machine"],
                threads=int(row["threads"]),
            )
            runs = totals.setdefault(shape, {})
            run = (row["date"], row["commit"])
            runs[run] = runs.get(run, 0.0) + float(row["seconds_a_step"])
    # Rows are appended, so the last run is the newest.
    return {shape: list(runs.values())[-1] for shape, runs in totals.items()}
