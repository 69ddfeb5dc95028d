"""The arrays that ratings and selection work on, and the checks that they share."""

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
