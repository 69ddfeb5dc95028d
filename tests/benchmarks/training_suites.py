"""Updates of one learner beside a plain eager loop, and of populations beside one after another.

All contenders of a case have the same networks, batch, number of updates and games, and the same
game kernel; only how it is computed differs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from configurations import Plain, dqn_config, ppo_config
from measuring import Case, Contender
from plain_dqn import PlainDQN
from plain_ppo import PlainPPO
from setting import Setting

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import DQNConfig, DQNRole, PPOConfig, PPORole, TrainerConfig

PLAIN, OURS, COMPILED = "plain eager", "hpsearch", "hpsearch, compiled"
PLAIN_IN_TURN, IN_TURN, TOGETHER = "plain eager, one by one", "one by one", "together"
WIDTHS = (32, 128, 256)
SIZES = (1, 8, 32, 128)
EPOCHS, MINIBATCHES = 3, 4
DQN_STEPS = 4
"""made with a trainer before it is the next one's turn: in one, caches would not get warm"""


class Trains(Protocol):
    """Whatever makes training steps."""

    def train(self, steps: int) -> None:
        """Make some steps."""


def dqn(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure updates of a DQN host."""
    for width in setting.pick(full=WIDTHS, quick=(8,)):
        yield from setting.time([_alone(dqn_updates(setting, [width, width]), setting)])


def ppo(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure updates of a PPO host."""
    for width in setting.pick(full=WIDTHS, quick=(8,)):
        yield from setting.time([_alone(ppo_step(setting, width), setting)])


def population(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure populations of learners with narrow networks."""
    width = setting.pick(full=32, quick=8)
    for size in setting.pick(full=SIZES, quick=(1, 2)):
        for config in (dqn_step(setting, width), ppo_step(setting, width)):
            yield from setting.time([_many(config, size, setting)])


def _alone(config: TrainerConfig, setting: Setting) -> Case:
    return Case(
        name=f"{config.algorithm} update",
        sizes=sizes_of(config),
        unit="update",
        contenders={
            PLAIN: Contender(in_turn([plain_trainer(config)], config)),
            OURS: Contender(in_turn([build_trainer([config])], config)),
            **_compiled(config),
        },
        baselines=(PLAIN,),
        goal="" if setting.device.type == "cpu" else f"15 times {PLAIN}",
    )


def _compiled(config: TrainerConfig) -> dict[str, Contender]:
    """Return ours as torch compiles it, on a GPU: on a CPU little is gained, and g++ needed."""
    if config.device == "cpu":
        return {}
    return {
        COMPILED: Contender(in_turn([build_trainer([replace(config, compile="default")])], config))
    }


def _many(config: TrainerConfig, size: int, setting: Setting) -> Case:
    # Seeds are per-member, so the members are of one shape.
    configs = [replace(config, seed=seed) for seed in range(size)]
    goal = {"cpu": 5, "cuda": 20}[setting.device.type]
    return Case(
        name=f"{config.algorithm} population of {size}",
        sizes=sizes_of(config),
        unit="member-update",
        contenders={
            PLAIN_IN_TURN: Contender(
                in_turn([plain_trainer(config) for config in configs], config)
            ),
            IN_TURN: Contender(in_turn([build_trainer([config]) for config in configs], config)),
            TOGETHER: Contender(in_turn([build_trainer(configs)], config, size)),
        },
        baselines=(IN_TURN, PLAIN_IN_TURN),
        goal=f"{goal} times {IN_TURN}" if size == 32 else "",
    )


def in_turn(trainers: Sequence[Trains], config: TrainerConfig, size: int = 1) -> Callable[[], int]:
    """Return a function that makes steps with each trainer and counts the members' updates."""
    if isinstance(config, DQNConfig):
        steps, per_step = DQN_STEPS, config.updates_per_step
        for trainer in trainers:
            trainer.train(config.learning_starts + 1)
    else:
        steps, per_step = 1, EPOCHS * MINIBATCHES

    def run() -> int:
        for trainer in trainers:
            trainer.train(steps)
        return len(trainers) * size * steps * per_step

    return run


def plain_trainer(config: TrainerConfig) -> PlainDQN | PlainPPO:
    """Return the plain loop of one member."""
    return PlainDQN(config) if isinstance(config, DQNConfig) else PlainPPO(config)


def dqn_updates(setting: Setting, net_arch: Sequence[int | str]) -> DQNConfig:
    """Return a learner that makes many updates for each move, so that they are what is timed."""
    updates = setting.pick(full=32, quick=2)
    changes = {"updates_per_step": updates, "learning_starts": 8}
    host = _dqn_host(setting, net_arch) | {"rollout_size": 64}
    return dqn_config(_changes(setting) | changes, host)


def dqn_step(setting: Setting, width: int) -> DQNConfig:
    """Return a learner as in the quickstart: 256 games, two updates a move."""
    return dqn_config(_changes(setting), _dqn_host(setting, [width, width]))


def _dqn_host(setting: Setting, net_arch: Sequence[int | str]) -> Plain:
    size = setting.pick(full=256, quick=16)
    return {"net_arch": list(net_arch), "batch_size": size, "rollout_size": size}


def _changes(setting: Setting) -> Plain:
    # The ring is smaller than the quickstart's: 128 members twice have to fit into memory.
    ring = {"buffer_size": setting.pick(full=10_000, quick=100), "save": True, "prioritised": None}
    return {"device": setting.device.type, "replay_buffer": ring}


def ppo_step(setting: Setting, width: int) -> PPOConfig:
    """Return a learner with 12 updates of 256 moves a step."""
    games, moves = setting.pick(full=(32, 32), quick=(8, 4))
    shape = {"net_arch": [width, width], "value_net_arch": [width, width], "rollout_size": games}
    options = ppo_config({}, {}).ppo
    given = {
        **vars(options),
        "train_epochs": EPOCHS,
        "minibatch_size": games * moves // MINIBATCHES,
    }
    return ppo_config({"device": setting.device.type, "rollout_length": moves, "ppo": given}, shape)


def sizes_of(config: TrainerConfig) -> str:
    """Return what decides how much work an update is."""
    host = config.host
    if isinstance(config, PPOConfig):
        assert isinstance(host, PPORole)
        return (
            f"host {_widths(host.net_arch, 4)}, value {_widths(host.value_net_arch, 1)}, "
            f"{host.rollout_size} games of {config.rollout_length} moves, "
            f"{config.ppo.train_epochs} passes in minibatches of {config.ppo.minibatch_size}"
        )
    assert isinstance(host, DQNRole)
    return (
        f"host {_widths(host.net_arch, 4)}, batch {host.batch_size}, "
        f"{config.updates_per_step} updates a move of {host.rollout_size} games, "
        f"memory {config.replay_buffer.buffer_size}"
    )


def _widths(net_arch: Sequence[object], num_outputs: int) -> str:
    return "-".join(str(item) for item in (24, *net_arch, num_outputs))
