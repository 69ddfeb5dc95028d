"""The operators by name: what each needs and keeps, for plans of breeding; needs no torch."""

from dataclasses import dataclass
from typing import Literal

Shape = Literal["same", "target", "any"]


@dataclass(frozen=True)
class Operator:
    """What a plan must know of an operator."""

    function: str
    """module and name in this package"""
    num_parents: Literal[1, 2]
    parents_alike: bool | None
    """whether two parents must have one structure, since their weights mix, so that the second is
    kin of the first where there is any; None where there is one parent"""
    child_shape: Shape
    """that of its parents; a wider or deeper target; or any that sees and does the same"""
    needs_positions: bool
    """whether it needs positions that players meet"""
    is_random: bool
    """whether it draws from a stream"""
    keeps_function: bool
    """whether the child computes what its (first) parent computes, up to noise that is asked for"""
    source: str | None
    """the paper that it follows, None where it follows none"""


OPERATORS: dict[str, Operator] = {
    "clone": Operator(
        function="clone.clone",
        num_parents=1,
        parents_alike=None,
        child_shape="same",
        needs_positions=False,
        is_random=False,
        keeps_function=True,
        source="arXiv 1711.09846",
    ),
    "host_and_agent": Operator(
        function="clone.host_and_agent",
        num_parents=2,
        parents_alike=False,
        child_shape="same",
        needs_positions=False,
        is_random=False,
        keeps_function=True,
        source=None,
    ),
    "gaussian_mutation": Operator(
        function="gaussian.gaussian_mutation",
        num_parents=1,
        parents_alike=None,
        child_shape="same",
        needs_positions=False,
        is_random=True,
        keeps_function=False,
        source=None,
    ),
    "safe_mutation": Operator(
        function="safe.safe_mutation",
        num_parents=1,
        parents_alike=None,
        child_shape="same",
        needs_positions=True,
        is_random=True,
        keeps_function=False,
        source="arXiv 1712.06563",
    ),
    "layer_crossover": Operator(
        function="crossover.layer_crossover",
        num_parents=2,
        parents_alike=True,
        child_shape="same",
        needs_positions=False,
        is_random=True,
        keeps_function=False,
        source="Syswerda, ICGA 1989",
    ),
    "unit_crossover": Operator(
        function="crossover.unit_crossover",
        num_parents=2,
        parents_alike=True,
        child_shape="same",
        needs_positions=False,
        is_random=True,
        keeps_function=False,
        source="Syswerda, ICGA 1989",
    ),
    "average": Operator(
        function="average.average",
        num_parents=2,
        parents_alike=True,
        child_shape="same",
        needs_positions=False,
        is_random=False,
        keeps_function=False,
        source="arXiv 2203.05482",
    ),
    "aligned_average": Operator(
        function="average.aligned_average",
        num_parents=2,
        parents_alike=True,
        child_shape="same",
        needs_positions=False,
        is_random=False,
        keeps_function=False,
        source="arXiv 2209.04836",
    ),
    "distillation": Operator(
        function="distillation.distilled",
        num_parents=2,
        parents_alike=False,
        child_shape="any",
        needs_positions=True,
        is_random=True,
        keeps_function=False,
        source="arXiv 1906.09807",
    ),
    "wider": Operator(
        function="wider.wider",
        num_parents=1,
        parents_alike=None,
        child_shape="target",
        needs_positions=False,
        is_random=True,
        keeps_function=True,
        source="arXiv 1511.05641",
    ),
    "deeper": Operator(
        function="deeper.deeper",
        num_parents=1,
        parents_alike=None,
        child_shape="target",
        needs_positions=False,
        is_random=True,
        keeps_function=True,
        source="arXiv 1511.05641",
    ),
    "grow": Operator(
        function="grow.grow",
        num_parents=1,
        parents_alike=None,
        child_shape="target",
        needs_positions=False,
        is_random=True,
        keeps_function=True,
        source="arXiv 1511.05641",
    ),
}
