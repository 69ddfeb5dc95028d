"""The yardstick against published depths, the solver, and a host that follows the solver."""

import math

import numpy as np
import pytest
import torch

from hpsearch.game.rules import HostActionEncoder, points_text
from hpsearch.game.solver import Solver
from hpsearch.trainers.policies import ScriptedPolicy
from hpsearch.trainers.published import ADE
from hpsearch.trainers.yardstick import (
    EXACT_DEPTHS,
    check_size,
    measure,
    random_starts,
)

CPU = torch.device("cpu")


def host_yardstick(name, *, num_rows=20, reposition=True):
    policy = ScriptedPolicy(name)
    return measure("host", policy, num_rows=num_rows, reposition=reposition, device=CPU)


def agent_yardstick(policy, num_rows=5):
    return measure("agent", policy, num_rows=num_rows, reposition=True, device=CPU)


@pytest.mark.parametrize("case", ADE, ids=lambda case: case.name)
def test_the_number_in_a_singularitys_name_is_its_milnor_number(case):
    """Of x^a for each row a: the product of 1/w - 1 over the weights w that make every row 1.

    Source: Milnor and Orlik, Isolated singularities defined by weighted homogeneous polynomials
    (Topology 9, 1970), theorem 1.
    """
    weights = np.linalg.solve(np.array(case.points, dtype=float), np.ones(3))
    assert np.prod(1 / weights - 1) == pytest.approx(int(case.name[1:]))
    family = case.name[0]
    exponents = sorted(max(row) for row in case.points)
    assert exponents[:2] == ([2, 3] if family == "E" else [2, 2])


PUBLISHED_DEPTHS = "A1 1/2/-, A2 3/4/3, A3 2/3/2, A4 4/5/5, D4 4/8/5, E6 6/10/7"
"""worst-case moves under best play, under zeillinger's, and under that of the best model"""


def test_the_published_depths_are_those_of_the_table():
    expected = {}
    for row in PUBLISHED_DEPTHS.split(", "):
        name, depths = row.split()
        expected[name] = tuple(None if n == "-" else int(n) for n in depths.split("/"))
    for name in ("D5", "E7", "E8"):
        expected[name] = (None, None, None)
    assert {case.name: (case.minimax, case.zeillinger, case.best_model) for case in ADE} == expected


def test_the_published_part_of_the_ade_table():
    measured = {row.name: row for row in host_yardstick("zeillinger").ade}
    assert list(measured) == [case.name for case in ADE]
    for case in ADE:
        if case.minimax is not None:
            assert measured[case.name].exact == case.minimax
            assert measured[case.name].player == case.zeillinger
    assert [row.reference for row in measured.values()] == [r.player for r in measured.values()]


def test_the_part_that_was_not_published():
    """Exact values by the solver alone; zeillinger's as we compute them."""
    rows = {row.name: (row.exact, row.player) for row in host_yardstick("zeillinger").ade}
    assert {name: rows[name] for name in ("D5", "E7", "E8")} == {
        "D5": (5, 9),
        "E7": (6, 10),
        "E8": (7, 13),
    }


def test_random_starts_are_fixed_and_their_values_exact():
    starts = random_starts()
    assert len(starts) == 200
    assert len(set(starts)) > 190
    assert all(2 <= len(start) <= 5 and max(map(max, start)) <= 5 for start in starts)
    solver = Solver(3)
    depths = [solver.depth(start) for start in starts]
    assert [int(depth) for depth in EXACT_DEPTHS.split()] == depths
    mean = sum(depths) / 200
    row = host_yardstick("zeillinger").random
    assert row.exact == pytest.approx(mean)
    assert row.regret == pytest.approx(row.player - mean)
    assert (row.starts, row.unbounded) == (200, 0)


class BestHost:
    """Follows the solver."""

    def __init__(self):
        self.solver, self.chosen = Solver(3), {}

    def __call__(self, turn):
        assert turn.position.points.shape[0] == 1
        assert not turn.noise.any()
        assert not turn.exploration.any()
        return torch.tensor([[self.choose(points) for points in turn.position.points[0]]])

    def choose(self, points):
        key = points_text(points)
        if key not in self.chosen:
            rows = [row for row in points.tolist() if row[0] >= 0]
            worst = [self.worst(rows, action) for action in range(4)]
            self.chosen[key] = worst.index(min(worst))
        return self.chosen[key]

    def worst(self, rows, action):
        subset = HostActionEncoder(3).decode(torch.tensor(action)).nonzero().flatten().tolist()
        return max(self.solver.depth([self.moved(row, subset, k) for row in rows]) for k in subset)

    @staticmethod
    def moved(row, subset, axis):
        return [sum(row[k] for k in subset) if k == axis else row[k] for k in range(3)]


