"""Games that exceed the bound of the rules have no result, also where saturation merges points."""

import torch

from hpsearch.game import rules
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.rules import GameConfig, HostActionEncoder
from hpsearch.trainers.playing import member_noise, play
from hpsearch.trainers.policies import ScriptedPolicy

NEVER = (torch.zeros(1), torch.zeros(1))


def lengths_by_the_rules(starts, max_steps):
    """Play all_coord against choose_first one move at a time, by the reference alone."""
    encoder = HostActionEncoder(3)
    moves = torch.full(starts.shape[:2], max_steps)
    made = moves.clone()
    playing = torch.ones_like(moves, dtype=torch.bool)
    points = starts
    action = torch.full_like(moves, encoder.num_actions - 1)
    axis = torch.zeros_like(moves)
    finished = torch.zeros_like(playing)
    for move in range(1, max_steps + 1):
        points = rules.move(points, encoder.decode(action), axis)
        capped = rules.is_capped(points)
        won = rules.is_over(points) & ~capped & playing
        moves[won], finished = move, finished | won
        made[won | (capped & playing)] = move
        playing &= ~(won | capped)
        points = rules.reposition(points)
    return moves, finished, made


def test_a_capped_game_is_unfinished_even_if_its_points_merge():
    config = GameConfig(
        dimension=3,
        max_num_points=20,
        max_value=2**29,
        max_steps=50,
        reposition=True,
        reward="terminal",
    )
    keys = torch.tensor([5, 6])
    starts = FusedGame(config, keys, 200, "cpu", "cpu", observes=False).points
    moves, finished, made = play(
        ScriptedPolicy("all_coord"),
        ScriptedPolicy("choose_first"),
        starts,
        max_steps=50,
        reposition=True,
        exploration=NEVER,
        noise=member_noise(keys, 200),
    )
    expected_moves, expected_finished, expected_made = lengths_by_the_rules(starts, 50)
    assert torch.equal(finished, expected_finished)
    assert torch.equal(moves, expected_moves)
    assert torch.equal(made, expected_made)
    # The case that was wrong once: points that look like a finished game, but saturated.
    assert not finished.all()
    assert finished.any()
