"""Tournaments: a parent is the best of a few members drawn at random; the elite lives on as it is.

Axes: K members, C children, R samples of all their scores.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, Ints
from hpsearch.population.selection.ranking import (
    best_first,
    chance_better,
    check_confidence,
    comparable,
    mean_scores,
)

Beats = Callable[[int, int], bool]
"""whether the first member takes the tournament from the second"""


def tournament(
    scores: npt.ArrayLike,
    *,
    num_children: int,
    num_elites: int,
    size: int,
    rng: np.random.Generator,
) -> Ints:
    """Return the parent of each child; those of the first ``num_elites`` are the best members.

    Args:
        scores: (K,) high is good; not a number where a member failed.
        num_children: C.
        num_elites: children that are the best members themselves, best first.
        size: different members that meet in a tournament, the best of whom is the parent; 1 picks
            at random, K always the best.
        rng: draws who meets.

    Returns:
        int64 (C,).

    Raises:
        ValueError: if a number does not fit the population.
    """
    numbers = comparable(scores)
    return _parents(
        best_first(numbers),
        lambda challenger, holder: bool(numbers[challenger] > numbers[holder]),
        num_children=num_children,
        num_elites=num_elites,
        size=size,
        rng=rng,
    )


def confident_tournament(
    samples: Floats,
    *,
    num_children: int,
    num_elites: int,
    size: int,
    confidence: float,
    rng: np.random.Generator,
) -> Ints:
    """Return the same, where who was drawn first stays unless another is surely better.

    So among members that cannot be told apart the draw decides, not noise.

    Args:
        samples: (R, K) scores of all members in R resamplings; high is good.
        num_children: C.
        num_elites: children that are the members of highest mean themselves.
        size: different members that meet in a tournament.
        confidence: chance of being better that takes the tournament, from 1/2 to 1.
        rng: draws who meets.

    Raises:
        ValueError: if a number does not fit the population, or confidence is out of range.
    """
    check_confidence(confidence)

    def beats(challenger: int, holder: int) -> bool:
        chance = chance_better(samples[:, challenger], samples[:, holder])
        return chance > 0.5 and chance >= confidence

    return _parents(
        best_first(mean_scores(samples)),
        beats,
        num_children=num_children,
        num_elites=num_elites,
        size=size,
        rng=rng,
    )


def _parents(
    order: Ints,
    beats: Beats,
    *,
    num_children: int,
    num_elites: int,
    size: int,
    rng: np.random.Generator,
) -> Ints:
    if not 1 <= size <= len(order):
        raise ValueError(f"size must lie between 1 and the {len(order)} members, got {size}")
    if not 0 <= num_elites <= min(num_children, len(order)):
        raise ValueError(
            f"num_elites must lie between 0 and the fewer of {num_children} children and "
            f"{len(order)} members, got {num_elites}"
        )
    winners = [
        _winner(rng.choice(len(order), size=size, replace=False), beats)
        for _ in range(num_children - num_elites)
    ]
    return np.concatenate([order[:num_elites], np.array(winners, dtype=np.int64)])


def _winner(contestants: Ints, beats: Beats) -> int:
    holder = int(contestants[0])
    for challenger in contestants[1:]:
        if beats(int(challenger), holder):
            holder = int(challenger)
    return holder
