"""Measure everything that hpsearch claims to be fast at, side by side with plain ways to do it.

    python tests/benchmarks/bench.py [--only step --only dqn] [--quick] [--out FOLDER]

Each suite appends its rows to FOLDER/SUITE.csv, by default in reports/benchmarks, and the page
FOLDER/README.md is written anew from all rows. On a machine with a GPU everything that trains or
plays is measured on the CPU and on the GPU. --quick runs everything in tiny sizes, which says
nothing about speed, and needs an --out of its own.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hpsearch.cluster.threads import SPIN_LONG

os.environ |= SPIN_LONG  # as a job does

import page
import rows
import torch
from crossplay_suite import crossplay
from game_suites import rollout, step
from learner_suite import learner
from memory_suite import memory
from setting import Setting
from shares_suite import shares
from start_suite import start_up
from training_suites import dqn, population, ppo

from hpsearch.cluster.machine import num_cores

Suite = Callable[[Setting], Iterator[dict[str, object]]]


def _ask(setting: Setting) -> Iterator[dict[str, object]]:
    from ask_suite import ask  # it needs databases, which a GPU node may lack

    yield from ask(setting)


def _looks(setting: Setting) -> Iterator[dict[str, object]]:
    from looks_suite import looks  # as above

    yield from looks(setting)


ON_EVERY_DEVICE: dict[str, Suite] = {
    "step": step,
    "rollout": rollout,
    "dqn": dqn,
    "ppo": ppo,
    "population": population,
    "crossplay": crossplay,
    "memory": memory,
    "shares": shares,
}
ON_THE_CPU: dict[str, Suite] = {
    "learner": learner,
    "start_up": start_up,
    "ask": _ask,
    "looks": _looks,
}
SUITES = ON_EVERY_DEVICE | ON_THE_CPU
DISPENSABLE = {"optuna", "sqlalchemy", "yaml", "psycopg"}
"""modules that a GPU node may lack; what needs them is not measured there"""


def main(given: list[str] | None = None) -> None:
    """Run suites and write the page."""
    arguments = _arguments(given)
    torch.set_num_threads(arguments.threads)
    for device in _devices(arguments.device):
        for name in arguments.only or SUITES:
            if device == "cpu" or name in ON_EVERY_DEVICE:
                _run(name, Setting(torch.device(device), arguments.quick), arguments.out)
    page.write(arguments.out)


def _arguments(given: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=list(SUITES), help="suites to run")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--out", type=Path, default=rows.REPORTS, help="folder of the tables")
    parser.add_argument("--device", action="append", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, default=num_cores())
    arguments = parser.parse_args(given)
    if arguments.quick and arguments.out == rows.REPORTS:
        parser.error("--quick says nothing about speed, so give --out another folder")
    return arguments


def _devices(asked: list[str] | None) -> Iterator[str]:
    """Return the devices to measure on; say so where there is no GPU."""
    if asked is None or "cpu" in asked:
        yield "cpu"
    if asked is None or "cuda" in asked:
        if torch.cuda.is_available():
            yield "cuda"
        else:
            print(f"the GPU part is skipped: torch {torch.__version__} finds no CUDA device here")


def _run(name: str, setting: Setting, out: Path) -> None:
    """Measure one suite and append its rows, each case as soon as it is done."""
    began = time.perf_counter()
    try:
        for row in SUITES[name](setting):
            rows.append(out / f"{name}.csv", [row])
            print(_line(row), flush=True)
    except ModuleNotFoundError as error:
        if error.name not in DISPENSABLE:
            raise
        print(f"{name} is skipped: this machine has no {error.name}")
        return
    took = time.perf_counter() - began
    print(f"{name} on {setting.device.type}: {took:.0f} s", file=sys.stderr, flush=True)


def _line(row: dict[str, object]) -> str:
    """Return a row in short."""
    return ", ".join(
        f"{value}" for name, value in row.items() if name not in rows.CONTEXT and value
    )


if __name__ == "__main__":
    main()
