"""How learned players choose: exactly greedy without exploration, legal always."""

from math import inf, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from hpsearch.game import HostActionEncoder
from hpsearch.trainers import policies, policies_cpu
from hpsearch.trainers.policies import (
    LearnedPolicy,
    Position,
    ScriptedPolicy,
    Turn,
    draw,
    features_of,
    legal_values,
    softmax,
    uniform,
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


HOST_VALUES = FixedValues([[0.0, 3.0, 1.0, 2.0], [9.0, 3.0, 1.0, 2.0]])
AGENT_VALUES = FixedValues([[0.0, 2.0, 1.0], [5.0, -9.0, -8.0]])
HOST, AGENT = LearnedPolicy(HOST_VALUES, "values"), LearnedPolicy(AGENT_VALUES, "values")
STOCHASTIC_HOST = LearnedPolicy(HOST_VALUES, "probabilities")
STOCHASTIC_AGENT = LearnedPolicy(AGENT_VALUES, "probabilities")
both_hosts = pytest.mark.parametrize("host", [HOST, STOCHASTIC_HOST], ids=["uniform", "softmax"])
both_agents = pytest.mark.parametrize(
    "agent", [AGENT, STOCHASTIC_AGENT], ids=["uniform", "softmax"]
)
both_ways = pytest.mark.parametrize("plays_by", ["values", "probabilities"])
LARGEST_NOISE = 1.0 - 2.0**-24  # below 1 among float32


def position() -> Position:
    return Position.of(torch.ones(*SHAPE, NUM_POINTS, DIMENSION, dtype=torch.int32))


def noise() -> Tensor:
    return torch.rand(*SHAPE, 2, generator=torch.Generator().manual_seed(0))


def subsets() -> Tensor:
    actions = torch.arange(NUM_GAMES).remainder(ENCODER.num_actions).expand(SHAPE)
    return ENCODER.decode(actions)


def greedy_axis(values, subset) -> int:
    return max((axis for axis in range(DIMENSION) if subset[axis]), key=values.__getitem__)


@both_hosts
def test_without_exploration_a_host_is_exactly_greedy(host):
    """Even where the noise is 0 (seeds.md B9)."""
    for draws in (noise(), torch.zeros(*SHAPE, 2)):
        actions = host(Turn(position(), None, draws, torch.tensor(0.0)))
        assert (actions == torch.tensor([[1], [0]])).all()


@both_agents
def test_without_exploration_an_agent_is_exactly_greedy_among_legal_axes(agent):
    expected = [
        [greedy_axis(AGENT.net.values[member], subset) for subset in subsets()[member]]
        for member in range(NUM_MEMBERS)
    ]
    for draws in (noise(), torch.zeros(*SHAPE, 2)):
        assert agent(Turn(position(), subsets(), draws, torch.tensor(0.0))).tolist() == expected


def test_a_host_that_explores_is_uniform_over_all_actions():
    actions = HOST(Turn(position(), None, noise(), torch.tensor(1.0)))
    for member in range(NUM_MEMBERS):
        counts = actions[member].bincount(minlength=ENCODER.num_actions)
        assert counts.tolist() == pytest.approx([NUM_GAMES / 4] * 4, rel=0.1)


def test_an_agent_that_explores_is_uniform_in_the_subset():
    """Never outside of it (seeds.md B1)."""
    axes, subset = AGENT(Turn(position(), subsets(), noise(), torch.tensor(1.0))), subsets()
    assert subset.gather(2, axes[..., None]).all()
    for action in range(ENCODER.num_actions):
        members = ENCODER.decode(torch.tensor(action))
        chosen = axes[:, torch.arange(NUM_GAMES) % ENCODER.num_actions == action].flatten()
        share = chosen.bincount(minlength=DIMENSION) / len(chosen)
        expected = (members / members.sum()).tolist()
        assert share.tolist() == pytest.approx(expected, abs=0.04)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_rate_is_how_often_a_player_explores(rate):
    actions = HOST(Turn(position(), None, noise(), torch.tensor(rate)))
    # A quarter of the explored actions is the greedy one.
    explored = (actions != torch.tensor([[1], [0]])).float().mean() * 4 / 3
    assert explored.item() == pytest.approx(rate, abs=0.02)


def test_rates_differ_between_games_and_members():
    rates = torch.zeros(SHAPE)
    rates[1, ::2] = 1.0
    actions = HOST(Turn(position(), None, noise(), rates))
    assert (actions[0] == 1).all()
    assert (actions[1, 1::2] == 0).all()
    assert (actions[1, ::2] != 0).float().mean().item() == pytest.approx(3 / 4, abs=0.05)


WILD = {
    "all nan": [nan, nan, nan],
    "all inf": [inf, inf, inf],
    "all -inf": [-inf, -inf, -inf],
    "all lowest": [-3.4e38, -3.4e38, -3.4e38],
    "one nan": [nan, 1.0, 2.0],
    "one inf": [1.0, inf, 2.0],
    "one -inf": [1.0, 2.0, -inf],
    "mixed": [inf, -inf, nan],
    "far apart": [3e38, -3e38, 0.0],
}
every_wild = pytest.mark.parametrize("values", WILD.values(), ids=WILD)
ENDS = torch.tensor([0.0, 2.0**-24, 0.5, LARGEST_NOISE])


@both_ways
@every_wild
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_values_gone_wild_lead_to_no_illegal_move(values, plays_by, rate):
    """A member that diverged must not end the population by an illegal move."""
    agent = LearnedPolicy(FixedValues([values, values[::-1]]), plays_by)
    draws = noise()
    draws[..., 1] = ENDS[torch.arange(NUM_GAMES) % 7 % 4]
    for chosen in (draws, noise()):
        axes = agent(Turn(position(), subsets(), chosen, torch.tensor(rate)))
        assert subsets().gather(2, axes[..., None]).all()


@both_ways
@every_wild
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_host_whose_values_went_wild_still_plays(values, plays_by, rate):
    host = LearnedPolicy(FixedValues([[*values, values[0]]] * 2), plays_by)
    actions = host(Turn(position(), None, noise(), torch.tensor(rate)))
    assert actions.min() >= 0
    assert actions.max() < ENCODER.num_actions


def test_a_diverged_member_leaves_the_others_alone():
    wild = FixedValues([[nan] * 4, HOST_VALUES.values[1].tolist()])
    for plays_by in ("values", "probabilities"):
        chances, expected = (
            LearnedPolicy(values, plays_by)(Turn(position(), None, noise(), torch.tensor(0.7)))[1]
            for values in (wild, HOST_VALUES)
        )
        assert torch.equal(chances, expected)


RATES = {
    "of all": torch.tensor(0.5),
    "of all, (1,)": torch.tensor([0.5]),
    "of all, (1, 1)": torch.tensor([[0.5]]),
    "of members": torch.tensor([[0.0], [1.0]]),
    "of games": torch.linspace(0, 1, NUM_GAMES),
    "of members' games": torch.linspace(0, 1, NUM_MEMBERS * NUM_GAMES).view(SHAPE),
}


@pytest.mark.parametrize("rate", RATES.values(), ids=RATES)
@both_ways
def test_one_loop_chooses_as_the_formulas_do(plays_by, rate):
    generator = torch.Generator().manual_seed(0)
    choices = torch.tensor([-1.0, 0.0, 2.0, inf, -inf, nan, 3.4e38])
    values = choices[torch.randint(len(choices), (*SHAPE, 5), generator=generator)]
    values[:, ::2] = torch.randn(values[:, ::2].shape, generator=generator)
    legal = torch.rand(values.shape, generator=generator) < 0.5
    legal[..., 3] = True
    draws = noise()
    draws[..., 1] = torch.where(
        draws[..., 0] < 0.3, ENDS[torch.arange(NUM_GAMES) % 4], draws[..., 1]
    )
    given = plays_by, values, legal, draws, rate
    by_loop, log_prob = policies_cpu.chosen(*given)
    by_formulas, expected = policies.chosen(*given)
    if plays_by == "values":
        assert torch.equal(by_loop, by_formulas)
        assert not log_prob.any()
        assert not expected.any()
        return
    is_same = by_loop == by_formulas
    torch.testing.assert_close(log_prob[is_same], expected[is_same], equal_nan=True)
    # The loop's exponentials are float64, the formulas' float32: where noise ends one action's part
    # of the probabilities, both the one and the other may be drawn.
    parts = softmax(values, legal).double().cumsum(dim=2)
    parts /= parts[..., -1:].clone()
    ends = parts.gather(2, torch.minimum(by_loop, by_formulas)[..., None]).squeeze(2)
    is_at_end = (ends - draws[..., 1]).abs() < 1e-6
    assert torch.equal(by_loop.where(~is_at_end, by_formulas), by_formulas)
    assert legal.gather(2, by_loop[..., None]).all()
    assert (by_loop != by_formulas).double().mean() < 1e-3


@pytest.mark.parametrize("chosen", [policies.chosen, policies_cpu.chosen])
def test_a_choice_says_how_likely_it_is_among_the_legal_ones(chosen):
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(*SHAPE, 5, generator=generator)
    legal = torch.rand(*SHAPE, 5, generator=generator) < 0.5
    legal[..., 3] = True
    values[0, ::7, 1], values[0, ::11, 2], values[1, 3] = inf, -inf, nan
    action, told = chosen("probabilities", values, legal, noise(), torch.tensor(0.5))
    expected = values.double().where(legal, -inf).log_softmax(dim=2).gather(2, action[..., None])
    torch.testing.assert_close(told, expected.squeeze(2).float(), equal_nan=True)
    assert told.isnan().any()


def chi_square(chosen: Tensor, probabilities: list[float]) -> float:
    """Return how likely counts that are farther off would be."""
    counts = chosen.bincount(minlength=len(probabilities)).double()
    expected = torch.tensor(probabilities, dtype=torch.float64) * len(chosen)
    assert not counts[expected == 0].any()
    possible = expected > 0
    return stats.chisquare(counts[possible].numpy(), expected[possible].numpy()).pvalue


WEIGHTS = ([1.0, 1.0, 1.0], [0.0, 1.0, 3.0], [5.0, 0.0, 0.1], [0.3, 0.3, 0.0], [0.0, 7.0, 0.0])


@pytest.mark.parametrize("weights", WEIGHTS)
def test_draw_draws_as_often_as_weights_say(weights):
    generator = torch.Generator().manual_seed(1)
    many = torch.tensor(weights).expand(20_000, -1)
    chosen = draw(many, torch.rand(len(many), generator=generator))
    total = sum(weights)
    if sum(weight > 0 for weight in weights) > 1:
        assert chi_square(chosen, [weight / total for weight in weights]) > 1e-3
    else:
        assert (chosen == 1).all()


@given(
    st.lists(
        st.just(0.0)
        | st.floats(2.0**-100, 1.0, width=32)
        | st.sampled_from([0.1, 1 / 3, 1e-7, 3e7]),
        min_size=1,
        max_size=9,
    ).filter(any),
    st.sampled_from(ENDS.tolist()) | st.integers(0, 2**24 - 1).map(lambda k: k * 2.0**-24),
)
def test_what_has_weight_0_is_never_drawn(weights, at):
    """At noise 0, at the largest below 1, and with totals that no float32 is."""
    exact = torch.tensor(weights)
    index = draw(exact, torch.tensor(at)).item()
    assert weights[index] > 0
    # The index is where the cumulated weights pass the noise: exact up to float64's rounding.
    total = sum(exact.double().tolist())
    below = sum(exact.double().tolist()[:index])
    assert below <= at * total * (1 + 1e-12)
    assert below + exact[index].double().item() >= at * total * (1 - 1e-12)


def test_the_ends_of_the_noise_draw_the_first_and_the_last_possible_action():
    weights = torch.tensor([[0.0, 0.1, 0.2, 0.0], [1 / 3, 1 / 3, 1 / 3, 0.0], [0.0, 0.0, 0.0, 7.0]])
    assert draw(weights, torch.zeros(3)).tolist() == [1, 0, 3]
    assert draw(weights, torch.full((3,), LARGEST_NOISE)).tolist() == [2, 2, 3]


def test_a_stochastic_host_draws_by_its_probabilities():
    actions = STOCHASTIC_HOST(Turn(position(), None, noise(), torch.tensor(1.0)))
    for member in range(NUM_MEMBERS):
        odds = HOST_VALUES.values[member].double().exp()
        assert chi_square(actions[member], (odds / odds.sum()).tolist()) > 1e-3


def test_a_stochastic_agent_draws_by_its_probabilities_in_the_subset():
    axes = STOCHASTIC_AGENT(Turn(position(), subsets(), noise(), torch.tensor(1.0)))
    for member in range(NUM_MEMBERS):
        for action in range(ENCODER.num_actions):
            legal = ENCODER.decode(torch.tensor(action))
            odds = AGENT_VALUES.values[member].double().exp() * legal
            chosen = axes[member, torch.arange(NUM_GAMES) % ENCODER.num_actions == action]
            if odds.max() < (1 - 1e-4) * odds.sum():
                assert chi_square(chosen, (odds / odds.sum()).tolist()) > 1e-3
            else:  # too few draws are expected of the others
                assert (chosen != odds.argmax()).sum() <= 3


def test_softmax_is_the_quotient_of_exponentials_over_legal_actions():
    generator = torch.Generator().manual_seed(2)
    values = 5 * torch.randn(50, 4, generator=generator)
    legal = torch.rand(50, 4, generator=generator) < 0.5
    legal[:, 2] = True
    odds = values.double().exp() * legal
    chances = softmax(values, legal).double()
    torch.testing.assert_close(chances, odds / odds.sum(dim=1, keepdim=True), rtol=1e-5, atol=1e-7)
    assert (chances[~legal] == 0).all()


@given(
    st.lists(st.sampled_from([nan, inf, -inf, -3.4e38, 3.4e38, 0.0, 1.0]), min_size=3, max_size=3)
)
def test_weights_of_wild_values_are_numbers_and_legal(values):
    legal = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=torch.bool)
    for weigh in (uniform, softmax):
        weights = weigh(torch.tensor(values).expand(4, 3), legal)
        assert weights.isfinite().all()
        assert not weights[~legal].any()
        assert (weights.sum(dim=1) > 0).all()


