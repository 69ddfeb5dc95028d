"""The order of members, how sure it is, robustness and novelty.

A score that is not a number, of a member that failed, is the lowest there is. High is good.
Axes: K members, R samples of all their scores, Q opponents, A members of an archive, B numbers that
describe a behaviour.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.statistics import Floats, Ints


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


def novelty(members: npt.ArrayLike, archive: npt.ArrayLike, num_nearest: int) -> Floats:
    """Return the mean distance of each member to the nearest others and archived ones, (K,).

    Source: Lehman and Stanley, Abandoning objectives (Evolutionary Computation 19, 2011).

    Args:
        members: (K, B) behaviours, such as log rho against each opponent of a panel; all in one
            unit, since distances add them up.
        archive: (A, B) behaviours of past champions; A may be 0.
        num_nearest: of fewer others all count.

    Raises:
        ValueError: if shapes do not match, a behaviour is not finite, or there is no other.
    """
    here = np.asarray(members, dtype=np.float64)
    past = np.asarray(archive, dtype=np.float64).reshape(-1, here.shape[-1])
    if here.ndim != 2 or not (np.isfinite(here).all() and np.isfinite(past).all()):
        raise ValueError(f"behaviours are finite numbers, K x B, got {here.shape=}")
    num_others = len(here) - 1 + len(past)
    if num_nearest < 1 or num_others < 1:
        raise ValueError(f"novelty needs others, got {num_nearest=} of {num_others}")
    known = np.concatenate([here, past])
    distances = np.sqrt(np.square(here[:, None] - known).sum(axis=2))
    np.fill_diagonal(distances, np.inf)  # the distance to itself does not count
    nearest = np.sort(distances, axis=1)[:, : min(num_nearest, num_others)]
    means: Floats = nearest.mean(axis=1)
    return means


def mean_of_worst(results: npt.ArrayLike, share: float) -> Floats:
    """Return the mean (K,) of each member's worst results of (K, Q), a conditional value at risk.

    Opponents count alike; if the share ends within one, that one counts in part (Rockafellar and
    Uryasev, Journal of Banking and Finance 26, 2002, for discrete distributions). ``share`` is
    above 0: 1 gives the mean over all opponents, 1/Q or less the worst case.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must lie above 0 and be at most 1, got {share!r}")
    ordered = np.sort(comparable(results), axis=1)
    num = ordered.shape[1]
    weights = np.clip(share * num - np.arange(num), 0.0, 1.0)
    counted = weights > 0  # a zero times minus infinity is not a number
    worst: Floats = ordered[:, counted] @ weights[counted] / weights.sum()
    return worst
