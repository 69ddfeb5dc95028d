"""The sample games of evaluations, held to the rules and to the lengths that were measured."""

from dataclasses import replace

import pytest
import torch

from hpsearch.game import HostActionEncoder, rules
from hpsearch.game.rules import GameConfig
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.evaluation import Measurement, SampleGame, evaluate, scripted, starts_of
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.playing import FirstMoves, GameRecord, Move
from hpsearch.trainers.policies import Position, ScriptedPolicy, Turn
from hpsearch.trainers.trainer import SAMPLE_MOVES

CPU = torch.device("cpu")
GAME = GameConfig(
    dimension=3, max_num_points=9, max_value=9, max_steps=40, reposition=True, reward="terminal"
)
HOW = Measurement(GAME, 30, 40, 0.5, "test", MODES, CPU)


def check(game: GameRecord, how: Measurement) -> None:
    """Assert that moves are legal, begin at the split's first start and lead to each other."""
    start = starts_of(how.game, how.split, how.num_games, CPU)[0, 0]
    positions = [*(move.points for move in game.moves), game.last]
    assert torch.equal(positions[0], start)
    for move, after in zip(game.moves, positions[1:], strict=True):
        assert move.subset.sum() >= 2
        assert move.subset[move.axis]
        expected = rules.move(move.points, move.subset, torch.tensor(move.axis))
        expected = rules.reposition(expected) if how.game.reposition else expected
        assert torch.equal(after, expected)
        assert move.points_left == int(rules.is_live(after).sum())
    assert len(game.moves) == min(game.num_moves, SAMPLE_MOVES)
    if len(game.moves) == game.num_moves:
        assert game.is_over == rules.is_over(game.last).item()


def first_game(role: str, own: str, other: str, how: Measurement) -> GameRecord:
    first_moves = FirstMoves(SAMPLE_MOVES)
    evaluate(role, ScriptedPolicy(own), scripted([other, "random"]), 1, how, first_moves)
    return first_moves.records()[0]


@pytest.mark.parametrize("reposition", [True, False])
@pytest.mark.parametrize(
    ("role", "own", "other"),
    [
        ("host", "random", "random"),
        ("host", "zeillinger", "choose_first"),
        ("agent", "choose_last", "all_coord"),
    ],
)
def test_scripted_players_make_legal_moves(role, own, other, reposition):
    for split in ("a", "b", "c"):
        how = replace(HOW, split=split, game=replace(GAME, reposition=reposition))
        check(first_game(role, own, other, how), how)


@pytest.mark.parametrize("num_games", [1, 25])
def test_it_is_one_of_the_games_that_were_measured(num_games):
    """Of one game the length is known; more of them change nothing about the first."""
    num_cut = 0
    for split in "abcdefgh":
        alone = replace(HOW, num_games=1, split=split)
        player = ScriptedPolicy("zeillinger")
        (measured,) = evaluate("host", player, scripted(["choose_first"]), 1, alone)
        lengths = measured.games["rho/host/choose_first"]
        how = replace(alone, num_games=num_games)
        game = first_game("host", "zeillinger", "choose_first", how)
        assert game.is_over == (not lengths.unfinished)
        assert game.num_moves == (len(lengths.lengths) - 1 if game.is_over else 40)
        num_cut += game.num_moves > SAMPLE_MOVES
    assert num_cut > 0


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_each_member_plays_its_best_moves(tiny_config, algorithm):
    trainer = build_trainer(
        [tiny_config({"agent": "learn", "seed": seed}, algorithm) for seed in (1, 2, 3)]
    )
    trainer.train(6)
    config, split = trainer.config, "evaluation"
    game = trainer.rollouts.fused_game.config
    how = Measurement(game, 20, config.evaluation.max_steps, 0.0, split, MODES, CPU)
    trainer.evaluate(num_games=20, split=split)
    for member, samples in enumerate(trainer.samples):
        assert [sample.role for sample in samples] == list(config.measured_against())
        for sample in samples:
            check(sample.game, how)
            assert sample.opponent == config.measured_against()[sample.role][0]
            for move in sample.game.moves:
                assert chosen(trainer, sample.role, member, move) == (
                    move.subset.tolist() if sample.role == "host" else move.axis
                )


def chosen(trainer, role: str, member: int, move: Move):
    """Return what a member chooses without exploring where a move was made."""
    members, noise, never = trainer.num_members, torch.zeros(1, 1, 2), torch.zeros(())
    position = Position.of(move.points.expand(members, 1, -1, -1))
    noise = noise.expand(members, -1, -1)
    if role == "host":
        action = trainer.host_policy(Turn(position, None, noise, never))[member, 0]
        return HostActionEncoder(move.points.shape[-1]).decode(action).tolist()
    subset = move.subset.expand(members, 1, -1)
    return int(trainer.agent_policy(Turn(position, subset, noise, never))[member, 0])


def test_long_games_are_cut_with_a_note():
    game = first_game("host", "all_coord", "choose_first", HOW)
    assert len(game.moves) == len(game.rows()) == SAMPLE_MOVES
    assert game.ending() == "not over after 40 moves, of which the first 8 are shown"


def test_a_game_as_markdown():
    points = torch.tensor([[2, 0, 0], [0, 3, 0], [-1, -1, -1]], dtype=torch.int32)
    move = Move(points, torch.tensor([True, True, False]), axis=1, points_left=1)
    last = torch.tensor([[2, 2, 0], [-1] * 3, [-1] * 3])
    text = SampleGame("host", "random", GameRecord((move,), last, True, 1)).markdown()
    assert text.splitlines() == [
        "host against random, greedy",
        "",
        "| move | points before | host | agent | points left |",
        "| --- | --- | --- | --- | --- |",
        "| 1 | 200 030 | {0,1} | 1 | 1 |",
        "",
        "over after 1 move: 220",
    ]
