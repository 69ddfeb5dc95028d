"""Deep Q-learning with a target network, for P members at once.

Mnih et al., Nature 518 (2015); double: van Hasselt et al., arXiv 1509.06461.
Axes: P members, B transitions, A actions.
"""

import torch
from torch import Tensor

from hpsearch.trainers.learner import Learner
from hpsearch.trainers.policies import legal_values
from hpsearch.trainers.replay_buffer import Transitions
from hpsearch.trainers.trainer import Trainer


class DQNTrainer(Trainer):
    """Learns the value of each action from remembered transitions."""

    def _train(self) -> None:
        """Play, then learn from what is remembered."""
        for _ in range(self.config.rollout_length):
            self._roll_out()
        for learner in self.learners:
            self._update_target_net(learner)
            for _ in range(self.config.updates_per_step):
                self._update_net(learner)

    def _update_target_net(self, learner: Learner) -> None:
        """Move the target network by tau every ``steps_before_update_target`` steps."""
        due = self.step % learner.target_interval == 0
        learner.target_net.move_towards(learner.net, learner.tau * due)

    def _update_net(self, learner: Learner) -> None:
        """Make one gradient step on the Huber loss of the temporal-difference error."""
        batch = learner.replay_buffer.sample(learner.config.batch_size, learner.replay_stream)
        target = self._target(learner, batch)
        features = self._features(learner, batch.points, batch.subset)
        values = learner.net(features, training=True)
        value = values.gather(2, batch.action[..., None]).squeeze(2)
        loss = huber(value - target, learner.huber_delta[:, None])
        # The mean over transitions, the sum over members: no member's gradient sees another.
        gradients = learner.net.gradients(loss.mean(dim=1).sum())
        learner.optimizer.step(
            learner.net.weights,
            gradients,
            lr=learner.lr_scheduler(self.step),
            active=self.step >= self.config.learning_starts,
        )

    @torch.no_grad()
    def _target(self, learner: Learner, batch: Transitions) -> Tensor:
        """Return r + gamma * (1 - done) * Q_target(s', a*), float32 (P, B).

        a* is the best legal action by the online network (double) or by the target network.
        """
        features = self._features(learner, batch.next_points, batch.next_subset)
        target_values = learner.target_net(features)
        chooser = learner.net(features) if self.config.dqn.double else target_values
        best = self._legal(learner, chooser, batch.next_subset).argmax(dim=2, keepdim=True)
        bootstrap = target_values.gather(2, best).squeeze(2)
        return batch.reward + learner.gamma[:, None] * (~batch.done) * bootstrap

    def _features(self, learner: Learner, points: Tensor, subset: Tensor) -> Tensor:
        """Return what the role sees, float32 (P, B, I)."""
        observation = self.kernel.observe(points)
        if learner is self.host:
            return observation
        return torch.cat([observation, self._encoder.decode(subset).float()], dim=-1)

    def _legal(self, learner: Learner, values: Tensor, subset: Tensor) -> Tensor:
        """Return the values with illegal actions at the bottom; every subset is legal."""
        if learner is self.host:
            return values
        return legal_values(values, self._encoder.decode(subset))


def huber(error: Tensor, delta: Tensor) -> Tensor:
    """Return error^2 / 2 up to ``delta`` and delta * (|error| - delta / 2) beyond."""
    size = error.abs()
    return torch.where(size <= delta, 0.5 * error.square(), delta * (size - 0.5 * delta))
