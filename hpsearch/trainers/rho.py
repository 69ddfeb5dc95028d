"""rho, the measure of a host-agent pair: games ended per move, with its uncertainty.

rho = (S - over at start) / (sum of the lengths of finished games + cap * unfinished), S games.
Our starts are never over, so rho is one over the mean length, unfinished games counted at the cap.
Axes: G games, R bootstrap samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NUM_BOOTSTRAP = 1000
BOOTSTRAP_SEED = 0  # of all intervals

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lengths:
    moves: npt.NDArray[np.int64]  # (G,), the cap where the game did not finish
    finished: npt.NDArray[np.bool_]  # (G,)


@dataclass(frozen=True)
class Rho:
    """High means a strong host, low a strong agent."""

    value: float
    low: float  # lower end of the bootstrap 95 % interval
    high: float  # upper end of the bootstrap 95 % interval
    capped: float  # share of games that did not finish
    games: int


def rho(lengths: Lengths) -> Rho:
    value = 1.0 / lengths.moves.mean()
    return _summary(value, bootstrap(lengths, BOOTSTRAP_SEED), [lengths])


def panel(opponents: Sequence[Lengths]) -> Rho:
    """Return the geometric mean of a player's rho over several opponents."""
    value = np.exp(np.mean([-np.log(lengths.moves.mean()) for lengths in opponents]))
    logs = [np.log(bootstrap(lengths, BOOTSTRAP_SEED + k)) for k, lengths in enumerate(opponents)]
    return _summary(value, np.exp(np.mean(logs, axis=0)), opponents)


def worst(role: str, opponents: Sequence[Lengths]) -> Rho:
    """Return a player's rho against the opponent that it does worst against.

    The interval is that of the worst of each sample, over all opponents, so that an opponent that
    is nearly the worst counts too.
    """
    worst_of = np.min if role == "host" else np.max
    value = worst_of([1.0 / lengths.moves.mean() for lengths in opponents])
    samples = [bootstrap(lengths, BOOTSTRAP_SEED + k) for k, lengths in enumerate(opponents)]
    return _summary(value, worst_of(samples, axis=0), opponents)


def bootstrap(lengths: Lengths, seed: int) -> Floats:
    """Return rho of the games resampled with replacement, (R,).

    Games of one length are alike, so what is drawn is how many there are of each.
    """
    num_games = len(lengths.moves)
    values, counts = np.unique(lengths.moves, return_counts=True)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(num_games, counts / num_games, size=NUM_BOOTSTRAP)
    return np.asarray(num_games / (drawn @ values))


def _summary(value: float, samples: Floats, opponents: Sequence[Lengths]) -> Rho:
    low, high = np.quantile(samples, [0.025, 0.975])
    capped = np.mean([1.0 - lengths.finished.mean() for lengths in opponents])
    games = sum(len(lengths.moves) for lengths in opponents)
    return Rho(float(value), float(low), float(high), float(capped), games)
