"""Every host against every agent in one batched call, beside one pair after another."""

from collections.abc import Iterator
from dataclasses import replace

from configurations import dqn_config
from measuring import Case, Contender
from setting import Setting

from hpsearch.population.crossplay import PlayerGroup
from hpsearch.population.crossplay import crossplay as play_all
from hpsearch.schema import to_plain
from hpsearch.trainers.dqn import DQNTrainer
from hpsearch.trainers.rollouts import game_config

IN_TURN, TOGETHER = "pair by pair", "together"
MAX_STEPS = 40


def crossplay(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure as many hosts as agents, all of one structure."""
    players = setting.pick(full=8, quick=2)
    games = setting.pick(full=64, quick=4)
    yield from setting.time([_case(setting, players, games)])


def _case(setting: Setting, players: int, games: int) -> Case:
    device = {"device": setting.device.type}
    host = to_plain(dqn_config(device, {}).host)
    # Both learn, so that there are agents to play by too.
    config = dqn_config(device | {"agent": host}, {})
    everyone = DQNTrainer([replace(config, seed=seed) for seed in range(players)])
    alone = [everyone.select([member]) for member in range(players)]

    def run(hosts: DQNTrainer, agents: DQNTrainer) -> int:
        played = play_all(
            [PlayerGroup(_names(hosts), hosts.host_policy)],
            [PlayerGroup(_names(agents), agents.agent_policy)],
            game_config(config),
            num_games=games,
            max_steps=MAX_STEPS,
            split="benchmark",
            device=setting.device,
        )
        return int(played.moves.size)

    return Case(
        name="cross-play",
        sizes=f"{players} hosts 24-64-64-4, {players} agents 27-64-64-3, {games} games a pair, "
        f"20 points in 3 dimensions, at most {MAX_STEPS} moves",
        unit="game",
        contenders={
            IN_TURN: Contender(lambda: sum(run(host, agent) for host in alone for agent in alone)),
            TOGETHER: Contender(lambda: run(everyone, everyone)),
        },
        baselines=(IN_TURN,),
    )


def _names(trainer: DQNTrainer) -> tuple[str, ...]:
    return tuple(str(member) for member in range(trainer.num_members))
