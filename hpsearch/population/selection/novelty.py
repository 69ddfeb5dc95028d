"""Novelty: how unlike everybody so far a member behaves.

Source: Lehman and Stanley, Abandoning objectives (Evolutionary Computation 19, 2011): the mean
distance to the k nearest, of the archive and of the population.
Axes: K members, A members of the archive, B numbers that describe a behaviour.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats


def novelty(members: npt.ArrayLike, archive: npt.ArrayLike, num_nearest: int) -> Floats:
    """Return the mean Euclidean distance of each member to its nearest others, float64 (K,).

    Args:
        members: (K, B) behaviours, such as log rho against each opponent of a panel; all in one
            unit, since distances add them up.
        archive: (A, B) behaviours of past champions; A may be 0.
        num_nearest: k; where there are fewer others, all of them count.

    Raises:
        ValueError: if shapes do not match, a behaviour is not finite, or there is nobody else.
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
