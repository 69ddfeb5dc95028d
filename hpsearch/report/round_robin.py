"""Cross-play of everybody who was named, in as few calls as memory allows.

Axes: P hosts, Q agents, G games of each pair.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np
import torch

from hpsearch.population.crossplay import CrossPlay, crossplay
from hpsearch.population.sides import (
    Agents,
    Hosts,
    agent_banks,
    host_banks,
    scripted_agents,
    scripted_hosts,
)
from hpsearch.report.entrants import Entrants, Side
from hpsearch.trainers.saved_player import SavedPlayer
from hpsearch.trainers.seats import AgentSeat, HostSeat

MAX_COORDINATES: Final = 2**24
"""of the positions of all games at once; beside them stand a few tensors of their size, and what
the networks make of them"""


@dataclass(frozen=True)
class HowToPlay:
    """What is played."""

    num_games: int
    """of each pair, G"""
    seed: int
    """of the starts, and of what is drawn"""
    sampled: bool
    """whether learned players draw their moves, as often as in their own evaluations"""
    device: torch.device


def play_round_robin(entrants: Entrants, how: HowToPlay) -> CrossPlay:
    """Let every host play every agent, from the same starts in every cell.

    All games are played at once where they fit; else some hosts after the others, which changes no
    game.
    """
    agents = _agents(entrants.agent, sampled=how.sampled)
    num_agents = sum(len(group.names) for group in agents)
    game = entrants.game
    of_a_host = num_agents * how.num_games * game.max_num_points * game.dimension
    at_once = max(1, MAX_COORDINATES // of_a_host)
    return _stacked(
        [
            crossplay(
                _hosts(side, sampled=how.sampled),
                agents,
                game,
                num_games=how.num_games,
                max_steps=entrants.max_steps,
                split=f"cross-play {how.seed}",
                device=how.device,
            )
            for side in _batches(entrants.host, at_once)
        ]
    )


def _batches(side: Side, size: int) -> Iterator[Side]:
    """Yield those of a side, at most ``size`` at once."""
    learned, scripted = iter(side.learned.items()), iter(side.scripted)
    while True:
        some = dict(islice(learned, size))
        others = tuple(islice(scripted, size - len(some)))
        if not (some or others):
            return
        yield replace(side, learned=some, scripted=others)


def _hosts(side: Side, *, sampled: bool) -> tuple[Hosts, ...]:
    groups = [*scripted_hosts(side.scripted)]
    for rate, players in _by_rate(side.learned, sampled=sampled).items():
        groups += [Hosts(b.names, HostSeat(b.policy, rate)) for b in host_banks(players)]
    return tuple(groups)


def _agents(side: Side, *, sampled: bool) -> tuple[Agents, ...]:
    groups = [*scripted_agents(side.scripted)]
    for rate, players in _by_rate(side.learned, sampled=sampled).items():
        groups += [Agents(b.names, AgentSeat(b.policy, rate)) for b in agent_banks(players)]
    return tuple(groups)


def _by_rate(
    players: Mapping[str, SavedPlayer], *, sampled: bool
) -> dict[float, dict[str, SavedPlayer]]:
    """Group players by how often they draw a move."""
    groups: dict[float, dict[str, SavedPlayer]] = {}
    for name, player in players.items():
        rate = player.config.evaluation.er if sampled else 0.0
        groups.setdefault(rate, {})[name] = player
    return groups


def _stacked(parts: list[CrossPlay]) -> CrossPlay:
    """Return the games of several batches of hosts against the same agents as one."""
    return CrossPlay(
        tuple(name for part in parts for name in part.hosts),
        parts[0].agents,
        np.concatenate([part.moves for part in parts]),
        np.concatenate([part.finished for part in parts]),
    )
