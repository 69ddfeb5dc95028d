"""How long until a search has found a strong host: hpsearch, and what one writes without it.

    python tests/benchmarks/headline.py --seeds 1 2 3 4 5

Every way searches the four parameters of studies/choose_first.yaml with TPE on all cores of this
machine, from nothing, and measures hosts by the same 2,000 games against choose_first, 20 points in
3 dimensions. Told are the seconds from the command until a measurement first reached a rho of
`LEVELS`, with all that a process takes to start. `by_hand.py` says how the other ways are set up:
an Optuna study in SQLite, as many workers as cores, a process a trial, one thread each, and in it

- the seed's trainer as published: two residual blocks of 256, 100,000 updates, 20 games of 20
  moves every 400 updates;
- the seed's trainer with the settings of choose_first.yaml;
- our trainer, one member, `hpsearch train`.

A way is stopped when it has found the last level, or after --limit seconds; with --times, which
lets hpsearch begin, the others after so many times what it took with the same seed. Ways take
turns, seed by seed; kernels are compiled before. Each row appended to the table headline.csv
is one way, seed and level; empty seconds mean that the limit came first.
"""

import argparse
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import page
import rows
from by_hand import BASE, COMMANDS, MANY_TRIALS, MEASURE_INTERVAL, NUM_GAMES, create_study
from seed_trainer import METRIC

from hpsearch import yaml_file
from hpsearch.cluster.machine import num_cores

LEVELS = (0.12, 0.14, 0.155)
OURS = "hpsearch"
STUDY = rows.ROOT / "studies/choose_first.yaml"
POLL_SECONDS = 0.2
END_SECONDS = 20.0  # for processes to end by themselves


def commands(way: str, seed: int, folder: Path) -> list[list[str]]:
    """Return what is started, all at once, for a way."""
    if way != OURS:
        create_study(folder)
        worker = [sys.executable, str(Path(__file__).with_name("by_hand.py")), way, str(folder)]
        return [[*worker, str(seed + place * MANY_TRIALS)] for place in range(num_cores())]
    base = yaml_file.load(BASE)
    base["evaluation"] |= {"interval": MEASURE_INTERVAL, "num_games": NUM_GAMES}
    (folder / "base.yaml").write_text(yaml_file.dump(base))
    study = yaml_file.load(STUDY) | {
        "seed": seed,
        "storage": f"sqlite:///{folder}/study.db",
        "base": "base.yaml",
        "budget": {"trials": MANY_TRIALS},
    }
    (folder / "study.yaml").write_text(yaml_file.dump(study))
    return [[sys.executable, "-m", "hpsearch.cli", "run", str(folder / "study.yaml")]]


def found(way: str, seed: int, limit: float, folder: Path) -> dict[float, float]:
    """Return after how many seconds each level was reached, those reached within the limit."""
    seconds: dict[float, float] = {}
    with ExitStack() as stack:
        given = commands(way, seed, folder)
        began = time.time()
        processes = [stack.enter_context(_started(command, folder)) for command in given]
        while len(seconds) < len(LEVELS) and time.time() - began < limit:
            time.sleep(POLL_SECONDS)
            for process in processes:
                if process.poll() is not None:
                    raise RuntimeError((folder / "said.txt").read_text())
            measured = list(_measured(folder))
            for level in LEVELS:
                reached = [at - began for at, rho in measured if rho >= level]
                if reached:
                    seconds[level] = min(reached)
    return {level: at for level, at in seconds.items() if at <= limit}


@contextmanager
def _started(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a group of its own, all of which is stopped afterwards."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if "by_hand.py" not in command[1]:
        environment = dict(os.environ)
    with (folder / "said.txt").open("a") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=said, stderr=said, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _measured(folder: Path) -> Iterator[tuple[float, float]]:
    """Yield when something was measured, and its rho."""
    for curve in folder.rglob("metrics.jsonl"):
        for line in curve.read_text().splitlines():
            with suppress(json.JSONDecodeError):  # being written
                row: dict[str, Any] = json.loads(line)
                yield row["at"], row["metrics"][METRIC]["value"]


def main() -> None:
    """Let ways take turns, append their rows and write the page."""
    ways = [*COMMANDS, OURS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways, metavar="WAY")
    parser.add_argument("--limit", type=float, default=900.0)
    parser.add_argument("--times", type=float, help="limit of other ways, in hpsearch's seconds")
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    options = parser.parse_args()
    ways = sorted(options.ways, key=lambda way: way != OURS) if options.times else options.ways
    for seed in options.seeds:
        limit = options.limit
        for way in ways:
            context = rows.context("cpu", num_cores())
            folder = Path(tempfile.mkdtemp(prefix="headline-"))
            seconds = found(way, seed, limit, folder)
            shutil.rmtree(folder)
            print(way, seed, seconds, flush=True)
            told = {level: f"{seconds[level]:.1f}" if level in seconds else "" for level in LEVELS}
            table = [
                context
                | {"way": way, "seed": seed, "rho": level, "seconds": told[level]}
                | {"limit_seconds": f"{limit:g}"}
                for level in LEVELS
            ]
            if way == OURS and options.times and LEVELS[-1] in seconds:
                limit = min(options.limit, math.ceil(options.times * seconds[LEVELS[-1]]))
            rows.append(options.out / "headline.csv", table)
    page.write(options.out)


if __name__ == "__main__":
    main()
