"""Recorded games against the rules, and their text whole."""

import pytest
import torch

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.rules import points_text, subset_text
from hpsearch.trainers.playing import record_game, transcript
from hpsearch.trainers.policies import ScriptedPolicy


def record(host, agent, start, *, max_steps=100, reposition=True, key=1):
    return record_game(
        ScriptedPolicy(host),
        ScriptedPolicy(agent),
        torch.tensor(start, dtype=torch.int32),
        max_steps=max_steps,
        reposition=reposition,
        key=key,
    )


def test_text_of_a_game():
    game = record("zeillinger", "choose_last", [[2, 0, 0], [0, 3, 0], [0, 0, 4], [-1, -1, -1]])
    assert (
        transcript(game)
        == """\
  1  200 030 004  host {0,1}  agent 1  points 3
  2  220 030 004  host {0,1}  agent 1  points 2
  3  030 004      host {1,2}  agent 2  points 2
  4  030 001      host {1,2}  agent 2  points 1
over after 4 moves: 000"""
    )


def test_a_game_that_is_cut_off_says_so():
    game = record("all_coord", "choose_last", [[1, 0, 1], [0, 1, 1]], max_steps=2)
    assert (
        transcript(game)
        == """\
  1  101 011  host {0,1,2}  agent 2  points 2
  2  100 010  host {0,1,2}  agent 2  points 2
not over after 2 moves: 100 010"""
    )


def test_a_start_that_is_over_takes_no_move():
    game = record("zeillinger", "choose_first", [[1, 2, 3], [-1, -1, -1]])
    assert transcript(game) == "over after 0 moves: 123"


@pytest.mark.parametrize("reposition", [True, False])
def test_every_move_follows_the_rules(reposition):
    keys = torch.tensor([9])
    starts = BACKENDS["reference"].random_starts(
        keys, torch.zeros(1, 5, dtype=torch.int64), num_points=8, dimension=3, max_value=9
    )[0]
    for key, start in enumerate(starts.tolist()):
        game = record("random", "random", start, reposition=reposition, max_steps=15, key=key)
        positions = [move.points for move in game.moves] + [game.last]
        assert torch.equal(positions[0], torch.tensor(start))
        for move, after in zip(game.moves, positions[1:], strict=True):
            expected = rules.move(move.points, move.subset, torch.tensor(move.axis))
            expected = rules.reposition(expected) if reposition else expected
            assert torch.equal(after, expected)
            assert move.points_left == int(rules.is_live(after).sum())
        assert game.is_over == rules.is_over(game.last).item()
        assert game.is_over or len(game.moves) == 15


def test_a_game_beyond_the_bound_is_not_over():
    game = record("all_coord", "choose_first", [[2**30, 1, 7], [3, 2**30, 1]], reposition=False)
    assert not game.is_over
    assert len(game.moves) == 1


def test_games_of_one_key_are_alike():
    start = [[5, 0, 1], [3, 3, 0], [1, 4, 2], [0, 0, 9]]
    first, again = (record("random", "random", start, key=4) for _ in range(2))
    assert transcript(first) == transcript(again)
    others = {transcript(record("random", "random", start, key=key)) for key in range(10)}
    assert len(others) > 5


def test_long_positions_are_cut():
    points = [[40 - k, k, 40] for k in range(20)]
    text = transcript(record("all_coord", "choose_first", points, max_steps=1))
    assert " ..." in text
    assert max(map(len, text.splitlines())) < 120


def test_notation():
    assert points_text(torch.tensor([[2, 0, 0], [0, 2, 1], [-1, -1, -1]])) == "200 021"
    assert points_text(torch.tensor([[12, 0], [0, 3]])) == "(12,0) (0,3)"
    assert points_text(torch.full((2, 3), -1)) == ""
    assert subset_text(torch.tensor([True, False, True])) == "{0,2}"
