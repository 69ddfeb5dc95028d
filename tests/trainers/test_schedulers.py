"""Schedules against their closed formulas, and where they move: inside of `train`."""

import math
from dataclasses import replace

import pytest
import torch

from hpsearch.trainers.algorithms import TRAINERS, build_trainer
from hpsearch.trainers.config.optim import (
    ConstantSchedule,
    ExponentialSchedule,
    InverseSchedule,
    TimedSchedule,
)
from hpsearch.trainers.learner import Scheduler
from hpsearch.trainers.policies import LearnedPolicy

CPU = torch.device("cpu")
STEPS = (0, 1, 7, 50, 99, 100, 101, 100_000)


def linear(t, initial, final, steps):
    return initial + (final - initial) * min(t / steps, 1)


def cosine(t, initial, final, steps):
    return final + (initial - final) * (1 + math.cos(math.pi * min(t / steps, 1))) / 2


# Two members of each mode: schedule, final value, value at step t.
CASES = {
    "constant": [
        (ConstantSchedule("constant"), 0.3, lambda t: 0.3),
        (ConstantSchedule("constant"), 1e-5, lambda t: 1e-5),
    ],
    "exponential": [
        (
            ExponentialSchedule("exponential", 1.0, 0.99),
            0.2,
            lambda t: 1.0 * 0.99**t + 0.2 * (1 - 0.99**t),
        ),
        (
            ExponentialSchedule("exponential", 1e-2, 0.5),
            1e-4,
            lambda t: 1e-2 * 0.5**t + 1e-4 * (1 - 0.5**t),
        ),
    ],
    "inverse": [
        (InverseSchedule("inverse", 0.5, 10.0), 9.0, lambda t: 10.0 / (t + 20.0)),
        (InverseSchedule("inverse", 1e-3, 0.1), 9.0, lambda t: 0.1 / (t + 100.0)),
    ],
    "linear": [
        (TimedSchedule("linear", 1.0, 100), 0.05, lambda t: linear(t, 1.0, 0.05, 100)),
        (TimedSchedule("linear", 1e-4, 7), 1e-2, lambda t: linear(t, 1e-4, 1e-2, 7)),
    ],
    "cosine": [
        (TimedSchedule("cosine", 1.0, 100), 0.05, lambda t: cosine(t, 1.0, 0.05, 100)),
        (TimedSchedule("cosine", 1e-2, 50), 1e-5, lambda t: cosine(t, 1e-2, 1e-5, 50)),
    ],
}


@pytest.mark.parametrize("members", CASES.values(), ids=CASES)
def test_closed_formula(members):
    schedules, finals, formulas = zip(*members, strict=True)
    scheduler = Scheduler(schedules, finals, CPU)
    for first in STEPS:
        for second in STEPS:  # members need not be at the same step
            value = scheduler(torch.tensor([first, second]))
            assert value.dtype == torch.float32
            expected = [formulas[0](first), formulas[1](second)]
            assert value.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("members", CASES.values(), ids=CASES)
def test_a_schedule_begins_at_its_initial_and_tends_to_its_final_value(members):
    schedules, finals, _ = zip(*members, strict=True)
    scheduler = Scheduler(schedules, finals, CPU)
    first, last = (scheduler(torch.tensor([step, step])).tolist() for step in (0, 10**12))
    ends = [0.0] * 2 if schedules[0].mode == "inverse" else finals
    initials = [getattr(schedule, "initial", final) for schedule, final, _ in members]
    assert first == pytest.approx(initials, rel=1e-6)
    assert last == pytest.approx(ends, rel=1e-6, abs=1e-9)


# By mode: the schedule of member p from `initial`, and its value at step t.
MOVING = {
    "linear": (
        lambda p, initial: {"mode": "linear", "initial": initial, "steps": 4 + p},
        lambda p, t, initial, final: linear(t, initial, final, 4 + p),
    ),
    "cosine": (
        lambda p, initial: {"mode": "cosine", "initial": initial, "steps": 4 + p},
        lambda p, t, initial, final: cosine(t, initial, final, 4 + p),
    ),
    "exponential": (
        lambda p, initial: {"mode": "exponential", "initial": initial, "rate": 0.5 + 0.1 * p},
        lambda p, t, initial, final: final + (initial - final) * (0.5 + 0.1 * p) ** t,
    ),
    "inverse": (
        lambda p, initial: {"mode": "inverse", "initial": initial, "rate": 0.5 + p},
        lambda p, t, initial, final: (0.5 + p) / (t + (0.5 + p) / initial),
    ),
}
NUM_STEPS, FINAL_LR, FIRST_LR, FINAL_ER, FIRST_ER = 6, 1e-3, 1e-2, 0.1, 0.8


