"""Bradley-Terry strengths of hosts and agents, with intervals.

P(host i beats agent j) = 1 / (1 + exp(-(a_i - b_j))). Hosts meet agents alone, so one scale
holds both. Source: Bradley and Terry, Biometrika 39 (1952). A normal prior on the strengths keeps
those finite who never lost or never won.
Axes: P hosts, Q agents, K = P + Q players, hosts first, G games of each pair.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.statistics import Floats, Ints, checked_num_games, num_errors

MAX_STEPS = 100
ENOUGH = 1e-20
"""squared Newton decrement, in units of log-likelihood: the squared distance to the optimum in
standard errors"""
BEARABLE = 1e-8  # the same, where rounding ends the search


@dataclass(frozen=True)
class Strengths:
    """Strengths in logits; those of all players sum to zero."""

    hosts: Floats  # (P,) high is strong
    agents: Floats  # (Q,) high is strong, unlike with rho
    covariance: Floats  # (K, K) of hosts, then agents

    def intervals(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the ends of the intervals of hosts (2, P) and agents (2, Q)."""
        reach = num_errors(confidence) * np.sqrt(self.covariance.diagonal())
        strengths = np.concatenate([self.hosts, self.agents])
        ends = np.stack([strengths - reach, strengths + reach])
        return ends[:, : len(self.hosts)], ends[:, len(self.hosts) :]


def bradley_terry(wins: npt.ArrayLike, games: npt.ArrayLike, *, ridge: float) -> Strengths:
    """Return the most likely strengths, and their covariance by the Fisher information.

    Of ``wins`` (P, Q), halves allowed, by the hosts (`wins_by_speed`) in ``games`` (P, Q), 0 where
    a pair did not meet. ``ridge``, above 0, is the precision of the normal prior on every strength:
    0.01 hardly moves players with some twenty games, and bounds those without a loss. The
    covariance takes games as independent, which those from the same starts are not quite, and the
    posterior as normal, which makes the intervals of players without a loss too wide. Raises
    ValueError for wrong arguments, RuntimeError if games outweigh the prior by more than float64
    can tell; a larger ridge helps.
    """
    won, played = np.asarray(wins, dtype=np.float64), np.asarray(games, dtype=np.float64)
    if won.ndim != 2 or won.size == 0 or won.shape != played.shape:
        raise ValueError(f"wins and games are P x Q both, got {won.shape=}, {played.shape=}")
    if not ((won >= 0) & (won <= played) & np.isfinite(played)).all():
        raise ValueError("0 <= wins <= games must hold for every pair")
    if ridge <= 0:
        raise ValueError(f"ridge must be above 0, got {ridge!r}")
    try:
        strengths, covariance = _most_likely(won, played, ridge)
    except np.linalg.LinAlgError as error:
        raise RuntimeError(
            f"the strengths of {len(won)} hosts and {won.shape[1]} agents were not found in "
            f"{MAX_STEPS} steps; raise {ridge=}, or leave out players with very few games"
        ) from error
    return Strengths(strengths[: len(won)], strengths[len(won) :], covariance)


def _most_likely(won: Floats, played: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Return the strengths (K,) and their covariance (K, K), by damped Newton steps."""
    strengths, decrement = np.zeros(sum(won.shape)), np.inf
    for _ in range(MAX_STEPS):
        gradient, information = _slopes(strengths, won, played, ridge)
        step = np.linalg.solve(information, gradient)
        decrement = float(gradient @ step)
        if decrement < ENOUGH:
            break
        length, here = 1.0, _log_posterior(strengths, won, played, ridge)
        while (
            _log_posterior(strengths + length * step, won, played, ridge) < here and length > 1e-9
        ):
            length /= 2
        strengths = strengths + length * step
    if not decrement < BEARABLE:
        raise np.linalg.LinAlgError("the steps did not come to an end")
    # Strengths mean something up to a common shift alone; what is unsure of it is not reported.
    centre = np.eye(len(strengths)) - 1.0 / len(strengths)
    covariance = centre @ np.linalg.inv(_slopes(strengths, won, played, ridge)[1]) @ centre
    if covariance.diagonal().min() < 0:
        raise np.linalg.LinAlgError("nothing but rounding is left of a variance")
    return strengths, covariance


def _slopes(strengths: Floats, won: Floats, played: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Return gradient (K,) and negative Hessian (K, K) of the log-posterior.

    A common shift of all strengths, which only the prior resists and no gradient points to, is made
    stiff: where games are many, the prior's resistance would be lost to rounding.
    """
    p = len(won)
    chance = np.exp(-np.logaddexp(0.0, strengths[p:] - strengths[:p, None]))
    surplus, weight = won - played * chance, played * chance * (1.0 - chance)
    gradient = np.concatenate([surplus.sum(axis=1), -surplus.sum(axis=0)]) - ridge * strengths
    information = np.block(
        [[np.diag(weight.sum(axis=1)), -weight], [-weight.T, np.diag(weight.sum(axis=0))]]
    )
    stiff = information.diagonal().max() / len(strengths)
    return gradient, information + ridge * np.eye(len(strengths)) + stiff


def _log_posterior(strengths: Floats, won: Floats, played: Floats, ridge: float) -> float:
    lead = strengths[: len(won), None] - strengths[len(won) :]
    likelihood = won * lead - played * np.logaddexp(0.0, lead)
    return float(likelihood.sum() - 0.5 * ridge * strengths @ strengths)


def wins_by_speed(moves: Ints) -> Floats:
    """Return how many of the games (P, Q, G) each host won against each agent, float64 (P, Q).

    A host wins a game that takes fewer moves than the median over all pairs from the same start,
    and half of one that takes as many.
    """
    checked_num_games(moves)
    usual = np.median(moves, axis=(0, 1))
    return np.asarray((moves < usual).sum(axis=2) + 0.5 * (moves == usual).sum(axis=2))
