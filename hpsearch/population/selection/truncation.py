"""Truncation: the worst members give way to copies of the best.

Source: Jaderberg et al., Population based training of neural networks (arXiv 1711.09846), section
4.1.1, "truncation selection". Axes: K members, R samples of all their scores.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, Ints
from hpsearch.population.selection.giving_way import giving_way
from hpsearch.population.selection.ranking import (
    best_first,
    chance_better,
    check_confidence,
    mean_scores,
    num_in_share,
)


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
        above = [one for one in order[: rank[member]] if islands[one] == island]
        return [one for one in above if one in best] or above[:1]

    sources = np.arange(len(order))
    for member, candidates in giving_way(reversed(order), heirs, num).items():
        sources[member] = rng.choice(candidates)
    return sources


def confident_truncation(
    samples: Floats, share: float, confidence: float, rng: np.random.Generator
) -> Ints:
    """Return the same, but whoever may well be as good as the member picked for it stays.

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
