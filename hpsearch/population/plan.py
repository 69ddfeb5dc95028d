"""Who breeds, and what is planned of them: data that a driver has and a match decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpsearch.population.operators.options import OperatorOptions


@dataclass(frozen=True)
class Member:
    """One that was judged."""

    params: Mapping[str, Any]
    """hyperparameters, in the form in which the study stores them"""
    has_ended: bool
    """whether its interval is over, so that something comes next"""
    shape: str
    """members of one shape can give each other their weights"""
    families: tuple[str, ...]
    """of each role's networks; kin, of the same families, share the beginning of their training"""
    is_pair: bool
    growths: tuple[Mapping[str, Any], ...]
    """for each role that can grow, the hyperparameters that its next larger network changes"""


@dataclass(frozen=True)
class Next:
    """What comes next in a member's place."""

    parents: tuple[int, ...]
    """members; the first gives all that the operator does not make"""
    operator: OperatorOptions
    params: dict[str, Any]
    is_child: bool
    """whether it was made by selection; else the member goes on as it is"""


@dataclass(frozen=True)
class Plan:
    """What comes next in a population."""

    places: Mapping[int, Next]
    """by member whose interval has ended"""
    vacancies: Sequence[Next]
    """in the places of members that were lost before they could play"""
