"""Actors without processes, and so quick that each has always played as far as it may."""

import torch

from hpsearch.trainers.acting import Rollout, RolloutPlayer, Setup
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config.rollouts import ActorRollouts

FIXED = ActorRollouts(
    mode="actors",
    actors=2,
    device="cpu",
    sync_style="fixed",
    sync_interval=1,
    sync_method="memory",
    max_staleness=0,
    sample_strategy="fifo",
    actor_timeout=60.0,
)


class FakeActor:
    def __init__(self) -> None:
        self.is_lost, self.is_new = False, True
        self.replaced = 0
        self.setups: list[Setup] = []
        self.versions: list[int] = []  # that it was sent
        self.has_weights = True
        self._played: list[Rollout] = []

    def set_up(self, setup: Setup, num_places: int) -> None:
        self.is_new = False
        self.setups.append(setup)
        self._player = RolloutPlayer(build_trainer(setup.configs, setup.part))
        self._player.set_up(setup)
        self._left, self._each, self._num_free = setup.first, setup.each, num_places
        self._played = []
        self._play_on()

    def send(self, version: int, weights) -> None:
        assert self.has_weights, "the memory of the weights is still being read"
        self.versions.append(version)
        self._player.take(version, weights)
        self._left = self._each
        self._play_on()

    def receive(self, seconds: float) -> Rollout | None:
        return self._played.pop(0) if self._played else None

    def _play_on(self) -> None:
        while min(self._left, self._num_free) > 0:
            self._left -= 1
            self._num_free -= 1
            rollout = self._player.play()
            tensors = {name: tensor.clone() for name, tensor in rollout.tensors.items()}
            self._played.append(Rollout(rollout.version, rollout.number, tensors))

    def release(self, rollout: Rollout) -> None:
        assert all(not tensor.isnan().any() for tensor in rollout.tensors.values())
        for tensor in rollout.tensors.values():  # what is still read would be seen to be
            tensor.fill_(torch.nan if tensor.is_floating_point() else -1)
        self._num_free += 1
        self._play_on()

    def replace(self) -> None:
        self.is_lost = True
        self.replaced += 1


class FakeActors:
    def __init__(self, count: int) -> None:
        self.actors = [FakeActor() for _ in range(count)]

    def play_here(self, setup: Setup) -> Rollout:
        player = RolloutPlayer(build_trainer(setup.configs, setup.part))
        player.set_up(setup)
        return player.play()


def trained(configs, actors, steps: int = 12):
    trainer = build_trainer(configs, actors=actors)
    trainer.train(steps)
    return trainer
