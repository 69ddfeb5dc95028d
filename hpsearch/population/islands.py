"""Islands: members of one shape, who alone can take each other's places.

A member to which selection names a parent of another shape learns from it where that is allowed;
else selection names none but of its own. Axis: K members.
"""

from collections.abc import Sequence

from hpsearch.population.operators.options import DistillationCrossover, OperatorOptions


def bridge(operators: Sequence[OperatorOptions]) -> DistillationCrossover | None:
    """Return the one of some operators that joins islands, None if there is none."""
    found = (one for one in operators if isinstance(one, DistillationCrossover))
    return next(found, None)


def joins_islands(operator: OperatorOptions) -> bool:
    """Return whether the parents of an operator's child may be of different shapes."""
    return isinstance(operator, DistillationCrossover)


def islands_of(operators: Sequence[OperatorOptions], shapes: Sequence[str]) -> Sequence[str]:
    """Return the islands of selection, K names: the shapes, but one island where they are joined.

    Args:
        operators: by which children are made.
        shapes: K.
    """
    return shapes if bridge(operators) is None else [""] * len(shapes)
