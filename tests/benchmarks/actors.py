"""What actors gain: inline training against training with actors, at equal wall time.

    python tests/benchmarks/actors.py --seconds 60 --repeats 3

The shipped DQN and PPO of studies/trainers with constant rates, one member, two shards. Contenders
take turns, each in a process of its own: one that plays and learns, with two threads and with one;
and a learner of one thread beside one or two actors, of one thread each, with each `sync_style`.
Each repetition has a seed of its own, the same for all. The clock starts after the first steps,
which compile. Rows, one a run, are appended to reports/benchmarks/actors.csv; `actors_page` shows
the newest.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import page
import rows
import torch
from configurations import dqn_config, ppo_config
from learning_curves import AGENT, EVALUATION, NUM_GAMES, PPO_HOST

from hpsearch.analysis.activity import MAX_SPANS, activity_of, intersection
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.meeting import local_team
from hpsearch.cluster.records import LEARNER, Span
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.trainer import AnyTrainer

CONFIGS = {"dqn": (dqn_config, {}), "ppo": (ppo_config, {"optim": PPO_HOST["optim"]})}
"""by name, who makes a configuration, and changes of the host: the rate with which PPO begins"""
FIRST_STEPS = {"dqn": 20, "ppo": 2}
"""which compile, and fill a memory to where learning begins"""
SHARDS = 2
PLAIN = {
    "mode": "actors",
    "device": "cpu",
    "sync_interval": 2,
    "sync_method": "memory",
    "max_staleness": 4,
    "sample_strategy": "fifo",
    "actor_timeout": 60.0,
}


class Contender(NamedTuple):
    threads: int  # of the process that learns
    actors: int = 0
    style: str = ""

    def config(self, algorithm: str, seed: int) -> TrainerConfig:
        changes = {"shards": SHARDS, "seed": seed, "evaluation": EVALUATION}
        if self.actors:
            own = {"actors": self.actors, "sync_style": self.style}
            changes["rollouts"] = PLAIN | own
        make, host = CONFIGS[algorithm]
        return make(changes, host)


CONTENDERS = {"inline, two threads": Contender(2), "inline, one thread": Contender(1)} | {
    f"{style}, {name}": Contender(1, actors, style)
    for style in ("fixed", "dynamic_by_explorer", "dynamic_by_trainer")
    for actors, name in ((1, "one actor"), (2, "two actors"))
}


def measured(algorithm: str, contender: Contender, seed: int, seconds: float) -> dict[str, object]:
    """Train for so many seconds; return the columns of a row."""
    torch.set_num_threads(contender.threads)
    config = contender.config(algorithm, seed)
    with local_team(1, contender.threads, StopFlag()) as team:
        team.build([config])
        trainer = team.trainer
        trainer.train(FIRST_STEPS[algorithm])
        steps, taken, watch = 0, 0.0, Watch(trainer)
        began = time.perf_counter()
        while taken < seconds:
            trainer.train(1)
            watch.look()
            steps += 1
            taken = time.perf_counter() - began
        columns = watch.columns()
        team.end_actors()  # which would go on playing beside the evaluation
        rho = trainer.evaluate_rho(num_games=NUM_GAMES, split="curve")[0][AGENT].value
    games = sum(role.rollout_size for role in config.learning().values())
    return {
        "trained_seconds": f"{taken:.1f}",
        "steps": steps,
        "steps_per_second": f"{steps / taken:.4g}",
        "moves_per_second": f"{steps * games * config.rollout_length / taken:.4g}",
        **columns,
        "rho": f"{rho:.5f}",
    }


class Watch:
    """What the actors of a trainer do, from now on; nothing where it plays itself."""

    def __init__(self, trainer: AnyTrainer) -> None:
        self._games = trainer.actor_games
        self._spans: list[Span] = []
        self._ages: list[int] = []
        self._before = self._counts()
        if self._games is not None:
            self._games.recent.clear()

    def _counts(self) -> tuple[int, int]:
        parts = [] if self._games is None else self._games.parts
        return sum(part.too_old for part in parts), sum(part.played_here for part in parts)

    def look(self) -> None:
        """Note what the last step learned from."""
        if self._games is None:
            return
        self._ages += [part.age for part in self._games.parts]
        for actor, *times in self._games.recent:
            self._spans.append(Span(LEARNER if actor is None else f"actor {actor}", *times))
        self._games.recent.clear()

    def columns(self) -> dict[str, object]:
        """Return shares of time, ages in steps, and rollouts; empty where there are no actors."""
        now = self._counts()
        dropped, here = (after - before for after, before in zip(now, self._before, strict=True))
        if self._games is None:
            names = ("learns", "plays", "both", "age", "greatest_age", "dropped", "played_here")
            return dict.fromkeys(names, "")
        return {
            **{name: f"{share:.4f}" for name, share in shares(self._spans).items()},
            "age": f"{statistics.mean(self._ages):.3f}",
            "greatest_age": max(self._ages),
            "dropped": dropped,
            "played_here": here,
        }


def shares(spans: Sequence[Span]) -> dict[str, float]:
    """Return the shares of time in which the learner, an actor and both sides were at work."""
    seconds = dict.fromkeys(("learns", "plays", "both"), 0.0)
    whole = 0.0
    ordered = sorted(spans, key=lambda span: span.ended)
    for first in range(0, len(ordered), MAX_SPANS):
        activity = activity_of("", ordered[first : first + MAX_SPANS])  # it looks at no more
        if activity is None:
            continue
        whole += activity.seconds
        learns, plays = activity.learner_times, activity.actor_times
        for name, times in zip(seconds, (learns, plays, intersection(learns, plays)), strict=True):
            seconds[name] += activity.share(times) * activity.seconds
    return {name: value / whole for name, value in seconds.items()}


def _in_a_process(algorithm: str, name: str, seed: int, seconds: float) -> dict[str, object]:
    threads = str(CONTENDERS[name].threads)
    own = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}
    words = ("--seconds", str(seconds), "--one", algorithm, name, str(seed))
    command = [sys.executable, __file__, *words]
    done = subprocess.run(
        command, env=os.environ | own, stdout=subprocess.PIPE, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and write the page; with --one, only print what one contender comes to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for which each one trains")
    parser.add_argument("--repeats", type=int, default=3, help="seeds")
    parser.add_argument("--only", action="append", choices=list(CONTENDERS), help="contenders")
    parser.add_argument("--algorithm", action="append", choices=list(CONFIGS))
    parser.add_argument("--out", type=Path, default=rows.REPORTS)
    parser.add_argument("--one", nargs=3, metavar=("ALGORITHM", "CONTENDER", "SEED"))
    options = parser.parse_args()
    if options.one:
        algorithm, name, seed = options.one
        print(json.dumps(measured(algorithm, CONTENDERS[name], int(seed), options.seconds)))
        return
    names = options.only or list(CONTENDERS)
    for seed in range(1, options.repeats + 1):
        for algorithm in options.algorithm or CONFIGS:
            for name in names[:: 1 if seed % 2 else -1]:
                about = {"case": algorithm, "contender": name, "seconds": f"{options.seconds:g}"}
                context = rows.context("cpu", CONTENDERS[name].threads) | about | {"seed": seed}
                row = context | _in_a_process(algorithm, name, seed, options.seconds)
                rows.append(options.out / "actors.csv", [row])
                print(*(row[key] for key in row if key not in rows.CONTEXT), flush=True)
    page.write(options.out)


if __name__ == "__main__":
    main()
