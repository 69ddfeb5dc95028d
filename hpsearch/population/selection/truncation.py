"""Truncation: the worst members give way to copies of the best.

Source: Jaderberg et al., Population based training of neural networks (arXiv 1711.09846), section
4.1.1, "truncation selection". Axes: K members, R samples of all their scores.

Tournaments: a parent is the best of a few members drawn at random; the elite lives on as it is.

Axes: K members, C children, R samples of all their scores.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hpsearch.population.selection.ranking import (
    best_first,
    chance_better,
    check_confidence,
    comparable,
    giving_way,
    mean_scores,
    num_in_share,
)
from hpsearch.population.statistics import Floats, Ints


def truncation(
    scores: npt.ArrayLike, share: float, rng: np.random.Generator, *, islands: Sequence[str]
) -> Ints:
    """Return for each member whose copy takes its place: itself, or one of the best.

    Args:
        scores: (K,) high is good; not a number where a member failed.
        share: of members that give way, and of those they are copies of, rounded down, but at least
            one if above 0; at most 1/2.
        rng: picks among those of the best that share the member's island, all with the same chance;
            where none does, the best of the island takes the place.
        islands: K names.

    Returns:
        int64 (K,).

    Raises:
        ValueError: if the share lies outside 0..1/2.
    """
    if not 0.0 <= share <= 0.5:
        raise ValueError(f"share must lie between 0 and 1/2, got {share!r}")
    order = best_first(scores).tolist()
    num = num_in_share(share, len(order))
    rank, best = {member: place for place, member in enumerate(order)}, set(order[:num])

    def heirs(member: int) -> list[int]:
        island = islands[member]
        above = [better for better in order[: rank[member]] if islands[better] == island]
        return [better for better in above if better in best] or above[:1]

    sources = np.arange(len(order))
    for member, candidates in giving_way(reversed(order), heirs, num).items():
        sources[member] = rng.choice(candidates)
    return sources


def confident_truncation(
    samples: Floats, share: float, confidence: float, rng: np.random.Generator
) -> Ints:
    """Return the same, but a member that may well be as good as the member picked for it stays.

    The rule by which For the Win's agents are replaced (Jaderberg et al., Science 364, 2019: if the
    other's estimated chance to win is above a threshold), on measured chances.

    Args:
        samples: (R, K) scores of all members in R resamplings; high is good.
        share: as in `truncation`; members are ordered by their mean score.
        confidence: chance of being better that a copy needs, from 1/2 (act on any difference) to 1.
        rng: picks among the best.

    Raises:
        ValueError: if share or confidence is out of range.
    """
    check_confidence(confidence)
    one_island = [""] * samples.shape[1]
    sources = truncation(mean_scores(samples), share, rng, islands=one_island)
    for member, source in enumerate(sources):
        if chance_better(samples[:, source], samples[:, member]) < confidence:
            sources[member] = member
    return sources


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
        size: different members that meet in a tournament, the best of which is the parent; 1 picks
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
