"""Cross-play: each cell is what its two players do alone, from the same starts."""

from dataclasses import replace

import pytest
import torch
from cells import cell

from hpsearch.game.rules import GameConfig
from hpsearch.population.crossplay import PlayerGroup, banks, crossplay, scripted_groups
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.evaluation import (
    Measurement,
    evaluate,
    scripted,
)
from hpsearch.trainers.opponents import SavedPlayer, load_player
from hpsearch.trainers.rollouts import game_config

CPU = torch.device("cpu")
NUM_GAMES, MAX_STEPS = 40, 30


@pytest.fixture(scope="module")
def saved(tmp_path_factory, tiny_config) -> dict[str, dict[str, SavedPlayer]]:
    """Players of three structures, by role and name."""
    folder = tmp_path_factory.mktemp("players")
    players: dict[str, dict[str, SavedPlayer]] = {"host": {}, "agent": {}}
    for algorithm, changes in (
        ("dqn", {"agent": "learn"}),
        ("dqn", {"agent": "learn", "host.net_arch": [5, 5]}),
        ("ppo", {"agent": "learn"}),
    ):
        configs = [tiny_config({**changes, "seed": seed}, algorithm) for seed in (1, 2)]
        trainer = build_trainer(configs)
        trainer.train(3)
        for member in range(2):
            name = f"{algorithm}-{len(players['host'])}"
            path = trainer.save(folder / name, member)
            for role in players:
                players[role][name] = load_player(path, role, CPU)
    return players


@pytest.fixture(scope="module")
def game(saved) -> GameConfig:
    return game_config(next(iter(saved["host"].values())).config)


@pytest.fixture(scope="module")
def sides(saved) -> tuple[tuple[PlayerGroup, ...], tuple[PlayerGroup, ...]]:
    hosts = (
        *scripted_groups(["zeillinger"]),
        *banks(saved["host"]),
        *scripted_groups(["random"]),
    )
    return hosts, (*banks(saved["agent"]), *scripted_groups(["random", "choose_first"]))


def measurement(game: GameConfig) -> Measurement:
    return Measurement(game, NUM_GAMES, MAX_STEPS, 0.0, "test", ("rho",), CPU)


def play_all(sides, game: GameConfig, **changes):
    how = {"num_games": NUM_GAMES, "max_steps": MAX_STEPS, "split": "test", "device": CPU}
    return crossplay(*sides, game, **(how | changes))


def test_players_of_one_structure_are_one_bank(sides) -> None:
    hosts, agents = sides
    assert [len(group.names) for group in hosts] == [1, 2, 2, 2, 1]
    assert [len(group.names) for group in agents] == [4, 2, 1, 1]  # the agents' nets are alike


def test_players_of_unlike_precision_are_no_bank(saved) -> None:
    name, player = next(iter(saved["host"].items()))
    arithmetic = replace(player.net.arithmetic, precision="bf16")
    net = player.net.like(1)
    net.arithmetic = arithmetic
    groups = banks({name: player, "bf16": replace(player, net=net)})
    assert [group.names for group in groups] == [(name,), ("bf16",)]


def test_each_cell_is_what_its_players_do_alone(saved, sides, game) -> None:
    played = play_all(sides, game)
    assert played.moves.shape == (8, 8, NUM_GAMES)
    how = measurement(game)
    for host, player in saved["host"].items():
        opponents = {name: other.policy for name, other in saved["agent"].items()}
        alone = evaluate("host", player.policy, opponents, 1, how)[0].metrics
        others = scripted(["random", "choose_first"])
        rest = evaluate("host", player.policy, others, 1, how)[0].metrics
        for agent in played.agents:
            assert cell(played, host, agent) == (alone | rest)[f"rho/host/{agent}"]
    for agent, player in saved["agent"].items():
        hosts = {
            group.names[0]: group.policy for group in scripted_groups(["zeillinger", "random"])
        }
        alone = evaluate("agent", player.policy, hosts, 1, how)[0].metrics
        for host in hosts:
            assert cell(played, host, agent) == alone[f"rho/agent/{host}"]


def test_a_cell_does_not_depend_on_who_else_plays(sides, game) -> None:
    whole = play_all(sides, game)
    part = play_all((sides[0][1:3], sides[1][2:]), game)
    rows = [whole.hosts.index(name) for name in part.hosts]
    columns = [whole.agents.index(name) for name in part.agents]
    assert (part.moves == whole.moves[rows][:, columns]).all()
    assert (part.finished == whole.finished[rows][:, columns]).all()


def test_rho_is_games_a_move(sides, game) -> None:
    played = play_all(sides, game)
    assert played.rho()[0, 7] == cell(played, "zeillinger", "choose_first").value
    assert played.rho()[0, 7] == NUM_GAMES / played.moves[0, 7].sum()
    assert (played.moves[~played.finished] == MAX_STEPS).all()


def test_a_split_is_a_set_of_starts(sides, game) -> None:
    assert (play_all(sides, game).moves == play_all(sides, game).moves).all()
    assert (play_all(sides, game).moves != play_all(sides, game, split="other").moves).any()


@pytest.mark.parametrize("hosts", [(), scripted_groups(["random", "random"])])
def test_names_stand_once(sides, game, hosts) -> None:
    with pytest.raises(ValueError, match="cross-play needs hosts, each name once"):
        play_all((hosts, sides[1]), replace(game))
