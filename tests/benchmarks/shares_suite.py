"""Where the time of a training step goes: into networks, optimizer, memory, game or observation.

Calls are timed from outside, and what one part takes within another counts for the inner one
alone. On a GPU every call waits for the device and none is part of a graph, so shares are right and
sums are slower than training; the parts' own speed is in the other tables.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import torch
from configurations import dqn_config, ppo_config
from setting import Setting
from training_suites import dqn_step, ppo_step, sizes_of

from hpsearch.game import FusedGame
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.stream import Stream
from hpsearch.trainers import layers_cpu, learner, ppo
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.graphs import SWITCH
from hpsearch.trainers.networks import Network
from hpsearch.trainers.optim import Adam
from hpsearch.trainers.replay_buffer import ReplayBuffer

REST = "the rest"
"""losses, choices of actions, schedules, and Python between them"""


def shares(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure steps of the shipped configurations and of a population."""
    device = {"device": setting.device.type}
    shapes: dict[str, tuple[TrainerConfig, int]] = {
        "dqn, shipped": (dqn_config(device, {}), 1),
        "ppo, shipped": (ppo_config(device, {}), 1),
        "dqn, 256 wide": (dqn_step(setting, 256), 1),
        "ppo, 256 wide": (ppo_step(setting, 256), 1),
        "dqn, 256 wide, eight": (dqn_step(setting, 256), 8),
        "ppo, 256 wide, eight": (ppo_step(setting, 256), 8),
        "dqn, 32 wide": (dqn_step(setting, 32), 32),
        "ppo, 32 wide": (ppo_step(setting, 32), 32),
    }
    for name in setting.pick(full=tuple(shapes), quick=("dqn, 32 wide", "ppo, 32 wide")):
        config, members = shapes[name]
        steps = setting.pick(full=200 if config.algorithm == "dqn" else 10, quick=1)
        # Large populations take longer for a step.
        steps = max(1, steps // min(members, 5))
        yield from _rows(setting, name, config, setting.pick(full=members, quick=2), steps)


def _rows(
    setting: Setting, name: str, config: TrainerConfig, members: int, steps: int
) -> Iterator[dict[str, object]]:
    context = setting.context()
    clock = PartClock(setting.device)
    with clock.installed():
        trainer = build_trainer([config] * members)
        trainer.train(10 if config.algorithm == "dqn" else 1)
        clock.seconds.clear()
        clock.timed(trainer.train, REST)(steps)
    total = sum(clock.seconds.values())
    for part, seconds in sorted(clock.seconds.items(), key=lambda item: -item[1]):
        yield context | {
            "case": name,
            "sizes": sizes_of(config),
            "work": config.work(),
            "members": members,
            "part": part,
            "share": f"{seconds / total:.3f}",
            "seconds_a_step": f"{seconds / steps:.4g}",
        }


class PartClock:
    """Adds up what parts take, each without the parts within it.

    Attributes:
        seconds: by part.
    """

    def __init__(self, device: torch.device) -> None:
        """Begin with nothing."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._device = device
        self._open: list[str] = []
        self._since = 0.0

    def _settle(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def installed(self) -> ExitStack:
        """Return a context in which the parts of a trainer are timed."""
        kernel = BACKENDS[default_backend(self._device)]
        parts: list[tuple[object, str, str]] = [
            (Network, "_apply", "networks, forward"),
            (Network, "update_pass", "networks, forward"),
            (Network, "differentiable_pass", "networks, forward"),
            (Network, "gradients", "networks, backward"),
            (layers_cpu, "gradients", "networks, backward"),
            (Adam, "step", "optimizer"),
            (learner, "clipping", "optimizer"),
            (ReplayBuffer, "add", "memory"),
            (ReplayBuffer, "_batches", "memory"),
            (ppo, "_moves_at", "memory"),
            (ppo.PPOTrainer, "_advantages", "advantages"),
            (FusedGame, "step", "game"),
            (Stream, "uniform", "random numbers"),
            (kernel, "observe", "observation"),
        ]
        stack = ExitStack()
        # A graph makes no calls that could be timed.
        stack.enter_context(patch.dict(os.environ, {SWITCH: "1"}))
        for owner, name, part in parts:
            timed = self.timed(getattr(owner, name), part)
            stack.enter_context(patch.object(owner, name, timed))
        return stack

    def timed(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Return a function whose time counts for ``part``, and then again for what called it."""

        def call(*given: Any, **named: Any) -> Any:
            self._settle()
            self._open.append(part)
            try:
                return function(*given, **named)
            finally:
                self._settle()
                self._open.pop()

        return call
