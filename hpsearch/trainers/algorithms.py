"""The training algorithms by name."""

from collections.abc import Sequence

from hpsearch.errors import UsageError, shown
from hpsearch.trainers.actors import Actors
from hpsearch.trainers.config import AlgorithmExtension, CommonConfig
from hpsearch.trainers.dqn import DQNTrainer
from hpsearch.trainers.ppo import PPOTrainer
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.trainer import AnyTrainer

TRAINERS: dict[str, type[AnyTrainer]] = {"dqn": DQNTrainer, "ppo": PPOTrainer}


def build_trainer(
    configs: Sequence[CommonConfig], ranks: Ranks = ALONE, actors: Actors | None = None
) -> AnyTrainer:
    """Return a fresh trainer of one member for each of ``configs``, all of one shape.

    Raises UsageError if that is no list of configurations, or empty.
    """
    is_list = isinstance(configs, Sequence) and len(configs) > 0
    if not (is_list and all(isinstance(own, CommonConfig) for own in configs)):
        raise UsageError(
            "a trainer needs a list of configurations, one for each member, as read_config returns "
            f"them, but got {shown(configs)}"
        )
    return _trainer(configs[0])(configs, ranks=ranks, actors=actors)


def _trainer(config: CommonConfig) -> type[AnyTrainer]:
    if isinstance(config, AlgorithmExtension):
        return config.trainer()
    return TRAINERS[config.algorithm]
