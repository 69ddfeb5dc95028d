"""Published results of players of this game, as data, with which ours are compared.

Sources: the README files and pictures of the system `hironaka` (its experiments
small-scale-against-choosefirst-v0 and hironaka-zero-beta), and runs of its code with integers.
"""

from dataclasses import dataclass
from typing import Final

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class PublishedMatch:
    """How many games a pair began within 10,000 moves, played one game after another."""

    host: str
    agent: str
    published: int
    rerun: int | None
    """counted by us with the published code; None where the player is not available"""
    tolerance: float  # relative, of either figure, by which a reproduction may miss


TRAINED: Final = "published DQN"

MATCHES: Final = (
    PublishedMatch(TRAINED, "choose_first", 326, None, 0.05),
    PublishedMatch(TRAINED, "random", 1654, None, 0.05),
    PublishedMatch("random_pair", "choose_first", 488, 552, 0.05),
    PublishedMatch("random_pair", "random", 1481, 1526, 0.05),
    PublishedMatch("all_coord", "choose_first", 10, 12, 0.05),
    PublishedMatch("all_coord", "random", 2139, 2181, 0.05),
    # Heavy tails, and ties that floats decide otherwise.
    PublishedMatch("zeillinger", "choose_first", 719, 675, 0.20),
    PublishedMatch("zeillinger", "random", 1898, 1901, 0.05),
)


@dataclass(frozen=True)
class Singularity:
    """A start of the ADE table and its worst-case numbers of moves."""

    name: str
    points: Rows  # the exponents, canonical
    minimax: int | None  # under best play of both; None where nothing was published
    zeillinger: int | None
    best_model: int | None  # of the best published model


def _a(n: int) -> Rows:
    return ((2, 0, 0), (0, 2, 0), (0, 0, n + 1))


def _d(n: int) -> Rows:
    return ((2, 0, 0), (0, 2, 1), (0, 0, n - 1))


ADE: Final = (
    Singularity("A1", _a(1), 1, 2, None),
    Singularity("A2", _a(2), 3, 4, 3),
    Singularity("A3", _a(3), 2, 3, 2),
    Singularity("A4", _a(4), 4, 5, 5),
    Singularity("D4", _d(4), 4, 8, 5),
    Singularity("D5", _d(5), None, None, None),
    Singularity("E6", ((2, 0, 0), (0, 3, 0), (0, 0, 4)), 6, 10, 7),
    Singularity("E7", ((2, 0, 0), (0, 3, 0), (0, 1, 3)), None, None, None),
    Singularity("E8", ((2, 0, 0), (0, 3, 0), (0, 0, 5)), None, None, None),
)


@dataclass(frozen=True)
class PublishedRho:
    """rho of a host against an agent, points uniform on 0..20, cap 100."""

    host: str
    agent: str
    num_points: int
    value: float


RHOS: Final = (
    PublishedRho("zeillinger", "choose_first", 20, 0.079),
    PublishedRho("zeillinger", "random", 20, 0.186),
    PublishedRho("all_coord", "random", 20, 0.215),
    PublishedRho(TRAINED, "choose_first", 20, 0.050),
    PublishedRho(TRAINED, "random", 20, 0.175),
    PublishedRho("zeillinger", "choose_first", 5, 0.147),
    PublishedRho("published AlphaZero", "choose_first", 5, 0.14),
)
