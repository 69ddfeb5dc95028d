"""Points to try next, by a model of what each point improved at its time.

Source: Parker-Holder, Nguyen and Roberts, Provably efficient online hyperparameter optimization
with population-based bandits (NeurIPS 2020, arXiv 2002.02518), PB2: a time-varying Gaussian process
on changes of the score, its upper confidence bound maximised, with the points that are already
under way taken as known for the bound's width.
Axes: n observations, C children, D dimensions.
"""

from dataclasses import dataclass

import numpy as np

from hpsearch.population.arrays import Floats
from hpsearch.population.exploring.gaussian_process import Posterior, condition, fit

NUM_CANDIDATES = 512
"""points looked at, half of them anywhere and half near good ones"""
NUM_ANCHORS = 8
NEARNESS = 0.08
"""standard deviation of the candidates around a good point"""


@dataclass(frozen=True)
class Observations:
    """What was tried, when, and how much the score changed by it."""

    x: Floats
    """(n, D) places in the unit cube"""
    t: Floats
    """(n,) generations"""
    change: Floats
    """(n,) of the score over the generation; high is good"""

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together, or are not finite."""
        if self.x.ndim != 2 or not len(self.x) == len(self.t) == len(self.change):
            raise ValueError(
                f"observations need x (n, D), t (n,) and change (n,), got "
                f"{self.x.shape=}, {self.t.shape=}, {self.change.shape=}"
            )
        if not all(np.isfinite(part).all() for part in (self.x, self.t, self.change)):
            raise ValueError("observations must be finite; leave out members that failed")


def propose(
    seen: Observations, now: float, num_children: int, optimism: float, rng: np.random.Generator
) -> Floats:
    """Return points of the unit cube for the children of generation ``now``, float64 (C, D).

    Args:
        seen: what was tried so far; with nothing to tell points apart, they are drawn anywhere.
        now: generation of the children.
        num_children: C.
        optimism: standard deviations that are added to the mean; 0 only exploits.
        rng: draws the points that are looked at.
    """
    dimensions = seen.x.shape[1]
    if len(seen.change) < 2 or np.ptp(seen.change) == 0:
        return rng.random((num_children, dimensions))
    standard = (seen.change - seen.change.mean()) / seen.change.std()
    model = fit(seen.x, seen.t, standard)
    children = np.zeros((num_children, dimensions))
    for child in range(num_children):
        candidates = _candidates(model, now, rng)
        mean, error = model.predict(candidates, np.full(len(candidates), now))
        children[child] = candidates[(mean + optimism * error).argmax()]
        model = _under_way(model, children[child], now)
    return children


def _candidates(model: Posterior, now: float, rng: np.random.Generator) -> Floats:
    """Return points anywhere, and points around those that the model now thinks best."""
    half, dimensions = NUM_CANDIDATES // 2, model.x.shape[1]
    mean, _ = model.predict(model.x, np.full(len(model.x), now))
    anchors = model.x[np.argsort(-mean, kind="stable")[:NUM_ANCHORS]]
    near = anchors[rng.integers(len(anchors), size=half)]
    near = near + NEARNESS * rng.normal(size=(half, dimensions))
    return np.concatenate([rng.random((half, dimensions)), np.clip(near, 0.0, 1.0)])


def _under_way(model: Posterior, point: Floats, now: float) -> Posterior:
    """Return the model as if the point had been seen to do as expected: only less is unsure.

    Source: Desautels, Krause and Burdick, GP-BUCB (JMLR 15, 2014).
    """
    expected, _ = model.predict(point[None], np.array([now]))
    y = np.concatenate([model.factor @ (model.factor.T @ model.weights), expected])
    return condition(model.kernel, np.vstack([model.x, point]), np.append(model.t, now), y)
