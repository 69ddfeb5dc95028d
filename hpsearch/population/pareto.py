"""Members by several objectives: fronts of the undominated, and how crowded they are.

Source: Deb, Pratap, Agarwal and Meyarivan, A fast and elitist multiobjective genetic algorithm:
NSGA-II (IEEE Transactions on Evolutionary Computation 6, 2002), sections III.A and III.B.
High is good; a value that is not a number is the lowest there is.
Axes: R samples, K members, M objectives.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.statistics import Floats, Ints, comparable

FAR = 1e300


def front_of_each(objectives: npt.ArrayLike) -> Ints:
    """Return in which front each member of (K, M) is, int64 (K,): 0 where none dominates it.

    One dominates another if it is nowhere worse and somewhere better. Front f holds those that
    none dominates once the fronts before are gone.
    """
    return np.asarray(fronts_of_samples(_checked(objectives)[None])[0])


def fronts_of_samples(samples: Floats) -> Ints:
    """Return the same for each sample of (R, K, M), int64 (R, K).

    A member's front is one more than that of the last who dominates it. Those come before it
    in lexicographic order, so one pass is enough, in all samples at once; small integers compare
    fastest.
    """
    values = comparable(samples)
    places = [_places(values[:, :, m]) for m in range(values.shape[2])]
    order = np.lexsort(places[::-1], axis=1)
    # (K, R), so that those before a member are one block of memory.
    first, *others = (np.take_along_axis(place, order, axis=1).T.copy() for place in places)
    is_twin = np.all([column[1:] == column[:-1] for column in (first, *others)], axis=0)
    depth = np.ones_like(first)  # one more than the front: 0 belongs to none
    for k in range(1, len(depth)):
        dominating = np.ones(depth[:k].shape, dtype=np.bool_)
        for other in others:
            dominating &= other[:k] <= other[k]
        dominated = (depth[:k] * dominating).max(axis=0) + 1
        depth[k] = np.where(is_twin[k - 1], depth[k - 1], dominated)
    fronts = np.empty(order.shape, dtype=np.int64)
    np.put_along_axis(fronts, order, depth.T.astype(np.int64) - 1, axis=1)
    return fronts


def _places(values: Floats) -> npt.NDArray[np.unsignedinteger]:
    """Return the place of each value (R, K) in its row, 0 for the highest; equals share one."""
    order = np.argsort(-values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    is_next = np.zeros(values.shape, dtype=np.bool_)
    is_next[:, 1:] = ordered[:, 1:] < ordered[:, :-1]
    dtype = np.min_scalar_type(values.shape[1])
    places = np.empty(values.shape, dtype=dtype)
    np.put_along_axis(places, order, is_next.cumsum(axis=1, dtype=dtype), axis=1)
    return places


def crowding_distance(objectives: npt.ArrayLike) -> Floats:
    """Return how far each member of one front (K, M) is from its neighbours, float64 (K,).

    The sum over objectives of the distance between its neighbours, over the objective's range;
    infinite for the first and the last of an objective in which members differ.
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


def nsga2_order(objectives: npt.ArrayLike) -> Ints:
    """Return the members of (K, M), best first, int64 (K,).

    The first front first; within a front by falling crowding distance, of equals the earlier first.
    """
    values = _checked(objectives)
    fronts = front_of_each(values)
    room = np.zeros(len(values))
    for front in range(fronts.max(initial=-1) + 1):
        members = np.flatnonzero(fronts == front)
        room[members] = crowding_distance(values[members])
    return np.lexsort((np.arange(len(values)), -room, fronts))


def _checked(objectives: npt.ArrayLike) -> Floats:
    values = comparable(objectives)
    if values.ndim != 2:
        raise ValueError(f"objectives are K members x M objectives, got {values.shape=}")
    # Infinities have no differences; the largest numbers are as far away for any purpose.
    return np.clip(values, -FAR, FAR)
