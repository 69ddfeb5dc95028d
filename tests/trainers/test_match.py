"""The match against the published table and against games played one by one on Python integers."""

from dataclasses import replace

import pytest
import torch

from hpsearch.game import rules
from hpsearch.game.rules import HostActionEncoder
from hpsearch.trainers.match import PUBLISHED, MatchResult, MatchRules, play_matches
from hpsearch.trainers.policies import Position, ScriptedPolicy
from hpsearch.trainers.published import MATCHES, TRAINED

CPU = torch.device("cpu")
SMALL = MatchRules(
    dimension=3,
    num_points=6,
    num_rows=8,
    max_value=5,
    max_steps=5,
    reposition=True,
    num_moves=120,
    num_lanes=4,
)


def play(host, agent, how, seed=0) -> MatchResult:
    return play_matches({"these": (host, agent)}, how, seed=seed, device=CPU)["these"]


def match(host, agent, how, seed=0) -> MatchResult:
    return play(ScriptedPolicy(host), ScriptedPolicy(agent), how, seed)


SCRIPTED = [pair for pair in MATCHES if pair.host != TRAINED]
LANES = 10


@pytest.fixture(scope="module")
def published_matches():
    """The whole published match of every pair."""
    players = {pair: (ScriptedPolicy(pair.host), ScriptedPolicy(pair.agent)) for pair in SCRIPTED}
    return play_matches(players, replace(PUBLISHED, num_lanes=LANES), seed=0, device=CPU)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(SCRIPTED)))
def test_the_published_table(published_matches, index):
    pair = SCRIPTED[index]
    result = published_matches[pair]
    assert pair.is_reproduced_by(result.mean), (result.mean, result.deviation)
    assert 0 < result.deviation < 0.25 * result.mean
    # "all capped", but for the few games that a single point ends at once.
    is_endless = (pair.host, pair.agent) == ("all_coord", "choose_first")
    assert (result.stopped_share > 0.7) == is_endless
    assert (result.stopped_share < 0.01) != is_endless


def test_a_figure_is_reproduced_between_the_two_published_ones():
    pair = next(p for p in MATCHES if (p.host, p.agent) == ("random_pair", "choose_first"))
    reproduced = [n for n in range(400, 650) if pair.is_reproduced_by(n)]
    assert (reproduced[0], reproduced[-1]) == (464, 579)  # 488 * 0.95 and 552 * 1.05


class Recording:
    """A host that remembers what it sees."""

    def __init__(self, name):
        self.policy, self.seen = ScriptedPolicy(name), []

    def __call__(self, position, subset, noise, exploration):
        self.seen.append(position.points.clone())
        return self.policy(position, subset, noise, exploration)


@pytest.mark.parametrize("reposition", [True, False])
@pytest.mark.parametrize("agent", ["choose_first", "choose_last"])
def test_games_follow_one_another_by_the_rules(agent, reposition):
    how = replace(SMALL, reposition=reposition)
    host = Recording("zeillinger")
    result = play(host, ScriptedPolicy(agent), how, seed=3)
    seen = torch.cat(host.seen)
    assert seen.shape == (120, 4, 8, 3)
    for lane in range(how.num_lanes):
        games, stopped, length = 1, 0, 0
        for move in range(how.num_moves):
            points = seen[move, lane]
            if length == 0:
                assert is_fresh(points, how)
            length += 1
            after = step(points, agent, reposition)
            if rules.is_over(after) or length == how.max_steps:
                stopped += not rules.is_over(after)
                length = 0
                games += move + 1 < how.num_moves
            elif move + 1 < how.num_moves:
                assert torch.equal(seen[move + 1, lane], after)
        assert (result.games[lane], result.stopped[lane]) == (games, stopped)
    assert sum(result.stopped) > 0


def is_fresh(points, how) -> bool:
    drawn, rest = points[: how.num_points], points[how.num_points :]
    rows = [tuple(row) for row in drawn.tolist()]
    return (
        bool((rest == -1).all())
        and 0 <= int(drawn.min()) <= int(drawn.max()) <= how.max_value
        and rows == sorted(rows, reverse=True)
    )


def step(points, agent, reposition):
    host = ScriptedPolicy("zeillinger")
    action = host(Position.of(points), None, torch.zeros(2), torch.zeros(()))
    subset = HostActionEncoder(3).decode(action)
    chosen = subset.nonzero().flatten()
    after = rules.move(points, subset, chosen[0 if agent == "choose_first" else -1])
    return rules.reposition(after) if reposition else after


def test_matches_at_once_are_those_of_each_alone():
    """Of one host and several agents, of one agent and several hosts, and of others altogether."""
    names = [("zeillinger", "choose_first"), ("zeillinger", "random"), ("random", "random")]
    for chosen in (names[:2], names[1:], names):
        hosts = {name: ScriptedPolicy(name) for name, _ in chosen}
        agents = {name: ScriptedPolicy(name) for _, name in chosen}
        players = {pair: (hosts[pair[0]], agents[pair[1]]) for pair in chosen}
        together = play_matches(players, SMALL, seed=5, device=CPU)
        assert together == {pair: match(*pair, SMALL, seed=5) for pair in chosen}


def test_starts_are_uniform_and_not_reduced():
    host = Recording("random")
    how = replace(SMALL, max_steps=1, num_moves=500)
    result = play(host, ScriptedPolicy("random"), how, seed=1)
    drawn = torch.cat(host.seen)[:, :, :6]
    counts = torch.bincount(drawn.flatten(), minlength=6)
    assert len(counts) == 6
    expected = drawn.numel() / 6
    assert ((counts - expected).abs() < 5 * expected**0.5).all()
    # Games of one move: every start is dealt, also those that a reduction would change.
    assert (rules.newton_polytope(drawn) != drawn).any()
    assert result.games == (500,) * 4


def test_lanes_do_not_depend_on_one_another_and_seeds_differ():
    few = match("random_pair", "random", SMALL)
    more = match("random_pair", "random", replace(SMALL, num_lanes=9))
    assert more.games[:4] == few.games
    assert more.stopped[:4] == few.stopped
    assert len(set(more.games)) > 1
    assert match("random_pair", "random", SMALL) == few
    assert match("random_pair", "random", SMALL, seed=1) != few


def test_mean_deviation_and_share():
    result = MatchResult(games=(2, 4, 9), stopped=(0, 1, 2))
    assert result.mean == 5
    assert result.deviation == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert result.stopped_share == pytest.approx(3 / 15)
    assert MatchResult((7,), (0,)).deviation == 0


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="a row for every point"):
        replace(SMALL, num_rows=5)
