"""Islands: members of one shape, who alone can take each other's places.

A member to which selection names a parent of another shape learns from it where that is allowed,
and is else judged among its own. Axes: R samples, K members.
"""

from collections.abc import Sequence

from hpsearch.population.operators.options import DistillationCrossover, OperatorOptions
from hpsearch.population.options import PopulationOptions
from hpsearch.population.scores import Scores
from hpsearch.population.selection.ranking import mean_scores
from hpsearch.population.selection.succession import is_surely_better


def bridge(rules: PopulationOptions) -> DistillationCrossover | None:
    """Return the operator that joins islands, None if the population has none."""
    found = (one for one in rules.operators if isinstance(one, DistillationCrossover))
    return next(found, None)


def joins_islands(operator: OperatorOptions) -> bool:
    """Return whether the parents of an operator's child may be of different shapes."""
    return isinstance(operator, DistillationCrossover)


def best_of_island(
    place: int, shapes: Sequence[str], scores: Scores, confidence: float
) -> int | None:
    """Return the best of a member's shape, None where it is not surely better than the member.

    Args:
        place: of the member.
        shapes: K.
        scores: which name the best by one set of starts, and confirm it by the other.
        confidence: chance of being better that it needs.
    """
    named = mean_scores(scores.named)
    alike = [other for other, shape in enumerate(shapes) if shape == shapes[place]]
    best = max(alike, key=lambda other: named[other])
    return best if is_surely_better(scores.fresh, best, place, confidence) else None
