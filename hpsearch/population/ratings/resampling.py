"""Cross-play with its uncertainty: starts drawn again, the same ones for every pair.

Game g of every pair has the same start, so a start that takes long takes long for all. Drawing
whole starts keeps that, and differences of players become surer than their values are. Any rating
of the drawn payoffs, one after another, gives that rating's interval.
Axes: P hosts, Q agents, G games of each pair, R samples.
"""

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, checked_num_games


def resampled_rho(
    moves: npt.NDArray[np.int64], num_samples: int, rng: np.random.Generator
) -> Floats:
    """Return rho of every pair for starts drawn with replacement, float64 (R, P, Q).

    Args:
        moves: (P, Q, G) lengths of games, the cap where one did not finish: `CrossPlay.moves`.
        num_samples: R.
        rng: draws the starts.

    Raises:
        ValueError: if there are no games, or ``moves`` has other axes.
    """
    num_games = checked_num_games(moves)
    times = rng.multinomial(num_games, np.full(num_games, 1 / num_games), size=num_samples)
    totals = np.tensordot(times.astype(np.float64), moves.astype(np.float64), axes=(1, 2))
    samples: Floats = num_games / totals
    return samples


def rho_errors(moves: npt.NDArray[np.int64]) -> Floats:
    """Return the standard error of every pair's rho, float64 (P, Q).

    By the delta method: rho is one over the mean length m, so its error is that of m over m^2.
    Errors of pairs that share starts are correlated; `resampled_rho` keeps that, these do not.

    Raises:
        ValueError: if a pair has fewer than two games, or ``moves`` has other axes.
    """
    num_games = checked_num_games(moves)
    if num_games < 2:
        raise ValueError("a standard error needs at least two games of each pair, got 1")
    mean = moves.mean(axis=2)
    errors: Floats = moves.std(axis=2, ddof=1) / np.sqrt(num_games) / mean**2
    return errors


def interval(samples: Floats, confidence: float) -> Floats:
    """Return the ends of the percentile interval of samples (R, ...), float64 (2, ...).

    Args:
        samples: of anything.
        confidence: share of the samples that lies between the ends.
    """
    outside = (1.0 - confidence) / 2
    ends: Floats = np.quantile(samples, [outside, 1.0 - outside], axis=0)
    return ends
