"""Members in order of their scores, and how sure that order is.

A score that is not a number, of a member that failed, is the lowest there is.
Axes: K members, R samples of all their scores.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, Ints


def comparable(scores: npt.ArrayLike) -> Floats:
    """Return scores as float64, minus infinity in the place of what is not a number."""
    numbers = np.asarray(scores, dtype=np.float64)
    return np.where(np.isnan(numbers), -np.inf, numbers)


def best_first(scores: npt.ArrayLike) -> Ints:
    """Return the places of the scores (K,), highest first, of equals the earlier first."""
    order: Ints = np.argsort(-comparable(scores), kind="stable")
    return order


def mean_scores(samples: Floats) -> Floats:
    """Return the mean score (K,) of samples (R, K); of a member that ever failed, the lowest."""
    means: Floats = comparable(samples).mean(axis=0)
    return means


def chance_better(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Return how often ``left`` (R,) is above ``right`` (R,), equals counting half.

    Sample r of both must be of the same starts, or of independent ones.
    """
    a, b = comparable(left), comparable(right)
    return float((a > b).mean() + 0.5 * (a == b).mean())


def check_confidence(confidence: float) -> None:
    """Check that a chance of being better is worth asking for.

    Raises:
        ValueError: if it lies outside 1/2..1.
    """
    if not 0.5 <= confidence <= 1.0:
        raise ValueError(f"confidence must lie between 1/2 and 1, got {confidence!r}")


def num_in_share(share: float, num: int) -> int:
    """Return how many of ``num`` a share is, rounded down; at least one of two or more, if any."""
    least = 1 if share > 0 and num > 1 else 0  # else nobody of a small population ever gives way
    return max(least, int(share * num + 1e-9))  # 0.29 * 100 is 28.999...
