"""The densities of TPE, used often: what does not depend on the place is computed once.

A density is a mixture of kernels, one for each trial: products of normal distributions, cut off at
the ends of each range, and of frequencies of choices. Of a parameter with steps, each value has the
mass of its step. Optuna, which fits the kernels, computes masses and draws in loops over numbers.
Bergstra et al., "Algorithms for hyper-parameter optimization" (NeurIPS 2011), section 4.2.

Axes: C places, K kernels.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator
from optuna.samplers._tpe.probability_distributions import _BatchedCategoricalDistributions

Floats = npt.NDArray[np.float64]
Points = Mapping[str, Floats]  # values (C,) by parameter, as Optuna stores them
EdgeIndex = int | npt.NDArray[np.int64]


ROWS = 64  # places whose kernels are worked out at a time, as a cache holds them
NEGLIGIBLE = -700.0
"""log of a share of the density that no sum shows; of less, exp is no normal number and slow"""


class Density:
    def __init__(self, estimator: _ParzenEstimator) -> None:
        mixture = estimator._mixture_distribution
        self._weights = mixture.weights
        names, every = estimator._search_space, mixture.distributions
        self._kernels = {name: _kernels(each) for name, each in zip(names, every, strict=True)}
        self._slopes: Floats = np.concatenate([own.slopes for own in self._kernels.values()])
        constants = (own.constants for own in self._kernels.values())
        self._constants: Floats = np.log(self._weights) + sum(constants)

    def sample(self, rng: np.random.RandomState, size: int) -> dict[str, Floats]:
        chosen = rng.choice(len(self._weights), size, p=self._weights)
        return {name: own.draw(chosen, rng.random(size)) for name, own in self._kernels.items()}

    def log_pdf(self, places: Points) -> Floats:
        """Return the log density float64 (C,) at places within the ranges."""
        features = np.concatenate(
            [own.features(places[name]) for name, own in self._kernels.items()], axis=1
        )
        tables = [own.table(places[name]) for name, own in self._kernels.items()]
        count = len(features)
        log = np.empty(count)
        for begin in range(0, count, ROWS):
            rows = slice(begin, begin + ROWS)
            total = features[rows] @ self._slopes
            total += self._constants
            for logs, at in filter(None, tables):
                total += logs[at[rows]]
            most = total.max(axis=1)
            total -= most[:, None]
            np.maximum(total, NEGLIGIBLE, out=total)
            np.exp(total, out=total)
            log[rows] = np.log(total.sum(axis=1)) + most
        return log


Table = tuple[Floats, npt.NDArray[np.int64]]
"""log densities (M, K) at M values, and which of them each place has (C,)"""


class _Kernels(Protocol):
    """The kernels of one parameter: log density = constants + features @ slopes + table."""

    constants: Floats | float  # (K,), at every place
    slopes: Floats  # (F, K), by what a place has of each of F features

    def draw(self, chosen: npt.NDArray[np.int64], uniform: Floats) -> Floats:
        """Return values (C,) of chosen kernels (C,), by numbers in [0, 1)."""
        ...

    def features(self, values: Floats) -> Floats:
        """Return the features (C, F) of values (C,)."""
        ...

    def table(self, values: Floats) -> Table | None:
        """Return the rest of the log density at values (C,), None where there is none."""
        ...


def _kernels(distribution: Any) -> _Kernels:
    if isinstance(distribution, _BatchedCategoricalDistributions):
        return _Choices(distribution.weights)
    return _Steps(distribution) if distribution.step else _Normals(distribution)


class _Choices:
    constants: Floats | float = 0.0

    def __init__(self, frequencies: Floats) -> None:
        self.slopes: Floats = np.empty((0, len(frequencies)))
        self._cumulated = frequencies.cumsum(axis=1)
        self._logs = np.log(frequencies.T)

    def draw(self, chosen: npt.NDArray[np.int64], uniform: Floats) -> Floats:
        below = self._cumulated[chosen, :-1] <= uniform[:, None]  # the last one is 1 to rounding
        places: Floats = below.sum(axis=1).astype(np.float64)
        return places

    def features(self, values: Floats) -> Floats:
        return np.empty((len(values), 0))

    def table(self, values: Floats) -> Table | None:
        return self._logs, values.astype(np.int64)


class _Normals:
    def __init__(self, distribution: Any) -> None:
        self._range = distribution
        self._ends = distribution.adapted_low, distribution.adapted_high
        self._log_mass = np.log(self._mass(np.array(self._ends), 0, 1))
        # -(x - mu)^2 / (2 sigma^2) by powers of x, which is measured from the middle of the range,
        # in lengths of it, so that little is lost to rounding.
        low, high = self._ends
        self._middle, self._length = (low + high) / 2, (high - low) or 1.0
        mu = (distribution.mu - self._middle) / self._length
        narrowness = (self._length / distribution.sigma) ** 2
        self.slopes: Floats = np.stack([mu * narrowness, -narrowness / 2])
        self.constants: Floats | float = (
            -(mu**2) * narrowness / 2 - np.log(distribution.sigma) - LOG_ROOT - self._log_mass
        )

    def draw(self, chosen: npt.NDArray[np.int64], uniform: Floats) -> Floats:
        from scipy.special import ndtr, ndtri  # here, as it takes a tenth of a second

        mu, sigma = self._range.mu[chosen], self._range.sigma[chosen]
        low, high = (ndtr((end - mu) / sigma) for end in self._ends)
        x = mu + sigma * ndtri(low + uniform * (high - low))
        values: Floats = np.exp(x) if self._range.is_log else x
        return values.clip(self._range.low, self._range.high)

    def features(self, values: Floats) -> Floats:
        x = ((np.log(values) if self._range.is_log else values) - self._middle) / self._length
        return np.stack([x, x * x], axis=1)

    def table(self, values: Floats) -> Table | None:
        return None

    def _mass(self, edges: Floats, low: EdgeIndex, high: EdgeIndex) -> Floats:
        """Return the mass (..., K) of each kernel between edges of places ``low`` and ``high``."""
        from scipy.special import ndtr

        z = (edges[:, None] - self._range.mu) / self._range.sigma
        beyond = ndtr(-np.abs(z))  # on the side of the middle where an edge lies: small, so exact
        lower, upper = beyond[low], beyond[high]
        mass: Floats = np.where(z[low] > 0, lower - upper, 1 - lower - upper)
        return np.where(z[high] > 0, mass, upper - lower)


LOG_ROOT = 0.5 * np.log(2 * np.pi)


class _Steps(_Normals):
    def __init__(self, distribution: Any) -> None:
        super().__init__(distribution)
        self.constants, self.slopes = 0.0, self.slopes[:0]
        self._places: dict[float, int] = {}  # rows of ``_logs``, by value
        self._logs: Floats = np.empty((0, len(distribution.mu)))
        """log mass of the steps that were asked for (M, K)"""

    def draw(self, chosen: npt.NDArray[np.int64], uniform: Floats) -> Floats:
        low, step = self._range.low, self._range.step
        values: Floats = low + np.round((super().draw(chosen, uniform) - low) / step) * step
        return values.clip(low, self._range.high)

    def features(self, values: Floats) -> Floats:
        return np.empty((len(values), 0))

    def table(self, values: Floats) -> Table | None:
        new = [value for value in {*values.tolist()} if value not in self._places]
        if new:
            self._places |= zip(
                new, range(len(self._logs), len(self._logs) + len(new)), strict=True
            )
            self._logs = np.concatenate([self._logs, self._log_steps(np.array(new))])
        return self._logs, np.array([self._places[value] for value in values.tolist()])

    def _log_steps(self, values: Floats) -> Floats:
        half = self._range.step / 2
        # Neighbours have an edge in common.
        edges, at = np.unique(np.stack([values - half, values + half]), return_inverse=True)
        low, high = at.reshape(2, -1)
        mass = self._mass(np.log(edges) if self._range.is_log else edges, low, high)
        with np.errstate(divide="ignore"):  # 0 where a kernel is far away
            log: Floats = np.log(mass) - self._log_mass
        return log