@pytest.mark.slow
def test_perfect_play_has_no_regret():
    yardstick = measure("host", BestHost(), num_rows=5, reposition=True, device=CPU)
    assert [row.player for row in yardstick.ade] == [row.exact for row in yardstick.ade]
    assert yardstick.random.regret == 0
    assert yardstick.random.player == yardstick.random.exact


def test_what_never_ends_is_told_apart():
    """All coordinates: every answer ends A1 at once, but one goes on for ever from most."""
    yardstick = host_yardstick("all_coord", num_rows=5)
    rows = {row.name: row.player for row in yardstick.ade}
    assert (rows["A1"], rows["A2"]) == (1, math.inf)
    assert yardstick.random.unbounded > 0.9


@pytest.mark.parametrize("name", ["choose_first", "choose_last"])
def test_an_agent_delays_no_longer_than_the_best_one(name):
    yardstick = agent_yardstick(ScriptedPolicy(name))
    assert all(1 <= row.player <= row.exact for row in yardstick.ade)
    assert yardstick.random.unbounded == 0
    assert yardstick.random.regret == pytest.approx(
        yardstick.random.exact - yardstick.random.player
    )
    assert yardstick.random.regret > 0


def test_choose_first_is_beaten_at_once_on_the_singularities():
    """The whole set, axis 0: then (2,0,0) lies below all other points."""
    yardstick = agent_yardstick(ScriptedPolicy("choose_first"))
    assert [row.player for row in yardstick.ade] == [1] * len(ADE)
    assert yardstick.role == "agent"


def test_rows_and_repositioning_change_nothing_for_a_player_that_sees_no_difference():
    usual = host_yardstick("zeillinger", num_rows=5)
    assert host_yardstick("zeillinger", num_rows=20) == usual
    assert host_yardstick("zeillinger", num_rows=5, reposition=False) == usual


@pytest.mark.parametrize("role", ["host", "agent"])
def test_a_player_is_asked_for_one_member_that_never_explores(role):
    script, num_asked = ScriptedPolicy({"host": "zeillinger", "agent": "choose_last"}[role]), []

    def player(turn):
        num_members, num_games = turn.position.points.shape[:2]
        assert num_members == 1
        assert turn.noise.shape == (1, num_games, 2)
        assert torch.equal(turn.exploration.expand(1, num_games), torch.zeros(1, num_games))
        num_asked.append(num_games)
        return script(turn)

    measure(role, player, num_rows=5, reposition=True, device=CPU)
    assert max(num_asked) > 1  # many positions at once


def test_other_sizes_are_refused_with_a_reason():
    assert check_size(3, 5) is None
    assert check_size(4, 20) == "the yardstick lies in 3 dimensions, the player in 4"
    assert check_size(3, 4) == "the yardstick has 5 points, the player knows at most 4"
    with pytest.raises(ValueError, match="at most 4"):
        host_yardstick("zeillinger", num_rows=4)


def test_the_solver_agrees_on_a_single_start():
    assert Solver(3).depth(ADE[0].points) == 1


@pytest.mark.parametrize(
    "case", [case for case in ADE if case.minimax is not None], ids=lambda case: case.name
)
def test_the_published_worst_cases_are_those_of_the_table(case):
    assert Solver(3).depth(case.points) == case.minimax


def test_exponents_of_the_series():
    """A_n is x^2 + y^2 + z^(n+1), D_n is x^2 + y^2 z + z^(n-1)."""
    points = {case.name: case.points for case in ADE}
    assert points["A3"] == ((2, 0, 0), (0, 2, 0), (0, 0, 4))
    assert points["D4"] == ((2, 0, 0), (0, 2, 1), (0, 0, 3))
    assert points["D5"] == ((2, 0, 0), (0, 2, 1), (0, 0, 4))
