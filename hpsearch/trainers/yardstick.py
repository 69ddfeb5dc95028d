"""The exact yardstick: a player's worst case compared with best play, move by move.

For a host the worst case is the longest game that any agent can make it play, for an agent the
shortest one that any host needs against it. The exact value (`hpsearch.game.solver`) lies between
the two, so a player's regret, the distance to it, is never negative, and 0 is perfect play.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.random import derive_key
from hpsearch.game.solver import GameLengths, SearchLimits, Solver, longest_game, shortest_game
from hpsearch.schema import Unbounded
from hpsearch.trainers.policies import Policy, Position, ScriptedPolicy, Turn
from hpsearch.trainers.published import ADE

DIMENSION: Final = 3
NUM_STARTS: Final = 200
NUM_POINTS: Final = 5
MAX_VALUE: Final = 5
MAX_MOVES: Final = 100
MAX_POSITIONS: Final = 20_000
EXACT_DEPTHS: Final = """
5 2 6 5 5 10 6 7 3 6 6 6 1 5 7 5 2 4 3 3 4 4 4 9 6 4 6 2 7 7 4 8 4 7 5 5 4 3 8 7 2 9 8 4 4
6 4 6 4 8 8 6 6 9 2 4 4 2 5 4 3 5 6 5 5 7 6 4 9 4 4 3 4 6 7 7 7 2 7 5 9 6 4 4 2 5 5 3 3 5
4 5 6 9 7 4 6 6 6 9 5 4 6 7 4 3 4 7 7 5 4 7 7 2 7 4 7 6 5 5 6 6 1 7 5 5 6 7 2 4 7 1 6 9 6
4 6 4 7 6 3 6 6 3 4 5 5 3 7 4 3 9 6 5 9 4 6 4 6 4 6 4 6 6 5 5 6 6 6 8 8 5 7 5 6 3 2 5 2 8
7 4 4 1 6 6 8 8 7 10 7 6 4 5 4 2 4 7 7 4
"""
"""of the random starts, as the solver finds them in seconds, which every report would take"""
REFERENCES: Final = {"host": "zeillinger", "agent": "choose_first"}
"""the scripted player that a role's players are laid beside"""


@dataclass(frozen=True)
class NamedDepths:
    """A start of the ADE table: numbers of moves, inf where a game need not end."""

    name: str
    exact: int
    reference: Unbounded  # of the role's reference player
    player: Unbounded


@dataclass(frozen=True)
class RandomDepths:
    starts: int
    exact: float  # mean value of the starts
    player: Unbounded  # mean worst case where it is bounded; nan if it never is
    regret: Unbounded  # mean distance to the exact value where it is bounded; nan if it never is
    unbounded: float  # share of starts from which the games need not end


@dataclass(frozen=True)
class Yardstick:
    role: str
    ade: tuple[NamedDepths, ...]
    random: RandomDepths


def check_size(dimension: int, num_rows: int) -> str | None:
    """Return why a player of this size cannot be measured, or None where it can."""
    if dimension != DIMENSION:
        return f"the yardstick lies in {DIMENSION} dimensions, the player in {dimension}"
    if num_rows < NUM_POINTS:
        return f"the yardstick has {NUM_POINTS} points, the player knows at most {num_rows}"
    return None


def measure(
    role: str, policy: Policy, *, num_rows: int, reposition: bool, device: torch.device
) -> Yardstick:
    """Measure a player of one member that plays positions of ``num_rows`` rows, N.

    With ``reposition`` it sees each coordinate's minimum subtracted, which changes no length.
    ValueError if there are too few rows; see `check_size`.
    """
    if reason := check_size(DIMENSION, num_rows):
        raise ValueError(reason)
    ade = _in_rows([start.points for start in ADE], num_rows)
    lengths = _worst_cases(role, policy, ade, reposition, device)
    depths = zip(ADE, _ade_depths(), _reference_depths(role), lengths.tolist(), strict=True)
    randoms = _in_rows(random_starts(), num_rows)
    return Yardstick(
        role,
        tuple(NamedDepths(start.name, *numbers) for start, *numbers in depths),
        _random_depths(role, _worst_cases(role, policy, randoms, reposition, device)),
    )


def _worst_cases(
    role: str, policy: Policy, starts: Tensor, reposition: bool, device: torch.device
) -> GameLengths:
    """Return a player's worst cases (S,) from ``starts`` int32 (S, N, D)."""

    @torch.no_grad()
    def greedy(points: Tensor, subset: Tensor | None = None) -> Tensor:
        noise, never = torch.zeros(1, len(points), 2, device=device), torch.zeros(1, device=device)
        subset = None if subset is None else subset.to(device)[None]
        position = Position.of(points.to(device)[None])
        return policy(Turn(position, subset, noise, never))[0].cpu()

    search = longest_game if role == "host" else shortest_game
    limits = SearchLimits(max_moves=MAX_MOVES, max_positions=MAX_POSITIONS, reposition=reposition)
    return search(greedy, starts, limits)


def _random_depths(role: str, lengths: GameLengths) -> RandomDepths:
    exact = np.array(EXACT_DEPTHS.split(), dtype=np.int64)
    bounded = np.isfinite(lengths)
    regret = lengths - exact if role == "host" else exact - lengths
    assert (regret[bounded] >= 0).all(), "no play is better than best"
    return RandomDepths(
        starts=len(lengths),
        exact=float(exact.mean()),
        player=_mean(lengths[bounded]),
        regret=_mean(regret[bounded]),
        unbounded=float(1 - bounded.mean()),
    )


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else math.nan


@cache
def random_starts() -> tuple[tuple[tuple[int, ...], ...], ...]:
    drawn = BACKENDS["cpu"].random_starts(
        torch.tensor([derive_key("yardstick")]),
        torch.zeros(1, NUM_STARTS, dtype=torch.int64),
        num_points=NUM_POINTS,
        dimension=DIMENSION,
        max_value=MAX_VALUE,
    )
    rows = [start[rules.is_live(start)].tolist() for start in drawn[0]]
    return tuple(tuple(tuple(row) for row in start) for start in rows)


@cache
def _ade_depths() -> tuple[int, ...]:
    solver = Solver(DIMENSION)
    return tuple(solver.depth(start.points) for start in ADE)


@cache
def _reference_depths(role: str) -> tuple[float, ...]:
    ade = _in_rows([start.points for start in ADE], NUM_POINTS)
    reference = ScriptedPolicy(REFERENCES[role])
    return tuple(_worst_cases(role, reference, ade, True, torch.device("cpu")).tolist())


def _in_rows(starts: Sequence[Sequence[Sequence[int]]], num_rows: int) -> Tensor:
    """Return canonical starts as int32 (S, N, D)."""
    points = torch.full((len(starts), num_rows, DIMENSION), rules.PADDING, dtype=torch.int32)
    for index, start in enumerate(starts):
        points[index, : len(start)] = torch.tensor(start, dtype=torch.int32)
    return points
