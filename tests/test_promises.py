"""What breaks a promise of hpsearch.testing is told, each by its own sentence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import optuna
import pytest
import torch

from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.population.operators.options import MutationExtension
from hpsearch.population.operators.weights import clone
from hpsearch.study.options import PrunerExtension, SamplerExtension
from hpsearch.testing.algorithms import training_changes_what_every_role_plays_by
from hpsearch.testing.game_parts import check_agent, check_encoder, check_host, check_reward
from hpsearch.testing.operators import check_mutation
from hpsearch.testing.studies import check_pruner, check_sampler
from hpsearch.trainers.config.players import EncoderExtension
from hpsearch.trainers.dqn import DQNTrainer


@dataclass(frozen=True)
class Encoder(EncoderExtension):
    name: Literal["tried"]
    made: Callable[[Any], Any]

    def num_features(self, num_points: int, dimension: int) -> int:
        return num_points * dimension

    def features(self, points: Any) -> Any:
        return self.made(points)


@dataclass(frozen=True)
class Mutation(MutationExtension):
    name: Literal["tried"]
    made: Callable[[Any], Any]

    def child(self, parent: Any, stream: Any) -> Any:
        return self.made(parent)


class PruneAll(optuna.pruners.BasePruner):
    def prune(self, study: Any, trial: Any) -> bool:
        return True


@dataclass(frozen=True)
class Impatient(PrunerExtension):
    name: Literal["tried"]

    def build(self) -> PruneAll:
        return PruneAll()


@dataclass(frozen=True)
class Unseeded(SamplerExtension):
    name: Literal["tried"]

    def build(self, seed: int) -> optuna.samplers.BaseSampler:
        return optuna.samplers.RandomSampler()


def branching(points: Any) -> Any:
    return points.flatten(2) * (2.0 if (points < 0).any() else 1.0)


def shaken(parent: Any) -> Any:
    child = clone(parent)
    child.weights += torch.randn(child.weights.shape)
    return child


def shared(points: Any, next_points: Any, done: Any) -> Any:
    return done.float() - done.float().mean()


def beside(points: Any, subset: Any, noise: Any) -> Any:
    return AGENTS["choose_first"](points, ~subset, noise)


BROKEN: dict[str, Callable[[], None]] = {
    "rewards are float32": lambda: check_reward(lambda points, next_points, done: done.long()),
    "depends on no other game": lambda: check_reward(shared),
    "a host has an action a game": lambda: check_host(
        lambda points, noise: HOSTS["zeillinger"](points, noise)[:1]
    ),
    "games may stand in rows": lambda: check_host(
        lambda points, noise: (
            HOSTS["zeillinger"](points, noise).flatten()
            if points.ndim == 3
            else torch.zeros(noise.shape, dtype=torch.int64)
        )
    ),
    "an axis in it": lambda: check_agent(beside),
    "an encoder changes no points": lambda: check_encoder(
        Encoder("tried", lambda points: points.clamp_(min=0).flatten(2))
    ),
    "torch cannot export": lambda: check_encoder(Encoder("tried", branching)),
    "features are": lambda: check_encoder(Encoder("tried", lambda points: points[..., 0])),
    "has its own memory": lambda: check_mutation(Mutation("tried", lambda net: net)),
    "the same seed gives the same": lambda: check_mutation(Mutation("tried", shaken)),
    "pruned by nothing": lambda: check_pruner(Impatient("tried")),
    "nothing but the seed": lambda: check_sampler(Unseeded("tried")),
}
"""by what is said of it"""


@pytest.mark.parametrize("sentence", BROKEN)
def test_a_broken_part_is_told(sentence: str) -> None:
    # The rules of the game refuse an illegal move by a ValueError.
    with pytest.raises((AssertionError, ValueError), match=sentence):
        BROKEN[sentence]()


def test_a_trainer_that_learns_nothing_is_told(
    tiny_config: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(DQNTrainer, "_learn", lambda trainer: None)
    configs = [tiny_config({"seed": seed}) for seed in (1, 2)]
    with pytest.raises(AssertionError, match="learns nothing"):
        training_changes_what_every_role_plays_by(configs, tmp_path)
