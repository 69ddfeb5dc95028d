"""What ranks cost: steps a second by one trainer, and by one and two ranks; calls and bytes.

    python tests/benchmarks/ranks.py --repeats 3

The shipped DQN and PPO of studies/trainers, one member and eight, one thread a rank: a trainer that
knows of no job, the same in a job of one rank, and two ranks on gloo over the loopback interface.
The first two take turns in one process, a call each, as they differ by less than processes do; two
ranks take turns with a trainer alone in processes of their own. Rows are appended to
reports/benchmarks/ranks.csv; `ranks_page` shows the newest.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numba
import page
import rows
import torch
from configurations import dqn_config, ppo_config
from torch import Tensor, distributed

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.meeting import local_team
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import TrainerConfig

CONFIGS = {"dqn": dqn_config, "ppo": ppo_config}
ALONE, ONE, TWO = "a trainer alone", "one rank", "two ranks"
MEMBERS = (1, 8)
SHARDS = 2
FIRST_STEPS = {"dqn": 20, "ppo": 1}
"""which compile, and fill a memory to where learning begins; PPO's take far longer"""
STEPS_A_CALL = {"dqn": 10, "ppo": 1}
SECONDS = 3.0
"""for which each contender trains in a repetition, after the first steps"""
PAIRS, PAIRS_SECONDS = 10, 20.0
"""calls of a trainer alone and of one rank, of each so many at least, for so long at least"""


def measured(algorithm: str, members: int, contender: str) -> dict[str, float]:
    """Return steps a second, and calls and bytes of a step, of one contender."""
    configs = _configs(algorithm, members)
    if contender == ALONE:
        return _timed(algorithm, build_trainer(configs).train)
    with local_team(2, 1, StopFlag()) as team:
        team.build(configs)
        told = _timed(algorithm, team.train)
        with _counted() as counts:
            team.train(1)
        # Beside the step's own: one call that tells it to all, and one by which all answer.
        return told | {"calls": counts["calls"], "bytes": counts["bytes"]}


def _configs(algorithm: str, members: int) -> list[TrainerConfig]:
    torch.set_num_threads(1)
    numba.get_num_threads()
    return [CONFIGS[algorithm]({"shards": SHARDS, "seed": seed}, {}) for seed in range(members)]


def _timed(algorithm: str, train: Callable[[int], None]) -> dict[str, float]:
    train(FIRST_STEPS[algorithm])
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        train(STEPS_A_CALL[algorithm])
        steps += STEPS_A_CALL[algorithm]
    return {"steps_per_second": steps / (time.perf_counter() - began)}


def paired(algorithm: str, members: int) -> list[tuple[float, float]]:
    """Return steps a second of a trainer alone and of one rank, call by call in turn."""
    configs, steps = _configs(algorithm, members), STEPS_A_CALL[algorithm]
    speeds: list[tuple[float, float]] = []
    with local_team(1, 1, StopFlag()) as team:
        team.build(configs)
        trains = {ALONE: build_trainer(configs).train, ONE: team.train}
        for train in trains.values():
            train(FIRST_STEPS[algorithm])
        began = time.perf_counter()
        while len(speeds) < PAIRS or time.perf_counter() - began < PAIRS_SECONDS:
            seconds = {}
            for name in list(trains)[:: 1 if len(speeds) % 2 == 0 else -1]:
                before = time.perf_counter()
                trains[name](steps)
                seconds[name] = time.perf_counter() - before
            speeds.append((steps / seconds[ALONE], steps / seconds[ONE]))
    return speeds


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
    """Yield a row for each contender: the median of its repetitions and their quartiles."""
    runs: dict[str, list[dict[str, float]]] = {ALONE: [], TWO: []}
    for repeat in range(repeats):
        for name in list(runs)[:: 1 if repeat % 2 == 0 else -1]:
            runs[name].append(_in_a_process(algorithm, members, name))
    pairs = _in_a_process(algorithm, members, ONE)
    alone, two = ([run["steps_per_second"] for run in runs[name]] for name in (ALONE, TWO))
    common = {"case": algorithm, "members": members}
    nothing = {"calls_a_step": 0, "bytes_a_step": 0}
    sent = {f"{key}_a_step": runs[TWO][0][key] for key in ("calls", "bytes")}
    yield {**common, "contender": ALONE, **_compared(alone, alone), **nothing}
    yield {**common, "contender": ONE, **_compared(*zip(*pairs, strict=True)), **nothing}
    yield {**common, "contender": TWO, **_compared(alone, two), **sent}


def _in_a_process(algorithm: str, members: int, contender: str) -> Any:
    words = ("--one", algorithm, str(members), contender)
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _compared(alone: Sequence[float], speeds: Sequence[float]) -> dict[str, object]:
    ratios = [speed / other for speed, other in zip(speeds, alone, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {
        "repeats": len(speeds),
        "steps_per_second": f"{statistics.median(speeds):.4g}",
        "times_alone": f"{middle:.3f}",
        "low": f"{low:.3f}",
        "high": f"{high:.3f}",
    }


def main() -> None:
    """Measure and write the page; with --one, only print what one contender comes to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    parser.add_argument("--one", nargs=3, metavar=("ALGORITHM", "MEMBERS", "CONTENDER"))
    options = parser.parse_args()
    if options.one:
        algorithm, number, contender = options.one
        measure = paired(algorithm, int(number)) if contender == ONE else None
        print(json.dumps(measure or measured(algorithm, int(number), contender)))
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
