"""Measuring against the published numbers and against games played one by one."""

import pytest
import torch

from hpsearch.game import GameConfig, HostActionEncoder, rules
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.evaluation import Measurement, evaluate, scripted
from hpsearch.trainers.metrics import MODES, PANELS, metric_names
from hpsearch.trainers.playing import member_noise, play
from hpsearch.trainers.policies import Position, ScriptedPolicy, Turn

CPU = torch.device("cpu")
AGENTS = ("choose_first", "choose_last", "random")
HOSTS = ("random", "all_coord", "zeillinger")


def measure_hosts(policy, agents, num_members, how):
    return [
        evaluation.metrics
        for evaluation in evaluate("host", policy, scripted(agents), num_members, how)
    ]


def measure_agents(policy, hosts, num_members, how):
    return [
        evaluation.metrics
        for evaluation in evaluate("agent", policy, scripted(hosts), num_members, how)
    ]


def game(num_points: int = 20) -> GameConfig:
    return GameConfig(
        dimension=3,
        max_num_points=num_points,
        max_value=20,
        max_steps=100,
        reposition=True,
        reward="terminal",
    )


def measurement(
    *, num_points=20, num_games=200, max_steps=100, exploration=0.0, split="test", modes=MODES
):
    return Measurement(game(num_points), num_games, max_steps, exploration, split, modes, CPU)


@pytest.mark.parametrize(
    ("host", "agent", "published", "tolerance"),
    [
        # Heavy tails against choose_first: zeillinger sometimes circles for ever.
        ("zeillinger", "choose_first", 0.079, 0.08),
        ("zeillinger", "random", 0.186, 0.05),
        ("all_coord", "random", 0.215, 0.05),
    ],
)
def test_published_numbers_at_20x3(host, agent, published, tolerance):
    how = measurement(num_games=5000)
    (metrics,) = measure_hosts(ScriptedPolicy(host), [agent], 1, how)
    measured = metrics[f"rho/host/{agent}"]
    assert measured.value == pytest.approx(published, rel=tolerance)
    assert measured.low < measured.value < measured.high
    assert measured.games == 5000
    # The same pair, seen from the agent.
    (metrics,) = measure_agents(ScriptedPolicy(agent), [host], 1, how)
    other = metrics[f"rho/agent/{host}"]
    assert other.low < measured.high
    assert measured.low < other.high


def test_published_number_at_5x3():
    how = measurement(num_points=5, num_games=5000)
    (metrics,) = measure_hosts(ScriptedPolicy("zeillinger"), ["choose_first"], 1, how)
    assert metrics["rho/host/choose_first"].value == pytest.approx(0.147, rel=0.08)


def test_all_coord_never_ends_a_game_against_choose_first():
    """Published: 10 games begun in 10,000 moves, all capped. Each game counts as the cap."""
    (metrics,) = measure_hosts(
        ScriptedPolicy("all_coord"), ["choose_first"], 1, measurement(max_steps=60)
    )
    measured = metrics["rho/host/choose_first"]
    assert measured.capped > 0.8
    assert 1 / 60 <= measured.value < 1 / 45


@pytest.mark.parametrize("reposition", [True, False])
def test_lengths_are_those_of_games_played_one_by_one(reposition):
    cap, num_games = 12, 60
    config = GameConfig(
        dimension=3,
        max_num_points=6,
        max_value=9,
        max_steps=cap,
        reposition=reposition,
        reward="terminal",
    )
    generator = torch.Generator().manual_seed(0)
    points = torch.randint(0, 10, (1, 200, 6, 3), generator=generator, dtype=torch.int32)
    starts = rules.newton_polytope(points)
    starts = starts[:, ~rules.is_over(starts[0])][:, :num_games]
    nothing = torch.zeros(1, dtype=torch.int64)
    moves, finished, _ = play(
        ScriptedPolicy("zeillinger"),
        ScriptedPolicy("choose_last"),
        starts,
        max_steps=cap,
        reposition=config.reposition,
        exploration=(torch.zeros(()), torch.zeros(())),
        noise=member_noise(nothing, num_games),
    )
    assert not finished.all()
    encoder, noise = HostActionEncoder(3), torch.zeros(1, 2)
    for g in range(num_games):
        position, length = starts[0, g][None], 0
        while not rules.is_over(position).item() and length < cap:
            seen = Position.of(position)
            action = ScriptedPolicy("zeillinger")(Turn(seen, None, noise, torch.zeros(())))
            subset = encoder.decode(action)
            axis = 2 - subset.flip(-1).int().argmax(-1)
            position = rules.move(position, subset, axis)
            position = rules.reposition(position) if reposition else position
            length += 1
        assert moves[0, g] == length
        assert finished[0, g] == rules.is_over(position).item()


def test_a_game_beyond_the_bound_stays_unfinished():
    # The first coordinates become 2^30 - 10 and 2^30 + 15: two points, one of them too large.
    starts = torch.tensor([[[[10, 2**30 - 20], [2**30 - 5, 20]]]], dtype=torch.int32)
    nothing = torch.zeros(1, dtype=torch.int64)
    moves, finished, _ = play(
        ScriptedPolicy("all_coord"),
        ScriptedPolicy("choose_first"),
        rules.newton_polytope(starts),
        max_steps=50,
        reposition=False,
        exploration=(torch.zeros(()), torch.zeros(())),
        noise=member_noise(nothing, 1),
    )
    assert moves.tolist() == [[50]]
    assert finished.tolist() == [[False]]