def test_the_rate_is_how_often_a_stochastic_player_draws():
    rate = 0.4
    actions = STOCHASTIC_HOST(Turn(position(), None, noise(), torch.tensor(rate)))
    for member in range(NUM_MEMBERS):
        odds = HOST_VALUES.values[member].double().exp()
        expected = rate * odds / odds.sum()
        expected[odds.argmax()] += 1 - rate
        assert chi_square(actions[member], expected.tolist()) > 1e-3


def test_an_agent_sees_the_subset_after_the_points():
    observation, subset = torch.rand(2, 4, 6), torch.rand(2, 4, 3) < 0.5
    features = features_of(observation, subset)
    assert torch.equal(features[..., :6], observation)
    assert torch.equal(features[..., 6:], subset.float())


def test_legal_values_keeps_legal_ones():
    values = torch.tensor([[1.0, 2.0, 3.0], [-4.0, 5.0, -6.0]])
    legal = torch.tensor([[True, True, False], [True, False, True]])
    kept = legal_values(values, legal)
    assert torch.equal(kept[legal], values[legal])
    assert kept.argmax(1).tolist() == [1, 0]


def test_scripted_players_never_explore():
    host = ScriptedPolicy("all_coord")(Turn(position(), None, noise(), torch.tensor(1.0)))
    agent = ScriptedPolicy("choose_last")(Turn(position(), subsets(), noise(), torch.tensor(1.0)))
    assert (host == ENCODER.num_actions - 1).all()
    last = [max(a for a in range(DIMENSION) if s[a]) for s in subsets()[0].tolist()]
    assert agent[0].tolist() == last
