"""An island: members that a job trains together, and what they took from each other there.

The job breeds them at the end of each local generation. Each trial's folder holds the rules and
what became of it; the driver learns of it when the trial ends.
"""

from dataclasses import dataclass, replace
from typing import Any

from hpsearch.parameters import FloatParameter, IntParameter
from hpsearch.population.options import Keep, Matches, Perturb, Truncation
from hpsearch.schema import NonNegative, Positive

Range = FloatParameter | IntParameter


@dataclass(frozen=True)
class Island:
    """How the members of a job breed before their interval ends."""

    name: str
    """of what chance decides, which no other interval of an island shares"""
    steps: Positive
    """of a local generation"""
    matches: Matches
    selection: Truncation
    explore: Perturb | Keep
    parameters: dict[str, Range]
    """that copies may change, by dotted path"""


@dataclass(frozen=True)
class Takeover:
    """A copy of another member took a trial's place."""

    step: NonNegative
    """of the trial, which goes on counting"""
    source: NonNegative
    """trial that was copied"""
    source_step: NonNegative
    sha256: str
    """of the source's checkpoint at that moment"""
    changes: dict[str, tuple[Any, ...]]
    """values of the parameters that the copy does not share with its source: before and after"""
    params: dict[str, Any]
    """values of all parameters from then on"""


@dataclass(frozen=True)
class Loan:
    """A checkpoint of a trial whose copy took another's place."""

    step: NonNegative
    sha256: str


@dataclass(frozen=True)
class Exchanges:
    """What a trial took and gave on its island, the oldest first."""

    takeovers: tuple[Takeover, ...] = ()
    loans: tuple[Loan, ...] = ()

    def before(self, step: int) -> "Exchanges":
        """Return those before a step, from which an attempt goes on that makes it again."""
        return Exchanges(
            tuple(one for one in self.takeovers if one.step < step),
            tuple(one for one in self.loans if one.step < step),
        )

    def with_takeover(self, takeover: Takeover) -> "Exchanges":
        """Return these and one more, or another of its step.

        An attempt that has been replaced and does not know it may say once more what the next one
        has said already.
        """
        others = {one.step: one for one in self.takeovers} | {takeover.step: takeover}
        return replace(self, takeovers=tuple(others[step] for step in sorted(others)))

    def with_loan(self, loan: Loan) -> "Exchanges":
        """Return these and one more, or another of its step, as above."""
        others = {one.step: one for one in self.loans} | {loan.step: loan}
        return replace(self, loans=tuple(others[step] for step in sorted(others)))
