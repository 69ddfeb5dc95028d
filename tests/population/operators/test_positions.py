"""Positions are those of the games, as the reference rules play them."""

import torch
from operator_nets import D, N, stream

from hpsearch.game.fused_game import FusedGame
from hpsearch.game.players import agent_player, host_player
from hpsearch.game.rules import GameConfig, HostActionEncoder
from hpsearch.population.operators.safe_mutation import MetPositions, visited
from hpsearch.trainers.policies import ScriptedPolicy

GAME = GameConfig(
    dimension=D, max_num_points=N, max_value=9, max_steps=20, reposition=True, reward="terminal"
)
KEYS, NEVER = torch.tensor([5, 6]), torch.zeros(1)
NUM_GAMES, NUM_MOVES = 7, 6


def seen(role: str) -> MetPositions:
    return visited(
        role,
        ScriptedPolicy("zeillinger"),
        ScriptedPolicy("choose_first"),
        GAME,
        starts=KEYS,
        num_games=NUM_GAMES,
        num_moves=NUM_MOVES,
        exploration=(NEVER, NEVER),
        stream=stream(1, 2),
    )


def test_both_roles_see_the_games_that_are_played():
    host, agent = seen("host"), seen("agent")
    games = FusedGame(GAME, KEYS, NUM_GAMES, "cpu", "reference", observes=False)
    noise, encoder = torch.zeros(2, NUM_GAMES), HostActionEncoder(D)
    for move in range(NUM_MOVES):
        lanes = slice(move * NUM_GAMES, (move + 1) * NUM_GAMES)
        action = host_player("zeillinger")(games.points, noise)
        subset = encoder.decode(action)
        assert torch.equal(host.features[:, lanes], games.observe())
        assert torch.equal(agent.features[:, lanes, : N * D], games.observe())
        assert torch.equal(agent.features[:, lanes, N * D :].bool(), subset)
        assert torch.equal(agent.legal[:, lanes], subset)
        games.step(action, agent_player("choose_first")(games.points, subset, noise))
    assert host.legal.all()
    assert host.legal.shape == (2, NUM_GAMES * NUM_MOVES, encoder.num_actions)
    assert (games.starts > 0).any()  # games have ended and others begun


def test_positions_are_joined_and_picked_by_member():
    agent = seen("agent")
    both = agent + agent
    assert both.features.shape[1] == 2 * agent.features.shape[1]
    index = torch.tensor([[3, 50, 3], [0, 41, 7]])
    picked = both.at(index)
    for p in range(2):
        for i, position in enumerate(index[p].tolist()):
            assert torch.equal(picked.features[p, i], both.features[p, position])
            assert torch.equal(picked.legal[p, i], both.legal[p, position])
