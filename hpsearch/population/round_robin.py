"""Cross-play of everybody who was named, in as few calls as memory allows.

Axes: P hosts, Q agents, G games of each pair.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import torch

from hpsearch.errors import ConflictError
from hpsearch.game.config import GameConfig
from hpsearch.population.crossplay import CrossPlay, crossplay
from hpsearch.population.sides import (
    Agents,
    Hosts,
    agent_banks,
    host_banks,
    scripted_agents,
    scripted_hosts,
)
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.saved_player import SavedPlayer
from hpsearch.trainers.seats import AgentSeat, HostSeat

MAX_COORDINATES: Final = 2**24
"""of the positions of all games at once; beside them stand a few tensors of their size, and what
the networks make of them"""


@dataclass(frozen=True)
class Players:
    """Those who play one role, each name once."""

    learned: Mapping[str, SavedPlayer]
    """by name"""
    scripted: tuple[str, ...]

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.learned) + len(self.scripted)


def play_everybody(
    hosts: Players,
    agents: Players,
    game: GameConfig,
    *,
    num_games: int,
    max_steps: int,
    split: str,
    sampled: bool,
    device: torch.device,
    tell: Callable[[int], None] = lambda num_pairs: None,
) -> CrossPlay:
    """Let every host play every agent, from the same starts in every cell.

    All games are played at once where they fit; else some players after the others, which changes
    no game.

    Args:
        hosts: P in all; the result has them in an order of its own.
        agents: Q in all, in an order of their own too.
        game: which starts, and how a move is made.
        num_games: G.
        max_steps: moves after which a game counts as unfinished.
        split: name of the set of starts.
        sampled: whether learned players draw their moves, as often as in their own evaluations.
        device: where the players' networks are.
        tell: called with the number of pairs whenever some have played.

    Raises:
        ValueError: if a side is empty.
    """

    def play(some_hosts: Players, some_agents: Players) -> CrossPlay:
        played = crossplay(
            _hosts(some_hosts, sampled=sampled),
            _agents(some_agents, sampled=sampled),
            game,
            num_games=num_games,
            max_steps=max_steps,
            split=split,
            device=device,
        )
        tell(some_hosts.count * some_agents.count)
        return played

    of_a_pair = num_games * game.max_num_points * game.dimension
    pairs = max(1, MAX_COORDINATES // of_a_pair)
    agents_at_once = min(pairs, agents.count)
    hosts_at_once = max(1, pairs // max(1, agents_at_once))
    return _stacked(
        [
            [play(some_hosts, some_agents) for some_agents in _batches(agents, agents_at_once)]
            for some_hosts in _batches(hosts, hosts_at_once)
        ]
    )


def common_game(configs: Iterable[tuple[str, CommonConfig]]) -> GameConfig | None:
    """Return the game that all know, of players as names and configurations; None if none play.

    Raises:
        ConflictError: if they know different games.
    """
    players = list(configs)
    kinds: dict[str, list[str]] = {}
    for name, config in players:
        names = kinds.setdefault(_game_text(config), [])
        if name not in names:  # a pair of one name plays both sides
            names.append(name)
    if len(kinds) > 1:
        told = "; ".join(f"{', '.join(names)}: {said}" for said, names in kinds.items())
        raise ConflictError(
            f"all must play the same game, but they know {len(kinds)} ({told}); name players of "
            "one game"
        )
    return game_config(players[0][1]) if players else None


def _game_text(config: CommonConfig) -> str:
    """Return what makes two games the same one."""
    moved = "" if config.reposition else ", reposition=false"
    return (
        f"dimension={config.dimension}, max_num_points={config.max_num_points}, "
        f"max_value={config.max_value}{moved}"
    )


def _batches(players: Players, size: int) -> Iterator[Players]:
    """Yield those of a side, at most ``size`` at once."""
    learned, scripted = iter(players.learned.items()), iter(players.scripted)
    while True:
        some = dict(islice(learned, size))
        others = tuple(islice(scripted, size - len(some)))
        if not (some or others):
            return
        yield Players(some, others)


def _hosts(players: Players, *, sampled: bool) -> tuple[Hosts, ...]:
    groups = [*scripted_hosts(players.scripted)]
    for rate, learned in _by_rate(players.learned, sampled=sampled).items():
        groups += [Hosts(b.names, HostSeat(b.policy, rate)) for b in host_banks(learned)]
    return tuple(groups)


def _agents(players: Players, *, sampled: bool) -> tuple[Agents, ...]:
    groups = [*scripted_agents(players.scripted)]
    for rate, learned in _by_rate(players.learned, sampled=sampled).items():
        groups += [Agents(b.names, AgentSeat(b.policy, rate)) for b in agent_banks(learned)]
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


def _stacked(rows: Sequence[Sequence[CrossPlay]]) -> CrossPlay:
    """Return the games of batches, hosts by agents, as one."""
    if not (rows and rows[0]):
        raise ValueError("cross-play needs at least one host and one agent")
    return CrossPlay(
        tuple(name for row in rows for name in row[0].hosts),
        tuple(name for part in rows[0] for name in part.agents),
        np.concatenate([np.concatenate([part.moves for part in row], axis=1) for row in rows]),
        np.concatenate([np.concatenate([part.finished for part in row], axis=1) for row in rows]),
    )
