"""What must hold on a GPU, for a node without pytest; tests/ says it in full.

python tests/benchmarks/gpu_checks.py
"""

import os
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import torch
from configurations import dqn_config, ppo_config
from torch import Tensor

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder
from hpsearch.game.kernels import default_backend
from hpsearch.game.players import agent_player, host_player
from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.graphs import SWITCH, WARM_UPS

NUM_GAMES, NUM_MOVES = 20_000, 50
"""a million positions"""
CONFIGS: dict[str, TrainerConfig] = {
    "dqn": dqn_config({"device": "cuda"}, {}),
    "ppo": ppo_config({"device": "cuda"}, {"rollout_size": 64}),
}


def main() -> None:
    """Run every check, and fail if one does."""
    failed = 0
    for name, check in CHECKS.items():
        try:
            check()
            print(f"passed: {name}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAILED: {name}: {type(error).__name__}: {error}", flush=True)
    raise SystemExit(1 if failed else 0)


def games_are_those_of_the_reference() -> None:
    """Play the same moves by the device's own kernel and by the reference on the CPU."""
    config = GameConfig(
        dimension=3,
        max_num_points=20,
        max_value=20,
        max_steps=40,
        reposition=True,
        reward="terminal",
    )
    keys = torch.tensor([derive_key(1, "check")])
    device = torch.device("cuda")
    game = FusedGame(config, keys, NUM_GAMES, device, default_backend(device), observes=True)
    oracle = FusedGame(config, keys, NUM_GAMES, "cpu", "cpu", observes=True)
    noise = Stream(keys, torch.zeros_like(keys))
    for _ in range(NUM_MOVES):
        host_noise, agent_noise = noise.uniform(2 * NUM_GAMES).chunk(2, dim=1)
        action = host_player("random")(oracle.points, host_noise)
        subset = HostActionEncoder(3).decode(action)
        axis = agent_player("random")(oracle.points, subset, agent_noise)
        equal(game.observation, oracle.observation)
        outcome, expected = game.step(action.to(device), axis.to(device)), oracle.step(action, axis)
        for ours, theirs in zip(outcome, expected, strict=True):
            equal(ours, theirs)
        equal(game.points, oracle.points)


def equal(actual: Tensor, expected: Tensor) -> None:
    """Check that two tensors are equal bit for bit."""
    if not torch.equal(actual.cpu(), expected.cpu()):
        raise AssertionError("tensors differ")


def no_step_waits(config: TrainerConfig) -> Callable[[], None]:
    """Return a check that training never waits for the device."""

    def check() -> None:
        trainer = build_trainer([config])
        trainer.train(12)  # whatever is compiled or looked up once
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            trainer.train(3)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return check


def a_member_learns_what_it_would_alone(config: TrainerConfig) -> Callable[[], None]:
    """Return a check of one step, after which rounding has not grown yet."""

    def check() -> None:
        configs = [replace(config, seed=seed) for seed in (1, 2, 3)]
        together = build_trainer(configs)
        together.train(1)
        for member, own in enumerate(configs):
            alone = build_trainer([own])
            alone.train(1)
            torch.testing.assert_close(
                together.host_net.weights[member], alone.host_net.weights[0], rtol=1e-3, atol=1e-5
            )

    return check


def replays_are_the_steps_themselves(config: TrainerConfig) -> Callable[[], None]:
    """Return a check of steps and games that are replayed, and the same ones launch by launch."""

    def weights_and_rho() -> tuple[Tensor, float]:
        trainer = build_trainer([config])
        trainer.train(WARM_UPS + 4)
        (rho,) = trainer.evaluate_rho(num_games=500, split="check")
        return trainer.host_net.weights, rho["rho/host/choose_first"].value

    def check() -> None:
        replayed = weights_and_rho()
        with patch.dict(os.environ, {SWITCH: "1"}):
            launched = weights_and_rho()
        for rho, expected in zip(replayed, launched, strict=True):
            torch.testing.assert_close(rho, expected, rtol=1e-3, atol=1e-5)

    return check


CHECKS = {"games are those of the reference": games_are_those_of_the_reference}
CHECKS |= {f"no step of {name} waits": no_step_waits(config) for name, config in CONFIGS.items()}
CHECKS |= {
    f"replays of {name} are the steps themselves": replays_are_the_steps_themselves(config)
    for name, config in CONFIGS.items()
}
CHECKS |= {
    f"a member of {name} learns what it would alone": a_member_learns_what_it_would_alone(config)
    for name, config in CONFIGS.items()
}

if __name__ == "__main__":
    main()
