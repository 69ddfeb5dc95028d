"""A sampler that knows its points beforehand: trial n takes point n.

Optuna's own QMC and grid samplers count in the study which point comes next, and so skip one when a
suggestion is interrupted; they also never move parameters that the first trial lacks.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd
from typing import Any, Literal

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from hpsearch.errors import unknown_name
from hpsearch.study.space import SearchSpace

GOLDEN_RATIO = 0.6180339887498949

Point = Callable[[int], dict[str, Any]]
"""Values, as Optuna stores them, for a trial number; more than the trial needs do no harm."""


class SequenceSampler(BaseSampler):
    """Suggests the point with the trial's number."""

    def __init__(self, space: SearchSpace, point: Point) -> None:
        self._distributions = space.distributions()
        self._point = point

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the whole space."""
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the trial's point."""
        return self._point(trial.number)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Refuse a parameter that is not of the space.

        Raises:
            KeyError: always.
        """
        raise KeyError(unknown_name("parameter", param_name, self._distributions))


def qmc_points(space: SearchSpace, seed: int, sequence: Literal["sobol", "halton"]) -> Point:
    """Return evenly spread points, conditional parameters included."""
    return partial(_qmc_point, space, seed, sequence)


def grid_points(space: SearchSpace, seed: int) -> Point:
    """Return every configuration once, in an order that spreads over the space; then again."""
    count = space.num_configurations()
    assert count is not None, "a continuous range is refused when the study file is read"
    stride = _stride(count)
    return lambda number: space.configuration((seed + number * stride) % count)


def in_turn(points: Sequence[dict[str, Any]]) -> Point:
    """Return given points, one after another; then again."""
    return lambda number: points[number % len(points)]


def _qmc_point(
    space: SearchSpace, seed: int, sequence: Literal["sobol", "halton"], number: int
) -> dict[str, Any]:
    # Imported here, because scipy.stats takes half a second.
    from scipy.stats import qmc

    engines = {"sobol": qmc.Sobol, "halton": qmc.Halton}
    engine = engines[sequence](len(space.order), scramble=True, seed=seed)
    if number:  # Sobol refuses to skip no point
        engine.fast_forward(number)
    shares = engine.random(1)[0]
    return {
        name: space.parameters[name].quantile(float(share))
        for name, share in zip(space.order, shares, strict=True)
    }


def _stride(count: int) -> int:
    """Return a step near the golden section of ``count`` that visits every index once."""
    stride = max(1, round(count * GOLDEN_RATIO))
    while gcd(stride, count) > 1:
        stride += 1
    return stride
