"""Which operator makes the next child: the more often its children were accepted, the likelier.

Source: probability matching with a minimal probability, as in Thierens, An adaptive pursuit
strategy for allocating operator probabilities (GECCO 2005). An operator's quality is the
posterior mean of its acceptance rate, uniform prior. Axes: O operators.
"""

import numpy as np

from hpsearch.population.selection.operator_record import OperatorRecord
from hpsearch.population.statistics import Floats, Ints


def operator_chances(records: list[OperatorRecord], floor: float) -> Floats:
    """Return the chance of each operator, float64 (O,), none below ``floor``.

    Args:
        records: one for each operator.
        floor: least chance of an operator, so that none dies out.

    Raises:
        ValueError: if there are no operators, or they cannot all have the floor.
    """
    if not records or not 0 <= floor * len(records) <= 1:
        raise ValueError(
            f"floor must lie between 0 and one over the {len(records)} operators, got {floor!r}"
        )
    quality = np.array([record.quality for record in records])
    chances: Floats = floor + (1 - floor * len(records)) * quality / quality.sum()
    return chances


def pick_operators(chances: Floats, num: int, rng: np.random.Generator) -> Ints:
    """Return the operators of ``num`` children, int64 (num,), drawn independently."""
    return rng.choice(len(chances), size=num, p=chances)
