"""Moves of many games: the seed's algorithm beside the fused step.

`step`: one move in games that are all in progress, by scripted players, with everything that the
seed returns: observation, action, reward, end, next observation. `rollout`: moves of games from
their starts on, the host's by a network. Counted are moves in games that were in progress: the
seed's games wait for the last of them, ours begin again.
"""

from collections.abc import Callable, Iterator

import torch
from configurations import dqn_config
from measuring import Case, Contender
from plain import mlp
from seed_game import PublishedGame, SeedGame, choose_first, random_host, rescale
from setting import Setting
from torch import Tensor

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder
from hpsearch.game.kernels import default_backend
from hpsearch.game.players import agent_player, host_player
from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream
from hpsearch.trainers.dqn import DQNTrainer

CONFIG = GameConfig(
    dimension=3, max_num_points=20, max_value=20, max_steps=100, reposition=True, reward="terminal"
)
NUM_ACTIONS = HostActionEncoder(CONFIG.dimension).num_actions
PUBLISHED, PLAIN, OURS, FLOOR = "seed as published", "plain eager", "hpsearch", "memory floor"
MIXING_MOVES = 30
"""after which games are at all stages"""
ROLLOUT_MOVES = 20


def step(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure a move by scripted players."""
    yield from setting.time([_step_case(setting.pick(full=65_536, quick=32), setting.device)])


def rollout(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure rollouts by a network."""
    yield from setting.time([_rollout_case(setting.pick(full=4096, quick=32), setting.device)])


def _step_case(num_games: int, device: torch.device) -> Case:
    key = torch.tensor([derive_key(1, "step")])
    game = FusedGame(CONFIG, key, num_games, device, default_backend(device), observes=True)
    noise = Stream(game.keys, torch.zeros_like(game.keys))
    for _ in range(MIXING_MOVES):
        our_step(game, noise)
    positions = game.points[0].clone()
    return Case(
        name="step",
        sizes=f"{num_games} games, 20 points in 3 dimensions, random against choose_first",
        unit="game-step",
        contenders={
            PUBLISHED: Contender(_seed_step(PublishedGame, positions)),
            PLAIN: Contender(_seed_step(SeedGame, positions)),
            OURS: Contender(lambda: our_step(game, noise)),
            FLOOR: Contender(lambda: len(positions.clone())),
        },
        baselines=(PUBLISHED, PLAIN, FLOOR),
        goal=f"{'50' if device.type == 'cpu' else '200'} times {PUBLISHED}",
    )


def our_step(game: FusedGame, noise: Stream) -> int:
    """Play a move of every game, with all that a learner would see of it."""
    game.observation.clone()  # a step changes it in place
    host_noise, agent_noise = noise.uniform(2 * game.num_games).chunk(2, dim=1)
    action = host_player("random")(game.points, host_noise)
    subset = HostActionEncoder(CONFIG.dimension).decode(action)
    step = game.step(action, agent_player("choose_first")(game.points, subset, agent_noise))
    return step.done.numel()


def _seed_step(kind: type[SeedGame], positions: Tensor) -> Callable[[], int]:
    game = kind(CONFIG.dimension, random_host(NUM_ACTIONS), choose_first, rescale=True)
    points = rescale(positions.float())
    return lambda: len(game.step(points)[1].action)


def _rollout_case(num_games: int, device: torch.device) -> Case:
    encoder = {"name": "flatten", "num_points": CONFIG.max_num_points}
    shape = {"encoder": encoder, "net_arch": [128, 128], "rollout_size": num_games}
    buffer = {"buffer_size": num_games, "save": True, "prioritised": None}
    changes = {"device": device.type, "replay_buffer": buffer}
    trainer = DQNTrainer([dqn_config(changes, shape)])
    return Case(
        name="rollout",
        sizes=f"{num_games} games, 20 points in 3 dimensions, host 60-128-128-4, choose_first",
        unit="game-step",
        contenders={
            PUBLISHED: Contender(_seed_rollout(PublishedGame, num_games, device)),
            PLAIN: Contender(_seed_rollout(SeedGame, num_games, device)),
            OURS: Contender(lambda: our_rollout(trainer)),
        },
        baselines=(PUBLISHED, PLAIN),
        same_work=False,  # of the seed's games fewer and fewer are in progress
    )


def our_rollout(trainer: DQNTrainer) -> int:
    """Play moves of every game as a training step does."""
    moves = trainer.rollouts.play(ROLLOUT_MOVES, looks_ahead=False)
    return sum(seen.done.numel() for (seen,) in moves)


def _seed_rollout(kind: type[SeedGame], num_games: int, device: torch.device) -> Callable[[], int]:
    net = mlp([CONFIG.max_num_points * CONFIG.dimension, 128, 128, NUM_ACTIONS]).to(device)
    game = kind(CONFIG.dimension, net, choose_first, rescale=True)
    shape = (num_games, CONFIG.max_num_points, CONFIG.dimension)

    @torch.no_grad()
    def run() -> int:
        drawn = torch.randint(CONFIG.max_value + 1, shape, device=device, dtype=torch.float32)
        points = rescale(game.newton_polytope(drawn))
        units = 0
        for _ in range(ROLLOUT_MOVES):
            points, sample = game.step(points, exploration=0.5)
            units += len(sample.action)
        return units

    return run
