"""Statistics of small samples: starts drawn again, chances of being best, interquartile means.

Game g of every pair has the same start. Drawing whole starts keeps that, so that differences of
players are surer than their values. The rating of each drawn payoff gives a rating's interval.

Axes: P hosts, Q agents, G games of each pair, R samples, K candidates, N seeds of a candidate.
"""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CONFIDENCE = 0.95  # of the intervals that are shown


def checked_payoff(payoff: npt.ArrayLike) -> Floats:
    """Return what hosts (rows) earn against agents (columns) as finite float64 (P, Q)."""
    matrix = np.asarray(payoff, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"a payoff is a matrix of P hosts x Q agents, got {matrix.shape=}")
    if not np.isfinite(matrix).all():
        raise ValueError("a payoff must be finite; play the missing pairs, or leave them out")
    return matrix


def checked_num_games(moves: Ints) -> int:
    """Return G of the lengths of games (P, Q, G), at least one."""
    if moves.ndim != 3 or moves.size == 0:
        raise ValueError(f"lengths of games are P hosts x Q agents x G games, got {moves.shape=}")
    return int(moves.shape[2])


def resampled_rho(moves: Ints, num_samples: int, rng: Generator) -> Floats:
    """Return rho of every pair for starts drawn with replacement, float64 (R, P, Q).

    ``moves`` (P, Q, G) are lengths of games, the cap where one did not finish.
    """
    num_games = checked_num_games(moves)
    times = rng.multinomial(num_games, np.full(num_games, 1 / num_games), size=num_samples)
    totals = np.tensordot(times.astype(np.float64), moves.astype(np.float64), axes=(1, 2))
    return np.asarray(num_games / totals)


def rho_errors(moves: Ints) -> Floats:
    """Return the standard error of every pair's rho, float64 (P, Q), from games (P, Q, G).

    By the delta method: rho is one over the mean length m, so its error is that of m over m^2.
    Unlike `resampled_rho` it does not keep that pairs share starts.
    """
    num_games = checked_num_games(moves)
    if num_games < 2:
        raise ValueError("a standard error needs at least two games of each pair, got 1")
    mean = moves.mean(axis=2)
    return np.asarray(moves.std(axis=2, ddof=1) / np.sqrt(num_games) / mean**2)


def comparable(scores: npt.ArrayLike) -> Floats:
    """Return scores as float64, minus infinity in the place of what is not a number."""
    numbers = np.asarray(scores, dtype=np.float64)
    return np.where(np.isnan(numbers), -np.inf, numbers)


def chance_better(left: npt.ArrayLike, right: npt.ArrayLike) -> float:
    """Return how often ``left`` (R,) is above ``right`` (R,), equals counting half.

    Sample r of both must be of the same starts, or of independent ones.
    """
    a, b = comparable(left), comparable(right)
    return float((a > b).mean() + 0.5 * (a == b).mean())


def interval(samples: Floats, confidence: float) -> Floats:
    """Return the ends (2, ...) between which the share ``confidence`` of samples (R, ...) lies."""
    outside = (1.0 - confidence) / 2
    return np.asarray(np.quantile(samples, [outside, 1.0 - outside], axis=0))


def num_errors(confidence: float) -> float:
    """Return how many standard errors a normal interval reaches to each side: 1.96 for 95 %."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie above 0 and below 1, got {confidence!r}")
    return NormalDist().inv_cdf((1.0 + confidence) / 2)


def chance_of_best(draws: npt.ArrayLike) -> Floats:
    """Return how often each candidate is the highest of a draw (R, K), float64 (K,); equals share.

    Draws are such as those of `drawn_means`, or resampled scores on common starts.
    """
    values = np.asarray(draws, dtype=np.float64)
    if values.ndim != 2 or values.size == 0 or np.isnan(values).any():
        raise ValueError(f"draws are numbers, R x K, got {values.shape=}")
    best = values == values.max(axis=1, keepdims=True)
    return np.asarray((best / best.sum(axis=1, keepdims=True)).mean(axis=0))


def drawn_means(scores: Sequence[npt.ArrayLike], rng: Generator, num_draws: int) -> Floats:
    """Draw the candidates' means, float64 (R, K), from the scores of each candidate's seeds, (N,).

    Model: a candidate's scores are normal about its mean, with one spread for all candidates, as
    that of three seeds is hardly known, and a flat prior on the means and on the logarithm of the
    spread. The posterior of the means is then a common inverse chi-square variance, and normal
    means given it (Gelman et al., Bayesian data analysis, 3rd edition, section 3.2). ValueError if
    a candidate has no seed, no candidate has two, or a score is not finite.
    """
    seeds = [np.asarray(values, dtype=np.float64) for values in scores]
    if not all(values.ndim == 1 and len(values) and np.isfinite(values).all() for values in seeds):
        raise ValueError("every candidate needs the finite score of at least one seed")
    freedom = sum(len(values) - 1 for values in seeds)
    if freedom < 1:
        raise ValueError("the spread over seeds needs a candidate with at least two")
    squares = sum(float(np.square(values - values.mean()).sum()) for values in seeds)
    spread = np.sqrt(squares / rng.chisquare(freedom, size=(num_draws, 1)))
    means = np.array([values.mean() for values in seeds])
    nums = np.array([len(values) for values in seeds])
    return np.asarray(means + spread / np.sqrt(nums) * rng.normal(size=(num_draws, len(seeds))))


def interquartile_mean(scores: npt.ArrayLike) -> Floats:
    """Return the mean of the middle half along the last axis, whatever stands before it.

    A quarter of the scores, rounded down, is left out at each end (Agarwal et al., Deep
    reinforcement learning at the edge of the statistical precipice, arXiv 2108.13264).
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    num = ordered.shape[-1] if ordered.ndim else 0
    if not num:
        raise ValueError("an interquartile mean needs at least one score")
    cut = num // 4
    return np.asarray(ordered[..., cut : num - cut].mean(axis=-1))
