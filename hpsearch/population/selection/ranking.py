"""The order of members, how sure it is, and which of them are replaced.

A score that is not a number, of a member that failed, is the lowest there is.
Axes: K members, R samples of all their scores.

Who gives way: the worst of all that a member of their own island can replace.

Only members of one island can take each other's places. The best of an island therefore gives way
to none, however bad it is among all, and the next worst does instead.

Novelty: how unlike all members so far a member behaves.

Source: Lehman and Stanley, Abandoning objectives (Evolutionary Computation 19, 2011): the mean
distance to the k nearest, of the archive and of the population.
Axes: K members, A members of the archive, B numbers that describe a behaviour.

One number for a member's results against a whole panel, that looks at the bad ones.

Axes: K members, Q opponents. High is good: give agents' results with their sign turned.
"""

from collections.abc import Callable, Iterable, Sequence

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


def check_confidence(confidence: float) -> None:
    """Check that a chance of being better is worth asking for.

    Raises:
        ValueError: if it lies outside 1/2..1.
    """
    if not 0.5 <= confidence <= 1.0:
        raise ValueError(f"confidence must lie between 1/2 and 1, got {confidence!r}")


def num_in_share(share: float, num: int) -> int:
    """Return how many of ``num`` a share is, rounded down; at least one of two or more, if any."""
    least = 1 if share > 0 and num > 1 else 0  # else a small population would never change
    return max(least, int(share * num + 1e-9))  # 0.29 * 100 is 28.999...


def giving_way(
    worst_first: Iterable[int], heirs: Callable[[int], Sequence[int]], num: int
) -> dict[int, Sequence[int]]:
    """Return who could take the place of each of at most ``num`` members, the worst first.

    Args:
        worst_first: all members.
        heirs: those who could take a member's place; none where it must stay.
        num: members that give way.
    """
    followers: dict[int, Sequence[int]] = {}
    for member in worst_first:
        if len(followers) == num:
            break
        if candidates := heirs(member):
            followers[member] = candidates
    return followers


def novelty(members: npt.ArrayLike, archive: npt.ArrayLike, num_nearest: int) -> Floats:
    """Return the mean Euclidean distance of each member to its nearest others, float64 (K,).

    Args:
        members: (K, B) behaviours, such as log rho against each opponent of a panel; all in one
            unit, since distances add them up.
        archive: (A, B) behaviours of past champions; A may be 0.
        num_nearest: k; where there are fewer others, all of them count.

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
    np.fill_diagonal(distances, np.inf)  # a member is no news to itself
    nearest = np.sort(distances, axis=1)[:, : min(num_nearest, num_others)]
    means: Floats = nearest.mean(axis=1)
    return means


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