@pytest.mark.parametrize("num_members", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_a_player_measures_the_same_in_any_population(num_members):
    how = measurement(num_games=100, exploration=0.2)
    for name in HOSTS:
        host = ScriptedPolicy(name)
        alone = measure_hosts(host, AGENTS, 1, how)
        assert measure_hosts(host, AGENTS, num_members, how) == alone * num_members
    for name in AGENTS:
        agent = ScriptedPolicy(name)
        alone = measure_agents(agent, HOSTS, 1, how)
        assert measure_agents(agent, HOSTS, num_members, how) == alone * num_members


def test_a_learned_player_measures_the_same_in_any_population(tiny_config):
    changes = {"agent": "learn", "evaluation.opponents": [*AGENTS, "all_coord", "zeillinger"]}
    members = [tiny_config({**changes, "seed": seed}) for seed in (1, 2, 3)]
    population = build_trainer(members)
    population.train(3)
    together = population.evaluate_rho(num_games=40, split="test")
    for index in range(3):
        alone = population.select([index]).evaluate_rho(num_games=40, split="test")
        assert alone == [together[index]]
    assert together[0] != together[1]


def test_a_split_is_a_fixed_set_of_starts():
    host = ScriptedPolicy("zeillinger")
    first, again, other = (
        measure_hosts(host, ["choose_first"], 1, measurement(split=split))
        for split in ("a", "a", "b")
    )
    assert first == again
    assert first != other


def test_greedy_and_sampled_policies_differ_by_exploration_alone(tiny_config):
    trainer = build_trainer(
        [tiny_config({"evaluation.er": 0.0, "agent": {"player": "choose_first"}})]
    )
    (metrics,) = trainer.evaluate_rho(num_games=50, split="test")
    assert metrics["rho/host/choose_first"] == metrics["rho_sampled/host/choose_first"]
    always = build_trainer(
        [tiny_config({"evaluation.er": 1.0, "agent": {"player": "choose_first"}})]
    )
    (sampled,) = always.evaluate_rho(num_games=4000, split="test")
    how = Measurement(
        GameConfig(
            dimension=3,
            max_num_points=4,
            max_value=5,
            max_steps=6,
            reposition=True,
            reward="terminal",
        ),
        *(4000, 10, 0.0, "test", MODES, CPU),
    )
    (random,) = measure_hosts(ScriptedPolicy("random"), ["choose_first"], 1, how)
    expected = random["rho/host/choose_first"].value
    assert sampled["rho_sampled/host/choose_first"].value == pytest.approx(expected, rel=0.1)
    assert (
        sampled["rho/host/choose_first"]
        == always.evaluate_rho(num_games=4000, split="test")[0]["rho/host/choose_first"]
    )


def test_panel_is_the_geometric_mean_over_the_three():
    how = measurement(num_games=100)
    (metrics,) = measure_hosts(ScriptedPolicy("zeillinger"), AGENTS, 1, how)
    product = 1.0
    for name in AGENTS:
        product *= metrics[f"rho/host/{name}"].value
    assert metrics["panel/host"].value == pytest.approx(product ** (1 / 3))
    assert metrics["panel/host"].games == 300
    (metrics,) = measure_agents(ScriptedPolicy("random"), HOSTS[:2], 1, how)
    assert "panel/agent" not in metrics


@pytest.mark.parametrize(("role", "extreme"), [("host", min), ("agent", max)])
def test_worst_is_rho_against_the_opponent_that_beats_a_player_most(role, extreme):
    how = measurement(num_games=100)
    if role == "host":
        names = AGENTS
        (metrics,) = measure_hosts(ScriptedPolicy("zeillinger"), names, 1, how)
    else:
        names = HOSTS
        (metrics,) = measure_agents(ScriptedPolicy("choose_first"), names, 1, how)
    against = {name: metrics[f"rho/{role}/{name}"] for name in PANELS[role]}
    worst = metrics[f"worst/{role}"]
    weakest = extreme(against.values(), key=lambda rho: rho.value)
    assert worst.value == weakest.value
    assert worst.games == 300
    assert worst.low <= worst.value <= worst.high
    # Where one opponent is far worse than the others, its interval is the worst one's.
    assert worst.low == pytest.approx(weakest.low, rel=0.05)
    assert worst.high == pytest.approx(weakest.high, rel=0.05)
    assert f"worst_sampled/{role}" in metrics


def test_without_the_sampled_mode_the_greedy_one_is_the_same():
    for names, measure, policy in (
        (AGENTS, measure_hosts, ScriptedPolicy("zeillinger")),
        (HOSTS, measure_agents, ScriptedPolicy("random")),
    ):
        (both,) = measure(policy, names, 1, measurement())
        (greedy,) = measure(policy, names, 1, measurement(modes=MODES[:1]))
        assert len(both) == 2 * len(greedy) == 10
        for name, measured in greedy.items():
            assert not name.startswith(("rho_sampled", "panel_sampled", "worst_sampled"))
            # The noise of a game differs with the number of lanes; its start does not.
            assert measured.low < both[name].high
            assert both[name].low < measured.high


def test_metric_names_are_those_measured(tiny_config):
    for opponents in (["choose_first", "all_coord"], [*AGENTS, *HOSTS]):
        config = tiny_config({"agent": "learn", "evaluation.opponents": sorted(set(opponents))})
        (metrics,) = build_trainer([config]).evaluate_rho(num_games=4, split="test")
        assert set(metric_names(config.measured_against())) == set(metrics)
