"""How many threads a job should use, and how they should wait: alone and beside an equal job.

    python tests/benchmarks/threads.py --repeats 5

Trainers of many sizes, each with one thread, with as many as there are cores, which sleep while
they wait (OMP_WAIT_POLICY=PASSIVE) or spin first (GOMP_SPINCOUNT), and with those that a job has,
whose number follows what other programs leave. A contender has two processes of its own: one trains
alone, then both train beside each other. Contenders take turns for each size, each time once the
machine has nothing else to do. Each repetition's rows are appended to
reports/benchmarks/threads.csv; `threads_page` shows the newest.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import page
import psutil
import rows
import torch
from configurations import Plain, dqn_config, ppo_config

from hpsearch.cluster.job_training import STRIDE_SECONDS
from hpsearch.cluster.machine import keep_freed_memory, num_cores
from hpsearch.cluster.threads import SPIN_LONG, useful_threads
from hpsearch.cluster.training_threads import TrainingThreads
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.trainer import AnyTrainer

PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE"}
JOB = "as a job"
CONTENDERS: Mapping[str, Mapping[str, str]] = {
    "one thread": PASSIVE | {"OMP_NUM_THREADS": "1"},
    "all, asleep": PASSIVE,
    "all, spin 1000": {"GOMP_SPINCOUNT": "1000"},
    "all, spin 10000": {"GOMP_SPINCOUNT": "10000"},
    JOB: SPIN_LONG,
}
"""by name, the environment of its processes; all: as many threads as there are cores"""
SECONDS = 1.5
"""for which a process trains at a time while its steps count"""
SETTLING_SECONDS, JOB_SETTLING_SECONDS = 0.5, 2.0
"""for which it trains before: a job has to notice first what runs beside it, between two steps that
may take half a second"""
QUIET_PERCENT, QUIET_SECONDS = 12.0, 0.2
"""what others may use of the cores when a process begins to train, measured for so long"""
FIRST_STEPS = {"dqn": 12, "ppo": 1}
"""which fill a memory to where learning begins"""


@dataclass(frozen=True)
class Case:
    algorithm: str
    net_arch: list[Any]
    batch: int
    members: int

    def about(self, repetition: str) -> dict[str, object]:
        return {
            "case": self.algorithm,
            "net_arch": json.dumps(self.net_arch),
            "batch": self.batch,
            "members": self.members,
            "product": self.members * self._config(0).largest_product(),
            "chosen": JOB,
            "repeats": repetition,
        }

    def useful_threads(self) -> int:
        config = self._config(0)
        return useful_threads(config, members=self.members, ranks=1, cores=num_cores())

    def configs(self) -> list[TrainerConfig]:
        return [self._config(seed) for seed in range(self.members)]

    def _config(self, seed: int) -> TrainerConfig:
        host: Plain = {"net_arch": self.net_arch}
        if self.algorithm == "dqn":
            ring = {"buffer_size": 10_000, "save": True, "prioritised": None}
            changes = {"seed": seed, "replay_buffer": ring}
            return dqn_config(changes, host | {"batch_size": self.batch})
        options = vars(ppo_config({}, {}).ppo) | {"minibatch_size": self.batch}
        games = self.batch // 16
        host |= {"value_net_arch": self.net_arch, "rollout_size": games}
        return ppo_config({"seed": seed, "rollout_length": 16, "ppo": options}, host)


CASES = [
    Case(algorithm, net_arch, batch, members)
    for algorithm, net_arch, batch, members in (
        ("dqn", [64, 64], 256, 1),
        ("dqn", [64, 64], 256, 8),
        ("dqn", [64, 64], 256, 32),
        ("dqn", [256, 256], 256, 1),
        ("dqn", ["r256", "r256"], 256, 1),
        ("dqn", [512, 512], 256, 1),
        ("dqn", [256, 256], 256, 8),
        ("dqn", [1024, 1024], 256, 1),
        ("dqn", [256, 256], 256, 32),
        ("dqn", [1024, 1024], 1024, 1),
        ("ppo", [128, 128], 2048, 1),
        ("ppo", [256, 256], 512, 1),
        ("ppo", [512, 512], 512, 1),
        ("ppo", [128, 128], 2048, 8),
        ("ppo", [1024, 1024], 512, 1),
        ("ppo", [256, 256], 2048, 8),
        ("ppo", [1024, 1024], 2048, 1),
    )
]


class Worker:
    """A process that trains what it is told to, for a while each time."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        command = [sys.executable, __file__, "--work", name]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=os.environ | environment,
        )

    def tell(self, number: int | None) -> None:
        """Build a case, or train what was built."""
        assert self._process.stdin
        print(json.dumps(number), file=self._process.stdin, flush=True)

    def answer(self) -> float:
        assert self._process.stdout
        return float(self._process.stdout.readline())

    def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def work(name: str) -> None:
    """Answer each line: a case's number builds it, null trains it; answers are steps a second."""
    keep_freed_memory()  # as jobs do
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", num_cores())))
    settling_seconds = JOB_SETTLING_SECONDS if name == JOB else SETTLING_SECONDS
    for line in sys.stdin:
        number = json.loads(line)
        if number is not None:
            case = CASES[number]
            THREADS_MAY_CHANGE.clear()  # that of the last case
            threads = TrainingThreads(case.useful_threads()) if name == JOB else None
            trainer = build_trainer(case.configs())
            trainer.train(FIRST_STEPS[case.algorithm])
            print(0.0, flush=True)
            continue
        _train_for(settling_seconds, trainer, threads)
        print(_train_for(SECONDS, trainer, threads), flush=True)


