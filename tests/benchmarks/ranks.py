"""What ranks cost: steps a second by one trainer, and by one and two ranks; calls and bytes.

    python tests/benchmarks/ranks.py --repeats 4

The shipped DQN and PPO of studies/trainers, one member and eight. Contenders take turns, each in a
process of its own with one thread a rank: a trainer that knows of no job, the same in a job of one
rank, and two ranks on gloo over the loopback interface. Rows are appended to
reports/benchmarks/ranks.csv; `ranks_page` shows the newest.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numba
import page
import rows
import torch
from configurations import dqn_config, ppo_config
from torch import Tensor, distributed

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.meeting import local_team
from hpsearch.trainers.algorithms import build

CONFIGS = {"dqn": dqn_config, "ppo": ppo_config}
CONTENDERS = {"a trainer alone": 0, "one rank": 1, "two ranks": 2}
"""by name, how many ranks; 0 for none"""
MEMBERS = (1, 8)
SHARDS = 2
FIRST_STEPS = {"dqn": 20, "ppo": 1}
"""which compile, and fill a memory to where learning begins; PPO's take far longer"""
STEPS_A_CALL = {"dqn": 10, "ppo": 1}
SECONDS = 3.0
"""for which each contender trains in a repetition, after the first steps"""


def measured(algorithm: str, members: int, ranks: int) -> dict[str, float]:
    """Return steps a second, and calls and bytes of a step, of one contender."""
    torch.set_num_threads(1)
    numba.get_num_threads()
    configs = [CONFIGS[algorithm]({"shards": SHARDS, "seed": seed}, {}) for seed in range(members)]
    if ranks == 0:
        return _timed(algorithm, build(configs).train)
    with local_team(ranks, 1, StopFlag()) as team:
        team.build(configs)
        told = _timed(algorithm, team.train)
        with _counted() as counts:
            team.train(1)
        # Beside the step's own: one call that tells it to all, and one by which all answer.
        return told | {"calls": counts["calls"], "bytes": counts["bytes"]}


def _timed(algorithm: str, train: Callable[[int], None]) -> dict[str, float]:
    train(FIRST_STEPS[algorithm])
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        train(STEPS_A_CALL[algorithm])
        steps += STEPS_A_CALL[algorithm]
    return {"steps_per_second": steps / (time.perf_counter() - began)}


@contextmanager
def _counted() -> Iterator[dict[str, int]]:
    """Count what the first rank sends in calls of tensors."""
    counts = {"calls": 0, "bytes": 0}

    def counting(call: Callable[..., None], which: int) -> Callable[..., None]:
        def counted(*arguments: Tensor) -> None:
            counts["calls"] += 1
            counts["bytes"] += arguments[which].nbytes
            call(*arguments)

        return counted

    with (
        patch.object(distributed, "all_reduce", counting(distributed.all_reduce, 0)),
        patch.object(distributed, "all_gather", counting(distributed.all_gather, 1)),
    ):
        yield counts


def _in_turn(algorithm: str, members: int, repeats: int) -> Iterator[dict[str, object]]:
    """Yield a row for each contender: the median of its repetitions and their extremes."""
    told: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for repeat in range(repeats):
        for name in list(CONTENDERS)[:: 1 if repeat % 2 == 0 else -1]:
            words = ("--one", algorithm, str(members), str(CONTENDERS[name]))
            command = [sys.executable, __file__, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            told[name].append(json.loads(done.stdout.splitlines()[-1]))
    alone = [one["steps_per_second"] for one in told["a trainer alone"]]
    for name, every in told.items():
        speeds = [one["steps_per_second"] for one in every]
        ratios = [speed / other for speed, other in zip(speeds, alone, strict=True)]
        yield {
            "case": algorithm,
            "members": members,
            "contender": name,
            "repeats": repeats,
            "steps_per_second": f"{statistics.median(speeds):.4g}",
            "times_alone": f"{statistics.median(ratios):.3g}",
            "least": f"{min(ratios):.3g}",
            "greatest": f"{max(ratios):.3g}",
            "calls_a_step": every[0].get("calls", 0),
            "bytes_a_step": every[0].get("bytes", 0),
        }


def main() -> None:
    """Measure and write the page; with --one, only print what one contender comes to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    parser.add_argument("--one", nargs=3, metavar=("ALGORITHM", "MEMBERS", "RANKS"))
    options = parser.parse_args()
    if options.one:
        algorithm, members, ranks = options.one
        print(json.dumps(measured(algorithm, int(members), int(ranks))))
        return
    for algorithm in CONFIGS:
        for members in MEMBERS:
            context = rows.context("cpu", 1)
            table = [context | row for row in _in_turn(algorithm, members, options.repeats)]
            rows.append(options.out / "ranks.csv", table)
            print(*table, sep="\n", flush=True)
    page.write(options.out)


if __name__ == "__main__":
    main()
