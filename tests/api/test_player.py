"""Players that are asked for moves, beside the policies that trained and the scripted rules."""

import numpy as np
import pytest
import torch

import hpsearch
from hpsearch.errors import CorruptError, UsageError
from hpsearch.game import rules
from hpsearch.game.fused_game import FusedGame
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.match import threads
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.policies import Position, Turn

POINTS = [(3, 0, 0), (0, 2, 1), (1, 0, 4)]
CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    with threads(1):
        yield


@pytest.fixture(scope="module")
def pair(tmp_path_factory, tiny_config):
    """The folder of a run in which host and agent learned."""
    folder = tmp_path_factory.mktemp("runs") / "pair"
    trainer = build_trainer([tiny_config({"agent": "learn"})])
    trainer.train(3)
    trainer.save(folder / "checkpoints", 0)
    return folder


def test_zeillinger_chooses_as_the_rules_say():
    host = hpsearch.load_player("zeillinger")
    assert host.roles == ("host",)
    expected = rules.zeillinger(rules.newton_polytope(torch.tensor(POINTS, dtype=torch.int32)))
    subset = rules.HostActionEncoder(3).decode(expected)
    assert host.choose_coordinates(POINTS) == tuple(subset.nonzero().flatten().tolist())
    assert host.choose_coordinates(np.array(POINTS)) == host.choose_coordinates(POINTS)


def test_scripted_agents_choose_as_they_are_called():
    first, last = hpsearch.load_player("choose_first"), hpsearch.load_player("choose_last")
    assert first.choose_axis(POINTS, {1, 2}) == 1
    assert last.choose_axis(POINTS, [0, 2]) == 2


def test_players_who_draw_are_alike_for_the_same_seed():
    def drawn(seed: int) -> list[int]:
        agent = hpsearch.load_player("random", seed=seed)
        return [agent.choose_axis(POINTS, (0, 1, 2)) for _ in range(50)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert set(drawn(1)) == {0, 1, 2}


def test_learned_players_choose_as_in_their_games(pair):
    """Whatever the order of the points, and with points that count for nothing."""
    player = hpsearch.load_player(pair)
    assert player.roles == ("host", "agent")
    game = FusedGame(player.game, torch.tensor([5]), 20, CPU, "cpu", observes=False)
    host, agent = (load_player(pair, role, CPU).policy for role in ("host", "agent"))
    never, noise = torch.zeros(1, 20), torch.zeros(1, 20, 2)
    position = Position.of(game.points)
    subset = rules.HostActionEncoder(game.config.dimension).decode(
        host(Turn(position, None, noise, never))
    )
    axes = agent(Turn(position, subset, noise, never))[0].tolist()
    for points, chosen, axis in zip(game.points[0], subset[0], axes, strict=True):
        rows = points[rules.is_live(points)].tolist()[::-1]
        rows.append([value + 1 for value in rows[0]])
        coordinates = player.choose_coordinates(rows)
        assert coordinates == tuple(chosen.nonzero().flatten().tolist())
        assert player.choose_axis(rows, coordinates) == axis


def test_a_game_is_a_line_a_move():
    host, agent = hpsearch.load_player("zeillinger"), hpsearch.load_player("choose_first")
    *moves, ending = host.play(agent, POINTS).splitlines()
    assert ending.startswith(f"over after {len(moves)} move")
    assert len(moves) > 1
    assert "\nnot over after 1 move: " in host.play(agent, POINTS, max_steps=1)


def test_games_of_players_who_draw_differ_by_their_seed():
    host, agent = hpsearch.load_player("random"), hpsearch.load_player("random")
    games = [host.play(agent, POINTS, seed=seed) for seed in (1, 1, 2, 3)]
    assert games[0] == games[1]
    assert len(set(games)) > 1


def test_a_player_is_measured_as_by_the_command():
    measured = hpsearch.load_player("all_coord").evaluate(games=60)
    assert set(measured["roles"]) == {"host"}
    assert measured["games"] == 60
    metrics = measured["roles"]["host"]["evaluation"]["metrics"]
    assert metrics["rho/host/choose_first"]["value"] < metrics["rho/host/random"]["value"]
    with pytest.raises(UsageError, match="all_coord is scripted, and a best response learns by"):
        hpsearch.load_player("all_coord").evaluate(best_response=100)


@pytest.mark.parametrize(
    ("points", "sentence"),
    [
        ([(1, 0)], "the game is over"),
        ([(1, 0, 0), (2, 1, 0)], "the game is over"),
        ([], "at least one point"),
        ([(1, 0), (0, 1, 2)], "as many coordinates"),
        ([(1.5, 0), (0, 1)], "whole numbers"),
        ([(-1, 0), (0, 1)], "coordinates must be in"),
        ([(1,), (0,)], "a point has 2 to 16 coordinates, got 1"),
        ([[0] * 17, [1] * 17], "a point has 2 to 16 coordinates, got 17"),
    ],
)
def test_what_is_no_position_is_refused(points, sentence):
    with pytest.raises(UsageError, match=sentence):
        hpsearch.load_player("zeillinger").choose_coordinates(points)


def test_a_role_or_size_that_a_player_does_not_know_is_refused(pair):
    with pytest.raises(UsageError, match="zeillinger plays as host, not as agent"):
        hpsearch.load_player("zeillinger").choose_axis(POINTS, (0, 1))
    with pytest.raises(UsageError, match="at least two coordinates of 0 to 2, got"):
        hpsearch.load_player("choose_first").choose_axis(POINTS, [0, 0])
    with pytest.raises(UsageError, match="a list of whole numbers"):
        hpsearch.load_player("choose_first").choose_axis(POINTS, (0.0, 1))
    with pytest.raises(UsageError, match="max_steps must be a whole number of at least 1, got 0"):
        hpsearch.load_player("zeillinger").play(
            hpsearch.load_player("choose_first"), POINTS, max_steps=0
        )
    with pytest.raises(UsageError, match="knows positions of at most 4 points in 3 coordinates"):
        hpsearch.load_player(pair).choose_coordinates([(4, 0, 0, 0), (0, 1, 0, 0)])


def test_what_is_no_player_is_refused(tmp_path):
    with pytest.raises(UsageError, match="nothing is no folder; name a checkpoint"):
        hpsearch.load_player(tmp_path / "nothing")
    with pytest.raises(UsageError, match="name_or_path must be a text or a path, but is 5"):
        hpsearch.load_player(5)
    with pytest.raises(UsageError, match="a player is given by a name or a path, but this is ''"):
        hpsearch.load_player("")
    for configs in ([], 5, "x", [5]):
        with pytest.raises(UsageError, match="a trainer needs a list of configurations"):
            hpsearch.build_trainer(configs)
    (tmp_path / "certificate.json").write_text("{}")
    with pytest.raises((UsageError, CorruptError)):
        hpsearch.load_player(tmp_path)
