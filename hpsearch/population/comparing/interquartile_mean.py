"""The interquartile mean over seeds and tasks, with its interval.

Source: Agarwal et al., Deep reinforcement learning at the edge of the statistical precipice
(NeurIPS 2021, arXiv 2108.13264), sections 4.1 (stratified bootstrap) and 4.3 (this mean).
Axes: M tasks, N seeds of a task, R samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, checked_scores
from hpsearch.population.ratings.resampling import interval


@dataclass(frozen=True)
class InterquartileMean:
    """The mean of the middle half of all scores."""

    value: float
    low: float
    """lower end of the bootstrap interval"""
    high: float
    """upper end of the bootstrap interval"""


def interquartile_mean(scores: npt.ArrayLike) -> Floats:
    """Return the mean of the middle half along the last axis, whatever stands before it.

    A quarter of the scores, rounded down, is left out at each end.

    Raises:
        ValueError: if there are no scores.
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    num = ordered.shape[-1] if ordered.ndim else 0
    if not num:
        raise ValueError("an interquartile mean needs at least one score")
    cut = num // 4
    means: Floats = np.asarray(ordered[..., cut : num - cut].mean(axis=-1))
    return means


def interquartile_mean_interval(
    tasks: Sequence[npt.ArrayLike],
    *,
    num_samples: int,
    confidence: float,
    rng: np.random.Generator,
) -> InterquartileMean:
    """Return the interquartile mean of all tasks' scores, seeds resampled within their task.

    The percentile interval is known to be somewhat narrow with fewer than about ten scores in all.

    Args:
        tasks: of each, the scores (N,) of its seeds, in a unit that tasks share; N may differ.
        num_samples: R.
        confidence: of the interval.
        rng: draws the seeds.

    Raises:
        ValueError: if there is no task, one has no seeds, or a score is not finite.
    """
    strata = checked_scores(tasks, owner="task")
    resampled = [
        scores[rng.integers(len(scores), size=(num_samples, len(scores)))] for scores in strata
    ]
    low, high = interval(interquartile_mean(np.concatenate(resampled, axis=1)), confidence)
    value = interquartile_mean(np.concatenate(strata))
    return InterquartileMean(float(value), float(low), float(high))
