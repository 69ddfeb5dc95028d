"""Members that are good in several ways: fronts of the undominated, and how crowded they are.

Source: Deb, Pratap, Agarwal and Meyarivan, A fast and elitist multiobjective genetic algorithm:
NSGA-II (IEEE Transactions on Evolutionary Computation 6, 2002), sections III.A and III.B.
Objectives are all such that high is good; a value that is not a number is the lowest there is.
Axes: K members, M objectives.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Bools, Floats, Ints
from hpsearch.population.selection.ranking import comparable

FAR = 1e300


def front_of_each(objectives: npt.ArrayLike) -> Ints:
    """Return in which front each member is, int64 (K,): 0 where nobody dominates it.

    One dominates another if it is nowhere worse and somewhere better. Front f holds those whom
    nobody dominates once the fronts before are gone.

    Args:
        objectives: (K, M).

    Raises:
        ValueError: if the objectives are no matrix.
    """
    values = _checked(objectives)
    at_least: Bools = np.all(values[:, None] >= values, axis=2)
    dominates = at_least & ~at_least.T
    num_dominating = dominates.sum(axis=0)
    fronts = np.full(len(values), -1)
    front = 0
    while (waiting := fronts < 0).any():
        undominated = waiting & (num_dominating == 0)
        fronts[undominated] = front
        num_dominating -= dominates[undominated].sum(axis=0)
        front += 1
    return fronts


def crowding_distance(objectives: npt.ArrayLike) -> Floats:
    """Return how far each member of one front is from its neighbours, float64 (K,).

    The sum over objectives of the distance between its neighbours, over the objective's range;
    infinite for the first and the last of an objective in which members differ.

    Args:
        objectives: (K, M) of the members of a front.

    Raises:
        ValueError: if the objectives are no matrix.
    """
    values = _checked(objectives)
    distances = np.zeros(len(values))
    for column in values.T:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        if not len(ordered) or ordered[0] == ordered[-1]:
            continue
        distances[order[[0, -1]]] = np.inf
        distances[order[1:-1]] += (ordered[2:] - ordered[:-2]) / (ordered[-1] - ordered[0])
    return distances


def nsga2_survivors(objectives: npt.ArrayLike, num_survivors: int) -> Ints:
    """Return the places of the ``num_survivors`` members that live on, best first.

    Fronts in their order; within a front, who has more room around it first, of equals the earlier.

    Args:
        objectives: (K, M).
        num_survivors: at most K.

    Raises:
        ValueError: if the objectives are no matrix, or there are fewer members.
    """
    values = _checked(objectives)
    if not 0 <= num_survivors <= len(values):
        raise ValueError(
            f"num_survivors must lie between 0 and the {len(values)} members, got {num_survivors}"
        )
    fronts = front_of_each(values)
    room = np.zeros(len(values))
    for front in range(fronts.max(initial=-1) + 1):
        members = np.flatnonzero(fronts == front)
        room[members] = crowding_distance(values[members])
    order: Ints = np.lexsort((np.arange(len(values)), -room, fronts))
    return order[:num_survivors]


def _checked(objectives: npt.ArrayLike) -> Floats:
    values = comparable(objectives)
    if values.ndim != 2:
        raise ValueError(f"objectives are K members x M objectives, got {values.shape=}")
    # Infinities have no differences; the largest numbers are as far away for any purpose.
    return np.clip(values, -FAR, FAR)
