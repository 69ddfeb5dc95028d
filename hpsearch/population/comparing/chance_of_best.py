"""How likely each of several candidates is the best, from a few seeds of each.

Axes: K candidates, R draws of all their means.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, checked_scores


def chance_of_best(draws: npt.ArrayLike) -> Floats:
    """Return how often each candidate is the highest of a draw, float64 (K,); equals share.

    Args:
        draws: (R, K) of what the candidates are compared by, such as the draws of this module, or
            resampled scores on common starts.

    Raises:
        ValueError: if there is nothing to compare, or some draw is not a number.
    """
    values = np.asarray(draws, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or np.isnan(values).any():
        raise ValueError(f"draws are numbers, R x K, got {values.shape=}")
    best = values == values.max(axis=1, keepdims=True)
    chances: Floats = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
    return chances


def drawn_means(
    scores: Sequence[npt.ArrayLike], rng: np.random.Generator, num_draws: int
) -> Floats:
    """Draw the candidates' means from what their seeds tell, float64 (R, K).

    Model: a candidate's scores are normal about its mean, with one spread for all candidates, and a
    flat prior on the means and on the logarithm of the spread. The posterior of the means is then a
    common inverse chi-square variance, and normal means given it (Gelman et al., Bayesian data
    analysis, 3rd edition, section 3.2). One spread, because that of three seeds is hardly known;
    where candidates are known to differ in it, use `resampled_means`.

    Args:
        scores: of each candidate, one for every seed; one is enough if others have more.
        rng: draws them.
        num_draws: R.

    Raises:
        ValueError: if a candidate has no seed, no candidate has two, or a score is not finite.
    """
    seeds = checked_scores(scores, owner="candidate")
    freedom = sum(len(values) - 1 for values in seeds)
    if freedom < 1:
        raise ValueError("the spread over seeds needs a candidate with at least two")
    squares = sum(float(np.square(values - values.mean()).sum()) for values in seeds)
    spread = np.sqrt(squares / rng.chisquare(freedom, size=(num_draws, 1)))
    means = np.array([values.mean() for values in seeds])
    nums = np.array([len(values) for values in seeds])
    draws: Floats = means + spread / np.sqrt(nums) * rng.normal(size=(num_draws, len(seeds)))
    return draws


def resampled_means(
    scores: Sequence[npt.ArrayLike], rng: np.random.Generator, num_draws: int
) -> Floats:
    """Draw the candidates' means by bootstrap over their seeds, float64 (R, K).

    It knows no model, and is too sure with fewer than about ten seeds of each.

    Args:
        scores: of each candidate, one for every seed.
        rng: draws the seeds.
        num_draws: R.

    Raises:
        ValueError: if a candidate has no seed, or a score is not finite.
    """
    seeds = checked_scores(scores, owner="candidate")
    return np.stack(
        [
            values[rng.integers(len(values), size=(num_draws, len(values)))].mean(axis=1)
            for values in seeds
        ],
        axis=1,
    )
