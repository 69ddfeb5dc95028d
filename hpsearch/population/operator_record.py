"""How often children of an operator were tried and accepted; apart, because it needs no numpy."""

from dataclasses import dataclass


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