def _train_for(seconds: float, trainer: AnyTrainer, threads: TrainingThreads | None) -> float:
    """Return steps a second; a job's number of threads adapts before each stride."""
    steps, began = 0, time.perf_counter()
    while (stride_began := time.perf_counter()) < began + seconds:
        with nullcontext() if threads is None else threads.adapted(trainer):
            while time.perf_counter() < stride_began + STRIDE_SECONDS:
                trainer.train(1)
                steps += 1
    return steps / (time.perf_counter() - began)


def _wait_for_quiet(patience: float) -> None:
    until = time.monotonic() + patience
    while psutil.cpu_percent(QUIET_SECONDS) > QUIET_PERCENT and time.monotonic() < until:
        pass


Speeds = dict[str, tuple[float, float]]


def measured(
    number: int, workers: Mapping[str, Sequence[Worker]], repeats: int, patience: float
) -> Iterator[Speeds]:
    """Yield for each repetition steps a second by contender: of one alone, the mean of two."""
    for pair in workers.values():
        for worker in pair:
            worker.tell(number)
            worker.answer()
    for repeat in range(repeats):
        speeds: Speeds = {}
        for name in list(workers)[:: 1 if repeat % 2 == 0 else -1]:
            first, second = workers[name]
            _wait_for_quiet(patience)
            first.tell(None)
            alone = first.answer()
            _wait_for_quiet(patience)
            for worker in (first, second):
                worker.tell(None)
            speeds[name] = alone, (first.answer() + second.answer()) / 2
        yield {name: speeds[name] for name in workers}


def main() -> None:
    """Measure and write the page; with --work, be one of the processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--patience", type=float, default=60.0, help="seconds for which a quiet machine is awaited"
    )
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    parser.add_argument("--work", choices=CONTENDERS)
    parser.add_argument("--cases", type=int, nargs="*", default=range(len(CASES)))
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    workers = {name: (Worker(name, own), Worker(name, own)) for name, own in CONTENDERS.items()}
    for number in options.cases:
        context = rows.context("cpu", num_cores())
        repetitions = measured(number, workers, options.repeats, options.patience)
        for repeat, speeds in enumerate(repetitions, start=1):
            about = context | CASES[number].about(f"{repeat} of {options.repeats}")
            table = [
                about | {"contender": name, "alone": f"{alone:.4g}", "beside": f"{beside:.4g}"}
                for name, (alone, beside) in speeds.items()
            ]
            rows.append(options.out / "threads.csv", table)
            print(*(tuple(row.values())[7:] for row in table), sep="\n", flush=True)
    for pair in workers.values():
        for worker in pair:
            worker.end()
    page.write(options.out)


if __name__ == "__main__":
    main()
