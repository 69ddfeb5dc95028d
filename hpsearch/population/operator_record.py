"""How often children of an operator were tried and accepted; apart, because it needs no numpy."""

from dataclasses import dataclass
from math import sqrt

from hpsearch.population.normal import num_errors


@dataclass(frozen=True)
class OperatorRecord:
    tried: int  # children
    accepted: int  # children that took their place in the population

    def __post_init__(self) -> None:
        if not 0 <= self.accepted <= self.tried:
            raise ValueError(f"0 <= accepted <= tried must hold, got {self}")

    @property
    def quality(self) -> float:
        """The posterior mean of the acceptance rate, by a uniform prior."""
        return (self.accepted + 1) / (self.tried + 2)

    def with_child(self, *, accepted: bool) -> "OperatorRecord":
        return OperatorRecord(self.tried + 1, self.accepted + accepted)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the ends of Wilson's interval (1927) of the acceptance rate; (0, 1) for none."""
        if not self.tried:
            return 0.0, 1.0
        z = num_errors(confidence)
        rate, weight = self.accepted / self.tried, z**2 / self.tried
        centre = (rate + weight / 2) / (1 + weight)
        reach = sqrt(weight * (rate * (1 - rate) + weight / 4)) / (1 + weight)
        return max(centre - reach, 0.0), min(centre + reach, 1.0)
