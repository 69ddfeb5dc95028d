"""Of all optimal strategies of one player, the one of largest entropy.

By then the optimal face is known: the support of its strategies, the opponents' answers that always
hold the player to the value, and a point inside. What is left is a smooth concave problem, solved
by Newton steps within the face, with a logarithmic barrier for the answers that could come to bind
(Boyd and Vandenberghe, Convex Optimization, 2004, section 11.3).
"""

import numpy as np

from hpsearch.population.arrays import Floats

BARRIERS = tuple(10.0**-k for k in range(1, 12))
MAX_STEPS = 60
REMEDY = (
    "leave out players that are copies of others, and look at the payoff's scale: differences "
    "below 1e-9 of its range do not count"
)
"""what helps where numbers are too close"""
RANK_TOLERANCE = 1e-9
ENOUGH = 1e-24
"""squared Newton decrement, twice the entropy that is still to be won"""
BEARABLE = 1e-10
"""the same, where rounding ends the search"""


def maximum_entropy(inside: Floats, *, tight: Floats, loose: Floats, value: float) -> Floats:
    """Return the strategy of largest entropy.

    Args:
        inside: (S,) a strategy on the support, all entries positive.
        tight: (S, T) payoffs against the answers that every optimal strategy makes equal.
        loose: (S, L) payoffs against the other answers; ``inside`` earns more than ``value``.
        value: of the game.

    Returns:
        float64 (S,).

    Raises:
        RuntimeError: if it is not found.
    """
    face = _directions(tight)
    if not face.shape[1]:
        return inside
    place, decrement = np.zeros(face.shape[1]), np.inf
    for barrier in BARRIERS if loose.shape[1] else (0.0,):
        place, decrement = _climb(
            place, inside=inside, face=face, loose=loose, value=value, barrier=barrier
        )
    # A barrier that ended early only makes the next one's way longer.
    if not decrement < BEARABLE:
        raise RuntimeError(
            f"the strategy of largest entropy of {len(inside)} players was not found in "
            f"{MAX_STEPS} steps; {REMEDY}"
        )
    return inside + face @ place


def _directions(tight: Floats) -> Floats:
    """Return an orthonormal basis (S, F) of the steps that stay within the face."""
    # A step leaves the sum of the strategy alone, and what it earns against every tight answer.
    fixed = np.vstack([tight.T, np.ones((1, len(tight)))])
    _, singular, rows = np.linalg.svd(fixed)
    rank = int((singular > RANK_TOLERANCE * max(1.0, singular[0])).sum())
    basis: Floats = rows[rank:].T
    return basis


def _climb(
    place: Floats, *, inside: Floats, face: Floats, loose: Floats, value: float, barrier: float
) -> tuple[Floats, float]:
    """Return where the entropy plus the barrier is largest, and the decrement that is left.

    By damped Newton steps.
    """

    def cost(at: Floats) -> float:
        strategy = inside + face @ at
        slack = strategy @ loose - value
        if strategy.min() <= 0.0 or (slack <= 0.0).any():
            return np.inf
        return float(strategy @ np.log(strategy) - barrier * np.log(slack).sum())

    decrement = np.inf
    for _ in range(MAX_STEPS):
        strategy = inside + face @ place
        slack = strategy @ loose - value
        gradient = face.T @ (np.log(strategy) + 1.0 - barrier * loose @ (1.0 / slack))
        bend = np.diag(1.0 / strategy) + barrier * (loose / slack**2) @ loose.T
        step = -np.linalg.solve(face.T @ bend @ face, gradient)
        decrement = float(-gradient @ step)
        if decrement < ENOUGH:
            break
        here, length = cost(place), 1.0
        while cost(place + length * step) > here - 0.1 * length * decrement and length > 1e-12:
            length /= 2
        if length <= 1e-12:  # as near as float64 can tell
            break
        place = place + length * step
    return place, decrement
