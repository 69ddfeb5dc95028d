"""One number for a member's results against a whole panel, that looks at the bad ones.

Axes: K members, Q opponents. High is good: give agents' results with their sign turned.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats
from hpsearch.population.selection.ranking import comparable


def worst_case(results: npt.ArrayLike) -> Floats:
    """Return each member's lowest result of (K, Q), float64 (K,)."""
    lowest: Floats = comparable(results).min(axis=1)
    return lowest


def mean_of_worst(results: npt.ArrayLike, share: float) -> Floats:
    """Return the mean of each member's worst results: its conditional value at risk.

    Opponents count alike; if the share ends within one, that one counts in part (Rockafellar and
    Uryasev, Journal of Banking and Finance 26, 2002, for discrete distributions).

    Args:
        results: (K, Q).
        share: of the panel, above 0; 1 gives the mean over the panel, 1/Q or less the worst case.

    Returns:
        float64 (K,).

    Raises:
        ValueError: if the share is not above 0 and at most 1.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must lie above 0 and be at most 1, got {share!r}")
    ordered = np.sort(comparable(results), axis=1)
    num = ordered.shape[1]
    weights = np.clip(share * num - np.arange(num), 0.0, 1.0)
    counted = weights > 0  # a zero times minus infinity is not a number
    worst: Floats = ordered[:, counted] @ weights[counted] / weights.sum()
    return worst
