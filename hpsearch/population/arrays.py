"""The arrays that ratings and selection work on, and the checks that they share."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def checked_payoff(payoff: npt.ArrayLike) -> Floats:
    """Return what hosts (rows) earn against agents (columns) as float64 (P, Q).

    Raises:
        ValueError: if it is not a matrix of finite numbers with at least one row and column.
    """
    matrix = np.asarray(payoff, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"a payoff is a matrix of P hosts x Q agents, got {matrix.shape=}")
    if not np.isfinite(matrix).all():
        raise ValueError("a payoff must be finite; play the missing pairs, or leave them out")
    return matrix


def checked_num_games(moves: npt.NDArray[np.int64]) -> int:
    """Return G of the lengths of games (P, Q, G).

    Raises:
        ValueError: if there are no games, or ``moves`` has other axes.
    """
    if moves.ndim != 3 or moves.size == 0:
        raise ValueError(f"lengths of games are P hosts x Q agents x G games, got {moves.shape=}")
    return int(moves.shape[2])


def checked_scores(scores: Sequence[npt.ArrayLike], *, owner: str) -> list[Floats]:
    """Return the scores of several owners, one for every seed, as float64 (N,) each.

    Args:
        scores: of each owner; N may differ.
        owner: what has scores, for the message.

    Raises:
        ValueError: if there is no owner, one has no seed, or a score is not finite.
    """
    seeds = [np.asarray(values, dtype=np.float64) for values in scores]
    if not seeds or not all(
        values.ndim == 1 and len(values) and np.isfinite(values).all() for values in seeds
    ):
        raise ValueError(f"every {owner} needs the finite score of at least one seed")
    return seeds
