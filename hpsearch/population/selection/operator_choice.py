"""Which operator makes the next child: the more often its children were accepted, the likelier.

Source: probability matching with a minimal probability, as in Thierens, An adaptive pursuit
strategy for allocating operator probabilities (GECCO 2005). An operator's quality is the
posterior mean of its acceptance rate, uniform prior. Axes: O operators.
"""

from dataclasses import dataclass

import numpy as np

from hpsearch.population.arrays import Floats, Ints
from hpsearch.population.normal import num_errors


@dataclass(frozen=True)
class OperatorRecord:
    """How an operator has done so far."""

    tried: float
    """children; no whole number once `faded`"""
    accepted: float
    """children that took their place in the population"""

    def __post_init__(self) -> None:
        """Refuse counts that cannot be."""
        if not 0 <= self.accepted <= self.tried:
            raise ValueError(f"0 <= accepted <= tried must hold, got {self}")

    @property
    def quality(self) -> float:
        """(accepted + 1) / (tried + 2); 1/2 before any child."""
        return (self.accepted + 1) / (self.tried + 2)

    def with_child(self, *, accepted: bool) -> "OperatorRecord":
        """Return the record with one more child."""
        return OperatorRecord(self.tried + 1, self.accepted + accepted)

    def faded(self, keep: float) -> "OperatorRecord":
        """Return the record with its counts times ``keep``, so that old children count less."""
        return OperatorRecord(self.tried * keep, self.accepted * keep)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends of Wilson's interval of the acceptance rate; (0, 1) before any child.

        Source: Wilson, Journal of the American Statistical Association 22 (1927).
        """
        if not self.tried:
            return 0.0, 1.0
        z = num_errors(confidence)
        rate, weight = self.accepted / self.tried, z**2 / self.tried
        centre = (rate + weight / 2) / (1 + weight)
        reach = np.sqrt(weight * (rate * (1 - rate) + weight / 4)) / (1 + weight)
        return max(float(centre - reach), 0.0), min(float(centre + reach), 1.0)


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
