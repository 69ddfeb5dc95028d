"""How learned players choose: exactly greedy without exploration, legal always."""

import pytest
import torch
from torch import Tensor

from hpsearch.game import HostActionEncoder
from hpsearch.trainers.policies import (
    LearnedAgent,
    LearnedHost,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
    legal_values,
)

NUM_MEMBERS, NUM_GAMES, NUM_POINTS, DIMENSION = 2, 5000, 3, 3
SHAPE = NUM_MEMBERS, NUM_GAMES
ENCODER = HostActionEncoder(DIMENSION)


class FixedValues:
    """Stands for a network: one row of values a member, whatever it sees."""

    def __init__(self, values: list[list[float]]) -> None:
        self.values = torch.tensor(values)

    def __call__(self, features: Tensor) -> Tensor:
        return self.values[:, None].expand(-1, features.shape[1], -1)


HOST = LearnedHost(
    FixedValues([[0.0, 3.0, 1.0, 2.0], [9.0, 3.0, 1.0, 2.0]]), lambda p: p.flatten(2)
)
AGENT = LearnedAgent(FixedValues([[0.0, 2.0, 1.0], [5.0, -9.0, -8.0]]), lambda p: p.flatten(2))


def points() -> Tensor:
    return torch.ones(*SHAPE, NUM_POINTS, DIMENSION, dtype=torch.int32)


def noise() -> Tensor:
    return torch.rand(*SHAPE, 2, generator=torch.Generator().manual_seed(0))


def subsets() -> Tensor:
    actions = torch.arange(NUM_GAMES).remainder(ENCODER.num_actions).expand(SHAPE)
    return ENCODER.decode(actions)


def greedy_axis(values, subset) -> int:
    return max((axis for axis in range(DIMENSION) if subset[axis]), key=values.__getitem__)


def test_without_exploration_a_host_is_exactly_greedy():
    """Even where the noise is 0 (seeds.md B9)."""
    for draws in (noise(), torch.zeros(*SHAPE, 2)):
        actions = HOST(points(), draws, torch.tensor(0.0))
        assert (actions == torch.tensor([[1], [0]])).all()


def test_without_exploration_an_agent_is_exactly_greedy_among_legal_axes():
    expected = [
        [greedy_axis(AGENT.net.values[member], subset) for subset in subsets()[member]]
        for member in range(NUM_MEMBERS)
    ]
    for draws in (noise(), torch.zeros(*SHAPE, 2)):
        assert AGENT(points(), subsets(), draws, torch.tensor(0.0)).tolist() == expected


def test_a_host_that_explores_is_uniform_over_all_actions():
    actions = HOST(points(), noise(), torch.tensor(1.0))
    for member in range(NUM_MEMBERS):
        counts = actions[member].bincount(minlength=ENCODER.num_actions)
        assert counts.tolist() == pytest.approx([NUM_GAMES / 4] * 4, rel=0.1)


def test_an_agent_that_explores_is_uniform_in_the_subset():
    """Never outside of it (seeds.md B1)."""
    axes, subset = AGENT(points(), subsets(), noise(), torch.tensor(1.0)), subsets()
    assert subset.gather(2, axes[..., None]).all()
    for action in range(ENCODER.num_actions):
        members = ENCODER.decode(torch.tensor(action))
        chosen = axes[:, torch.arange(NUM_GAMES) % ENCODER.num_actions == action].flatten()
        share = chosen.bincount(minlength=DIMENSION) / len(chosen)
        expected = (members / members.sum()).tolist()
        assert share.tolist() == pytest.approx(expected, abs=0.04)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_rate_is_how_often_a_player_explores(rate):
    actions = HOST(points(), noise(), torch.tensor(rate))
    # A quarter of the explored actions is the greedy one.
    explored = (actions != torch.tensor([[1], [0]])).float().mean() * 4 / 3
    assert explored.item() == pytest.approx(rate, abs=0.02)


def test_rates_differ_between_games_and_members():
    rates = torch.zeros(SHAPE)
    rates[1, ::2] = 1.0
    actions = HOST(points(), noise(), rates)
    assert (actions[0] == 1).all()
    assert (actions[1, 1::2] == 0).all()
    assert (actions[1, ::2] != 0).float().mean().item() == pytest.approx(3 / 4, abs=0.05)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), -3e38])
def test_values_gone_wild_lead_to_no_illegal_move(value):
    """A member that diverged must not end the population by an illegal move."""
    agent = LearnedAgent(FixedValues([[value] * DIMENSION] * 2), lambda p: p.flatten(2))
    axes = agent(points(), subsets(), noise(), torch.tensor(0.0))
    assert subsets().gather(2, axes[..., None]).all()


def test_legal_values_keeps_legal_ones():
    values = torch.tensor([[1.0, 2.0, 3.0], [-4.0, 5.0, -6.0]])
    legal = torch.tensor([[True, True, False], [True, False, True]])
    kept = legal_values(values, legal)
    assert torch.equal(kept[legal], values[legal])
    assert kept.argmax(1).tolist() == [1, 0]


def test_scripted_players_never_explore():
    host = ScriptedHostPolicy("all_coord")(points(), noise(), torch.tensor(1.0))
    agent = ScriptedAgentPolicy("choose_last")(points(), subsets(), noise(), torch.tensor(1.0))
    assert (host == ENCODER.num_actions - 1).all()
    last = [max(a for a in range(DIMENSION) if s[a]) for s in subsets()[0].tolist()]
    assert agent[0].tolist() == last
