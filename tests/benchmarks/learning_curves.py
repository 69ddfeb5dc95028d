"""Learning curves at fixed seeds, to compare a commit with another: faster must not mean otherwise.

    python tests/benchmarks/learning_curves.py

Trains the quickstart's DQN host and a PPO host against choose_first, 16 seeds each as one
population, and appends the means of their rho to reports/benchmarks/learning_curves.csv, with 95 %
intervals over the seeds. The page shows the curves of all commits.
"""

import argparse
import os
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hpsearch.cluster.threads import SPIN_SHORTLY

os.environ |= SPIN_SHORTLY  # as the command line does

import page
import rows
import torch
from configurations import dqn_config, ppo_config

from hpsearch.cluster.machine import num_cores
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import TrainerConfig

NUM_SEEDS = 16
STUDENT = 2.131
"""quantile .975 of Student's t with NUM_SEEDS - 1 degrees of freedom"""
NUM_GAMES = 1000
AGENT = "rho/host/choose_first"
ADAM = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-7}
PPO_HOST = {
    "net_arch": [64, 64],
    "value_net_arch": [64, 64],
    "rollout_size": 64,
    "optim": {"name": "adam", "args": ADAM, "lr_schedule": {"mode": "constant"}},
}
EVALUATION = {
    "interval": 1,
    "num_games": 1,
    "final_num_games": 1,
    "max_steps": 100,
    "er": 0.0,
    "opponents": ["choose_first"],
}
PPO_CHANGES = {
    "evaluation": EVALUATION,
    "rollout_length": 16,
    "ppo": {**vars(ppo_config({}, {}).ppo), "minibatch_size": 256},
}
CASES: dict[str, tuple[TrainerConfig, int, int]] = {
    "dqn": (dqn_config({"evaluation": EVALUATION}, {}), 2400, 200),
    "ppo": (ppo_config(PPO_CHANGES, PPO_HOST), 300, 25),
}
"""by name: a configuration, steps, and how many between two measurements"""


def curve(name: str, device: str) -> Iterator[dict[str, object]]:
    """Train, and yield a row for every measurement."""
    config, steps, interval = CASES[name]
    trainer = build_trainer(
        [replace(config, seed=seed, device=device) for seed in range(NUM_SEEDS)]
    )
    context = rows.context(device, torch.get_num_threads())
    for step in range(0, steps + 1, interval):
        if step:
            trainer.train(interval)
        by_opponent = trainer.evaluate_rho(num_games=NUM_GAMES, split="curve")
        rho = [metrics[AGENT].value for metrics in by_opponent]
        error = statistics.stdev(rho) / NUM_SEEDS**0.5
        yield context | {
            "curve": name,
            "step": step,
            "seeds": NUM_SEEDS,
            "rho": f"{statistics.mean(rho):.5f}",
            "low": f"{statistics.mean(rho) - STUDENT * error:.5f}",
            "high": f"{statistics.mean(rho) + STUDENT * error:.5f}",
        }


def main() -> None:
    """Append the rows of every case and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=rows.REPORTS, help="folder of the table")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(num_cores())
    for name in CASES:
        for row in curve(name, arguments.device):
            rows.append(arguments.out / "learning_curves.csv", [row])
            print(name, row["step"], row["rho"], flush=True)
    page.write(arguments.out)


if __name__ == "__main__":
    main()
