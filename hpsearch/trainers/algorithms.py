"""The training algorithms by name."""

from collections.abc import Sequence

from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.dqn import DQNTrainer
from hpsearch.trainers.trainer import Trainer

TRAINERS: dict[str, type[Trainer]] = {"dqn": DQNTrainer}


def build(configs: Sequence[TrainerConfig]) -> Trainer:
    """Return a fresh trainer of one member for each of ``configs``, all of one shape."""
    return TRAINERS[configs[0].algorithm](configs)
