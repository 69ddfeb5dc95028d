"""Standings of a cross-play whose lengths are known: each number as the ratings give it alone."""

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from hpsearch.analysis import standings as module
from hpsearch.analysis.standings import (
    CELL_SAMPLES,
    MAX_NUMBERED,
    NUM_CYCLES,
    RANK_NOISE,
    RATING_SAMPLES,
    RIDGE,
    columns_that_fit,
    csv_text,
    print_standings,
    standings,
    write_matrix,
)
from hpsearch.game.random import derive_key
from hpsearch.population.crossplay import CrossPlay
from hpsearch.population.ratings.alpha_rank import alpha_rank_limit
from hpsearch.population.ratings.bradley_terry import bradley_terry, wins_by_speed
from hpsearch.population.ratings.cycles import cyclic_share_beyond_noise, swap_cycles
from hpsearch.population.ratings.nash import nash_averaging, nash_conv
from hpsearch.population.statistics import interval, resampled_rho, rho_errors
from hpsearch.terminal import WIDTH

SEED, CAP = 3, 100


def played(means, num_games: int = 60) -> CrossPlay:
    """Games of every pair whose lengths lie around ``means`` (P, Q)."""
    rng = np.random.default_rng(0)
    means = np.asarray(means, dtype=np.float64)
    moves = np.minimum(1 + rng.poisson(means[..., None] - 1, (*means.shape, num_games)), CAP)
    hosts, agents = (tuple(f"{s}{n}" for n in range(k)) for s, k in zip("ha", means.shape))  # noqa: B905
    return CrossPlay(hosts, agents, moves, moves < CAP)


@pytest.fixture(scope="module")
def games() -> CrossPlay:
    """Three hosts and three agents, each of which one of the others answers."""
    return played([[6, 9, 14], [14, 6, 9], [9, 14, 6.5]])


@pytest.fixture(scope="module")
def rated(games):
    return standings(games, SEED)


def text_of(rated, *, width=None, intervals=False) -> str:
    console = Console(file=io.StringIO(), width=WIDTH)
    print_standings(console, rated, intervals=intervals, width=width)
    return console.file.getvalue()


def order(standings_of_a_side) -> list[int]:
    return [int(standing.name[1:]) for standing in standings_of_a_side]


def test_the_strongest_come_first(games, rated):
    hosts = [host.nash.value for host in rated.hosts]
    agents = [agent.nash.value for agent in rated.agents]
    assert hosts == pytest.approx(sorted(hosts, reverse=True))
    assert agents == pytest.approx(sorted(agents))
    for side in (rated.hosts, rated.agents):
        shares = [player.played for player in side]
        assert shares == sorted(shares, reverse=True)
    rows, columns = order(rated.hosts), order(rated.agents)
    assert (rated.rho == games.rho()[rows][:, columns]).all()
    assert (rated.low < rated.rho).all()
    assert (rated.rho < rated.high).all()


def test_every_rating_is_that_of_its_function(games, rated):
    rho, errors = games.rho(), rho_errors(games.moves)
    rng = np.random.default_rng(derive_key(SEED, "cross-play", "resampling"))
    samples = resampled_rho(games.moves, CELL_SAMPLES, rng)
    nash = nash_averaging(rho)
    ratings = np.stack([nash_averaging(sample).hosts for sample in samples[:RATING_SAMPLES]])
    low, high = interval(ratings, 0.95)
    strengths = bradley_terry(wins_by_speed(games.moves), np.full((3, 3), 60), ridge=RIDGE)
    rank = alpha_rank_limit(rho, -rho, noise=RANK_NOISE)
    for host, p in zip(rated.hosts, order(rated.hosts), strict=True):
        assert (host.nash.value, host.nash.low, host.nash.high) == (nash.hosts[p], low[p], high[p])
        assert host.played == nash.equilibrium.hosts[p]
        assert host.strength.value == strengths.hosts[p]
        assert host.strength.low == strengths.intervals(0.95)[0][0, p]
        assert host.alpha_rank == rank.sum(axis=1)[p]
        alone = nash_conv(rho, replace(nash.equilibrium, hosts=np.eye(3)[p]))
        assert host.exploitability == pytest.approx(alone)
        assert rho[p, int(host.best_answer[1:])] == rho[p].min()
    for agent, q in zip(rated.agents, order(rated.agents), strict=True):
        assert agent.nash.value == nash.agents[q]
        assert agent.strength.high == strengths.intervals(0.95)[1][1, q]
        assert agent.alpha_rank == rank.sum(axis=0)[q]
        alone = nash_conv(rho, replace(nash.equilibrium, agents=np.eye(3)[q]))
        assert agent.exploitability == pytest.approx(alone)
        assert rho[int(agent.best_answer[1:]), q] == rho[:, q].max()
    assert rated.balance.value.value == nash.equilibrium.value
    assert rated.balance.exploitability == pytest.approx(0.0, abs=1e-8)
    assert rated.balance.resampled_exploitability > 0.001
    assert rated.cyclic_share == cyclic_share_beyond_noise(rho, errors)
    assert rated.cyclic_share_log == cyclic_share_beyond_noise(np.log(rho), errors / rho)


