"""A Gaussian process whose function changes with time.

k((x, t), (x', t')) = exp(-|x - x'|^2 / 2 l^2) (1 - w)^(|t - t'| / 2), observed with noise.
Source: Bogunovic, Scarlett and Cevher, Time-varying Gaussian process bandit optimization (AISTATS
2016, arXiv 1601.06650), the model of TV-GP-UCB, which PB2 takes over (arXiv 2002.02518).
Axes: n observations, m queries, D dimensions.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from hpsearch.population.arrays import Floats

LENGTH_SCALES = (0.1, 0.2, 0.4, 0.8, 1.6)
FORGETTING = (0.0, 0.02, 0.1, 0.3)
NOISES = (0.01, 0.1, 0.5, 1.0)


@dataclass(frozen=True)
class Kernel:
    """What the process is like; the variance of its function is 1."""

    length_scale: float
    """distance in x over which the function stays alike"""
    forgetting: float
    """w, from 0 (the function never changes) to below 1"""
    noise: float
    """variance of an observation's noise"""

    def covariance(self, x: Floats, t: Floats, other_x: Floats, other_t: Floats) -> Floats:
        """Return the covariance (n, m) of the function at x (n, D), t (n,) and at the others."""
        square = np.square(x[:, None] - other_x).sum(axis=2)
        ages = np.abs(t[:, None] - other_t)
        alike: Floats = np.exp(-square / (2 * self.length_scale**2))
        return alike * (1.0 - self.forgetting) ** (ages / 2)


@dataclass(frozen=True)
class Posterior:
    """The process after observations."""

    kernel: Kernel
    x: Floats
    """(n, D)"""
    t: Floats
    """(n,)"""
    factor: Floats
    """(n, n) Cholesky factor of the observations' covariance"""
    weights: Floats
    """(n,) inverse covariance times observations"""
    log_evidence: float
    """logarithm of the observations' density"""

    def predict(self, x: Floats, t: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation (m,) of the function at x (m, D) and t (m,)."""
        cross = self.kernel.covariance(self.x, self.t, x, t)
        known = np.linalg.solve(self.factor, cross)
        variance = np.maximum(1.0 - np.square(known).sum(axis=0), 0.0)
        return cross.T @ self.weights, np.sqrt(variance)


def condition(kernel: Kernel, x: Floats, t: Floats, y: Floats) -> Posterior:
    """Return the process after the observations y (n,) at x (n, D) and t (n,).

    Source: Rasmussen and Williams, Gaussian processes for machine learning (2006), algorithm 2.1.
    """
    covariance = kernel.covariance(x, t, x, t) + kernel.noise * np.eye(len(y))
    factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, y))
    log_evidence = -0.5 * y @ weights - np.log(factor.diagonal()).sum()
    return Posterior(
        kernel, x, t, factor, weights, float(log_evidence - 0.5 * len(y) * np.log(2 * np.pi))
    )


def fit(x: Floats, t: Floats, y: Floats) -> Posterior:
    """Return the process, of those on a grid of kernels, that makes the observations likeliest."""
    return max(
        (
            condition(Kernel(*kernel), x, t, y)
            for kernel in product(LENGTH_SCALES, FORGETTING, NOISES)
        ),
        key=lambda posterior: posterior.log_evidence,
    )
