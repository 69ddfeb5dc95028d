"""Who won a game that has no winner: the host, if it was over sooner than usual.

Axes: P hosts, Q agents, G games of each pair.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, checked_num_games


def wins_by_speed(moves: npt.NDArray[np.int64]) -> Floats:
    """Return how many games each host won against each agent, float64 (P, Q).

    A host wins a game that takes fewer moves than the median over all pairs from the same start; a
    game that takes as many is half a win. So a start that takes long for all favours nobody.

    Args:
        moves: (P, Q, G) lengths of games, the cap where one did not finish: `CrossPlay.moves`.

    Raises:
        ValueError: if there are no games, or ``moves`` has other axes.
    """
    checked_num_games(moves)
    usual = np.median(moves, axis=(0, 1))
    wins: Floats = (moves < usual).sum(axis=2) + 0.5 * (moves == usual).sum(axis=2)
    return wins
