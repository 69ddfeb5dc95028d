"""The shipped configurations learn what they promise, on starts that training never uses."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

import pytest

from hpsearch import yaml_file
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.evaluation import Metrics

TRAINERS = Path(__file__).parent.parent / "studies/trainers"


def train(name: str, steps: int, seeds: Sequence[int]) -> list[Metrics]:
    """Train a shipped configuration with each seed; return and print the measures of all."""
    plain = {**yaml_file.load(TRAINERS / name), "steps": steps}
    plain["evaluation"] = {**plain["evaluation"], "opponents": ["choose_first"]}
    trainer = build_trainer([read_config({**plain, "seed": seed}, source=name) for seed in seeds])
    began = time.perf_counter()
    trainer.train(steps)
    seconds = time.perf_counter() - began
    measured = trainer.evaluate_rho(num_games=4000, split="test of learning")
    print(f"{name}: {steps} steps in {seconds:.0f} s, {measured}")
    return measured


@pytest.mark.slow
def test_ppo_at_20x3():
    """In a fifth of its steps; zeillinger reaches .079, the best response about .2.

    PPO trains what is drawn: .1687 in the mean of 54 runs with a deviation of .0013, so the mean of
    three is expected 3.6 of its own deviations above the bound. What is greedy beside it was below
    .13 in 4 of these runs, down to .10, and of one seed differs with rounding: the median counts.
    Of all triples of these seeds one in a hundred fails.
    """
    members = train("ppo_20x3.yaml", 80, seeds=(11, 12, 13))
    assert fmean(rho["rho_sampled/host/choose_first"].value for rho in members) > 0.166
    assert median(rho["rho/host/choose_first"].value for rho in members) > 0.13


@pytest.mark.slow
def test_dqn_at_20x3():
    """In a sixth of its steps."""
    (rho,) = train("dqn_20x3.yaml", 2000, seeds=(11,))
    assert rho["rho/host/choose_first"].low > 0.145