def test_cycles_are_shown_by_name(games, rated):
    swaps = [cycle for cycle in rated.cycles if cycle["kind"] == "swap"]
    direct = swap_cycles(
        games.rho(), errors=rho_errors(games.moves), confidence=0.95, num_cycles=NUM_CYCLES
    )
    assert [cycle["strength"] for cycle in swaps] == [cycle.strength for cycle in direct]
    rounds = [cycle for cycle in rated.cycles if cycle["kind"] == "best answers"]
    assert [set(cycle["hosts"]) for cycle in rounds] == [{"h0", "h1", "h2"}]
    assert rated.cyclic_share > 0.8
    text = text_of(rated)
    assert "cyclic: 9" in text
    assert "\n  two hosts, two agents, by 0.0" in text
    assert "\n  best answers, by 0.0" in text
    assert "host h0 < agent a2 < host h2 < agent a1 < host h1 < agent a0 < host h0" in text


def test_one_strength_a_player_has_no_cycles():
    rated = standings(played(10 * np.outer([1.0, 1.6, 2.5], [1.0, 0.7, 0.5])), SEED)
    assert rated.cycles == ()
    assert rated.cyclic_share_log < 0.1
    assert "no cycle stands out from the noise" in text_of(rated)
    assert "best host: h0; its best answer, a0, takes 0.0000 of rho" in text_of(rated)


def test_the_matrix_is_cut_at_the_width_and_whole_elsewhere():
    rated = standings(played(np.linspace(5, 20, 60).reshape(2, 30)), SEED)
    assert columns_that_fit(rated, 60, intervals=False) == 7  # 4, then 8 an agent
    assert columns_that_fit(rated, 60, intervals=True) == 3  # 4, then 16 an agent
    assert columns_that_fit(rated, 3, intervals=False) == 1
    narrow, whole = text_of(rated, width=60), text_of(rated)
    assert "23 weaker agents do not fit here; --json and -o FILE show them too" in narrow
    assert max(len(line) for line in narrow.splitlines()[2:5]) == 60
    assert "do not fit" not in whole
    header = next(line for line in whole.splitlines() if line.startswith("host "))
    assert header.split()[1:] == [agent.name for agent in rated.agents]
    assert f"{rated.rho[0, 0]:.4f} ±" in text_of(rated, intervals=True)


def test_what_did_not_finish_is_said():
    rated = standings(played([[5, 130], [6, 7]]), SEED)
    assert "25.0% of all games were not over after the last move allowed" in text_of(rated)
    assert "h0 against a1: 100.0%" in text_of(rated)


def test_alpha_rank_is_left_out_where_it_takes_long(games, monkeypatch):
    monkeypatch.setattr(module, "MAX_RANKED_PAIRS", 8)
    rated = standings(games, SEED)
    assert {host.alpha_rank for host in (*rated.hosts, *rated.agents)} == {None}
    text = text_of(rated)
    assert "alpha-rank is left out: its time grows with the cube of the pairs" in text
    assert "strength\n" in text.replace(" ", "")


def test_a_single_pair_is_rated():
    rated = standings(played([[7]]), SEED)
    assert (rated.hosts[0].played, rated.hosts[0].alpha_rank) == (1.0, 1.0)
    assert rated.balance.value.value == rated.rho[0, 0]
    assert "h0" in text_of(rated)


def test_a_line_a_pair(rated):
    rows = list(csv.reader(io.StringIO(csv_text(rated))))
    assert rows[0] == ["host", "agent", "rho", "low", "high", "capped", "games"]
    assert len(rows) == 10
    host, agent, *numbers, games = rows[2]
    assert (host, agent, games) == (rated.hosts[0].name, rated.agents[1].name, "60")
    assert [float(number) for number in numbers] == [
        float(matrix[0, 1]) for matrix in (rated.rho, rated.low, rated.high, rated.capped)
    ]


def test_small_matrices_are_drawn_with_numbers(rated, tmp_path):
    path = tmp_path / "new" / "matrix.svg"
    write_matrix(rated, path)
    drawn = path.read_text()
    for host in (*rated.hosts, *rated.agents):
        assert f"<!-- {host.name} -->" in drawn
    assert drawn.count(f"<!-- {rated.rho[0, 0]:.3f} -->") == 1
    write_matrix(rated, path)
    assert path.read_text() == drawn
    wide = standings(played([range(5, MAX_NUMBERED + 6)]), SEED)
    write_matrix(wide, path)
    assert f"<!-- {wide.rho[0, 0]:.3f} -->" not in path.read_text()
