"""REINFORCE (Williams, Machine Learning 8, 1992), for P members at once.

Axes: P members, T moves of a step, B games, M = T * B, A actions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.trainers.actors import Actors
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.members import column
from hpsearch.trainers.policies import legal_values
from hpsearch.trainers.ppo import normalized
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.rollouts import GameGroup, SavedPlayers, Transitions, stack
from hpsearch.trainers.trainer import Trainer
from hpsearch_example.config import ReinforceConfig


class PolicyLearner(Learner):
    """A learner that draws every action by its policy."""

    def exploration(self, step: Tensor) -> Tensor:
        return torch.ones_like(self.gamma)[:, None]


class ReinforceTrainer(Trainer[ReinforceConfig, PolicyLearner]):
    """Makes actions likelier after which more was earned than on average."""

    looks_ahead = False

    def __init__(
        self,
        configs: Sequence[ReinforceConfig],
        saved: SavedPlayers | None = None,
        ranks: Ranks = ALONE,
        actors: Actors | None = None,
    ) -> None:
        super().__init__(configs, saved, ranks, actors)
        self._ent_coef = column([config.ent_coef for config in configs], self.device)
        self._played: tuple[Transitions, ...] = ()

    def _learner(self, role: str) -> PolicyLearner:
        return PolicyLearner(role, self.configs, self.device, self.ranks)

    def settings(self) -> dict[str, Tensor]:
        return {**super().settings(), "ent_coef": self._ent_coef}

    def _play(self) -> None:
        length = self.config.rollout_length
        moves = list(self.rollouts.play(length, looks_ahead=self.looks_ahead))
        self._played = tuple(stack(seen) for seen in zip(*moves, strict=True))

    def _learn(self) -> None:
        for group, rollout in zip(self.roles.groups, self._played, strict=True):
            self._learn_from(group, rollout)

    def _learn_from(self, group: GameGroup[PolicyLearner], rollout: Transitions) -> None:
        learner, subset = group.learner, rollout.subset.flatten(1)
        advantage = normalized(returns(rollout, learner.gamma).flatten(1), self.ranks)
        features = learner.features(rollout.observation.flatten(1, 2), subset)
        legal = learner.legal(subset)
        values = learner.net.update_pass(features, training=True)
        log_probs = legal_values(values, legal).log_softmax(dim=2)
        chosen = log_probs.gather(2, rollout.action.flatten(1)[..., None]).squeeze(2)
        entropy = -(torch.where(legal, log_probs, 0.0) * log_probs.exp()).sum(dim=2).mean(dim=1)
        loss = -(chosen * advantage).mean(dim=1) - self._ent_coef * entropy
        told = {"loss": loss, "policy_entropy": entropy}
        learner.statistics |= learner.differentiate(loss, told)
        learner.descend(learner.lr_scheduler(self.step), torch.ones_like(learner.trainable), None)


def returns(rollout: Transitions, gamma: Tensor) -> Tensor:
    """Return what was earned from each move to the end of its game or of the rollout, (P, T, B)."""
    going = (~(rollout.done | rollout.truncated)).float()
    later = torch.zeros_like(rollout.reward[:, 0])
    earned = []
    for move in reversed(range(rollout.reward.shape[1])):
        later = rollout.reward[:, move] + gamma[:, None] * going[:, move] * later
        earned.append(later)
    return torch.stack(earned[::-1], dim=1)
