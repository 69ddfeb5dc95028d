"""Updates of one learner, and of a few together, beside the seed's own trainer or a plain loop.

On one thread and on two. The seed's contender makes updates alone; ours also plays a move of 64
games every 32 updates, and is double Q-learning, which is one pass more, unless it says otherwise.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from apart import Apart
from measuring import Case, Contender
from plain_ppo import PlainPPO
from seed_dqn import SeedDQN, SeedLearning
from setting import Setting
from training_suites import PLAIN, dqn_updates, in_turn, ppo_step, sizes_of

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import DQNConfig, DQNRole, PPOConfig, TrainerConfig

SEED = "seed as published"
MEMBERS = (1, 2, 4)
GOAL = "1.5 times the first"


def learner(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure on each number of threads, with the published networks and with plain ones."""
    width = setting.pick(full=256, quick=8)
    before = torch.get_num_threads()
    for threads in setting.pick(full=(1, 2), quick=(1,)):
        torch.set_num_threads(threads)  # which the rows name
        apart = Apart(threads, setting.quick)
        for net_arch in ([f"r{width}"] * 2, [width] * 2):
            yield from setting.time([_dqn(dqn_updates(setting, net_arch), apart)])
        yield from setting.time([_ppo(ppo_step(setting, width), apart)])
    torch.set_num_threads(before)


def _dqn(config: DQNConfig, apart: Apart) -> Case:
    assert isinstance(config.host, DQNRole)
    not_double = replace(config, dqn=replace(config.dqn, double=False))
    others = {
        f"{_name(size)}, not double": apart.ours(partial(_together, not_double, size))
        for size in MEMBERS
    }
    return _case(config, {SEED: apart.theirs(partial(_seed, config))}, others, apart)


def _seed(config: DQNConfig) -> Callable[[], int]:
    assert isinstance(config.host, DQNRole)
    shape = 8, config.dimension  # the points that the network sees
    learning = SeedLearning(
        net_arch=_net_arch(config.host),
        batch_size=config.host.batch_size,
        memory_size=config.replay_buffer.buffer_size,
        lr=1e-3,
        gamma=0.99,
        max_grad_norm=10.0,
    )
    seed = SeedDQN(shape, 4, learning)

    def run() -> int:
        seed.train(config.updates_per_step)
        return config.updates_per_step

    return run


def _ppo(config: PPOConfig, apart: Apart) -> Case:
    return _case(config, {PLAIN: apart.theirs(partial(_plain, config))}, {}, apart)


def _plain(config: PPOConfig) -> Callable[[], int]:
    return in_turn([PlainPPO(config)], config)


def _case(
    config: TrainerConfig,
    baseline: dict[str, Contender],
    others: dict[str, Contender],
    apart: Apart,
) -> Case:
    ours = {_name(size): apart.ours(partial(_together, config, size)) for size in MEMBERS}
    return Case(
        name=f"{config.algorithm} learner",
        sizes=f"{sizes_of(config)}, {apart.threads} thread{'s' * (apart.threads > 1)}",
        unit="member-update",
        contenders={**baseline, **others, **ours},
        baselines=tuple(baseline),
        same_work=False,
        goal=GOAL,
    )


def _together(config: TrainerConfig, size: int) -> Callable[[], int]:
    configs = [replace(config, seed=seed) for seed in range(size)]
    return in_turn([build_trainer(configs)], config, size)


def _name(size: int) -> str:
    return "hpsearch" if size == 1 else f"hpsearch, {size} members"


def _net_arch(role: DQNRole) -> Sequence[int | str]:
    return [item for item in role.net_arch if isinstance(item, int | str)]
