"""Batches that tests draw as a DQN's step does."""

from hpsearch.trainers.dqn import DQNTrainer, QLearner
from hpsearch.trainers.moves import Batch


def drawn(trainer: DQNTrainer, learner: QLearner, batch_size: int, n_step: int = 1) -> Batch:
    (batch,) = learner.replay_buffer.sample(
        1, batch_size=batch_size, n_step=n_step, gamma=learner.gamma, step=trainer.step
    )
    return batch