@pytest.fixture
def train_once(tiny_config):
    """Return a function (algorithm, mode) -> a trainer of both roles and what it was watched at.

    All steps are made by one call. Learning rates are watched where weights move, exploration
    rates where players choose.
    """

    def train(algorithm, mode):
        schedule, _ = MOVING[mode]
        configs = []
        for p in range(2):
            changes = {"agent": "learn", "seed": p}
            for role in ("host", "agent"):
                changes[f"{role}.optim.args.lr"] = FINAL_LR
                changes[f"{role}.optim.lr_schedule"] = schedule(p, FIRST_LR)
                if algorithm == "dqn":
                    changes[f"{role}.er"] = FINAL_ER
                    changes[f"{role}.er_schedule"] = schedule(p, FIRST_ER)
            configs.append(tiny_config(changes, algorithm))
        trainer = build_trainer(configs)
        lrs = {learner.name: watch_lr(learner) for learner in trainer.learners}
        ers = watch_exploration(trainer)
        trainer.train(NUM_STEPS)
        return trainer, lrs, ers

    return train


def watch_lr(learner) -> list[list[float]]:
    seen, step = [], learner.optimizer.step

    def watched(weights, update, follower):
        seen.append(update.lr.tolist())
        step(weights, update, follower)

    learner.optimizer.step = watched
    return seen


def watch_exploration(trainer) -> dict[str, list[list[float]]]:
    """Watch the learning role at its own table."""
    seen, tables = {}, []
    for table in trainer.roles.groups:
        name = table.learner.name
        seen[name] = []
        policy = watched_policy(getattr(table, name), seen[name])
        tables.append(replace(table, **{name: policy}))
    trainer.roles.groups = tuple(tables)
    return seen


def watched_policy(policy, seen):
    class WatchedPolicy(LearnedPolicy):
        def _choose(self, turn, values, legal):
            seen.append(turn.exploration.expand(turn.noise.shape[:2])[:, 0].tolist())
            return super()._choose(turn, values, legal)

    return WatchedPolicy(policy.net, policy.plays_by)


@pytest.mark.parametrize("mode", MOVING)
@pytest.mark.parametrize("algorithm", TRAINERS)
def test_learning_rates_move_inside_one_call_of_train(train_once, algorithm, mode):
    """Every member's and both roles' (seeds.md B4, B5)."""
    trainer, lrs, _ = train_once(algorithm, mode)
    value = MOVING[mode][1]
    for learner in trainer.learners:
        seen = lrs[learner.name]
        updates, rest = divmod(len(seen), NUM_STEPS)
        assert updates > 0
        assert rest == 0
        for update, rates in enumerate(seen):
            t = update // updates
            expected = [value(p, t, FIRST_LR, FINAL_LR) for p in range(2)]
            assert rates == pytest.approx(expected, rel=1e-5)
        assert learner.statistics["lr"].tolist() == seen[-1]


@pytest.mark.parametrize("mode", MOVING)
def test_exploration_moves_inside_one_call_of_train(train_once, mode):
    trainer, _, ers = train_once("dqn", mode)
    value = MOVING[mode][1]
    moves = trainer.config.rollout_length
    for learner in trainer.learners:
        seen = ers[learner.name]
        assert len(seen) == NUM_STEPS * moves
        for move, rates in enumerate(seen):
            expected = [value(p, move // moves, FIRST_ER, FINAL_ER) for p in range(2)]
            assert rates == pytest.approx(expected, rel=1e-5)
        last = [value(p, NUM_STEPS - 1, FIRST_ER, FINAL_ER) for p in range(2)]
        assert learner.statistics["er"].tolist() == pytest.approx(last, rel=1e-5)


def test_policy_optimisation_always_draws(train_once):
    _, _, ers = train_once("ppo", "linear")
    assert all(rates == [1.0, 1.0] for seen in ers.values() for rates in seen)
    assert all(len(seen) > 0 for seen in ers.values())
