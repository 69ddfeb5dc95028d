"""What happened in measured games beside their mean length: how long they took, what was chosen.

Axes: P members, M modes (greedy, sampled), G games, L games still looked at, A actions of a role.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hpsearch.trainers.rho import Lengths


@dataclass(frozen=True)
class Games:
    """The games of one role against one opponent in one mode."""

    lengths: tuple[int, ...]
    """games that finished after 0, 1, 2, ... moves, up to the longest one"""
    unfinished: int
    """games that did not finish"""
    actions: tuple[int, ...]
    """how often the role chose each of its A actions, as long as a game lasted"""

    @property
    def entropy(self) -> float:
        """Return the entropy of the role's actions in nats."""
        return entropy(self.actions)


def games(lengths: Lengths, actions: Sequence[int]) -> Games:
    """Count the lengths of one pair's games."""
    finished = np.bincount(lengths.moves[lengths.finished])
    return Games(tuple(finished.tolist()), int((~lengths.finished).sum()), tuple(actions))


def entropy(counts: Iterable[int]) -> float:
    """Return the entropy in nats of what was counted; 0 where nothing was."""
    there = [count for count in counts if count]
    total = sum(there)
    return -sum(count / total * math.log(count / total) for count in there) + 0.0


def pooled_entropy(opponents: Iterable[Games]) -> float:
    """Return the entropy of a role's actions against all opponents together."""
    return entropy(map(sum, zip(*(one.actions for one in opponents), strict=True)))


class ActionTally:
    """Counts the actions of one role while games are played, on their device.

    Attributes:
        role: host or agent.
        counts: int64 (P, M, A).
    """

    def __init__(
        self, role: str, *, num_members: int, num_modes: int, num_actions: int, modes: Tensor
    ) -> None:
        """Begin at nothing; ``modes`` int64 (G,) says which mode each game is of."""
        self.role = role
        self._first_action = modes * num_actions
        shape = (num_members, num_modes, num_actions)
        self.counts = torch.zeros(shape, dtype=torch.int64, device=modes.device)

    def add(self, actions: Tensor, lanes: Tensor, playing: Tensor) -> None:
        """Count ``actions`` int64 (P, L) of the games ``lanes`` (P, L) that are ``playing``."""
        index = actions + self._first_action[lanes]
        self.counts.flatten(1).scatter_add_(1, index, playing.long())
