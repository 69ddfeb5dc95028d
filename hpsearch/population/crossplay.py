"""Cross-play: every host against every agent, from the same starts, as memory allows.

Axes: P hosts, Q agents, G games of each pair; R = P * Q rows of A games still in progress, in row
p * Q + q host p plays agent q.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpsearch.errors import ConflictError
from hpsearch.game.rules import GameConfig
from hpsearch.trainers import policies
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.evaluation import noise_of, starts_of
from hpsearch.trainers.networks import Network
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.playing import play
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.rho import Floats
from hpsearch.trainers.rollouts import game_config


@dataclass(frozen=True)
class PlayerGroup:
    """Hosts or agents that one policy plays: the members of a bank, or a scripted one."""

    names: tuple[str, ...]
    policy: policies.Policy


def scripted_groups(names: Iterable[str]) -> tuple[PlayerGroup, ...]:
    return tuple(PlayerGroup((name,), policies.ScriptedPolicy(name)) for name in names)


def banks(players: Mapping[str, SavedPlayer], *, sampled: bool = False) -> tuple[PlayerGroup, ...]:
    """Return saved players of one role by name, those that compute alike as one bank.

    If ``sampled`` they draw their moves, as often as in their own evaluations.
    """
    alike: dict[Hashable, dict[str, SavedPlayer]] = {}
    for name, player in players.items():
        config, net = player.config, player.net
        rate = config.evaluation.er if sampled else None
        how = rate, net.structure, net.arithmetic.precision, config.plays_by
        alike.setdefault(how, {})[name] = player
    groups = []
    for bank in alike.values():
        first = next(iter(bank.values()))
        net = _stacked(list(bank.values()))
        policy: policies.Policy = policies.LearnedPolicy(net, first.config.plays_by)
        if sampled:
            policy = policies.FixedRatePolicy(policy, first.config.evaluation.er)
        groups.append(PlayerGroup(tuple(bank), policy))
    return tuple(groups)


def _stacked(players: Sequence[SavedPlayer]) -> Network:
    """Return the networks of players of one structure as one network of so many members."""
    net = players[0].net.like(len(players))
    for name, tensor in net.state().items():
        tensor.copy_(torch.cat([player.net.state()[name] for player in players]))
    return net


@dataclass(frozen=True)
class GroupedPolicy:
    """The groups of one side as the one policy of all R rows."""

    groups: Sequence[PlayerGroup]
    num_opponents: int  # of the other side

    def __call__(self, turn: policies.Turn) -> Tensor:
        is_host = turn.subset is None
        if not is_host:  # the rows of an agent do not lie beside each other
            turn = turn.map(partial(_swap, num_outer=self.num_opponents))
        chosen, first = [], 0
        for group in self.groups:
            end = first + len(group.names) * self.num_opponents
            policy = policies.RegroupedPolicy(group.policy, len(group.names))
            rows = itemgetter(slice(first, end))
            chosen.append(policy(turn.map(rows)))
            first = end
        actions = torch.cat(chosen)
        return actions if is_host else _swap(actions, len(actions) // self.num_opponents)


def _swap(tensor: Tensor, num_outer: int) -> Tensor:
    """Return rows (Q * P, ...) of rows (P * Q, ...), P being ``num_outer``."""
    swapped: Tensor = tensor.unflatten(0, (num_outer, -1)).transpose(0, 1).flatten(0, 1)
    return swapped


@dataclass(frozen=True)
class CrossPlay:
    """How long the games of every pair took."""

    hosts: tuple[str, ...]
    agents: tuple[str, ...]
    moves: npt.NDArray[np.int64]
    """(P, Q, G), the cap where a game did not finish; game g of every pair has the same start"""
    finished: npt.NDArray[np.bool_]  # (P, Q, G)

    def rho(self) -> Floats:
        """Return games decided a move, (P, Q): high where the host is strong; see `Rho`."""
        return np.asarray(1.0 / self.moves.mean(axis=2))


def crossplay(
    hosts: Sequence[PlayerGroup],
    agents: Sequence[PlayerGroup],
    game: GameConfig,
    *,
    num_games: int,
    max_steps: int,
    split: str,
    device: torch.device,
    ranks: Ranks = ALONE,
) -> CrossPlay:
    """Let every host play every agent, greedily unless their policies have rates.

    There are P hosts and Q agents in all, each name once on its side (ValueError); their networks
    are on ``device``. Games count as unfinished after ``max_steps`` moves. ``split`` names the set
    of starts; sets of different names are independent. ``ranks`` share out the games of each pair,
    and all return the same.
    """
    host_names = tuple(name for group in hosts for name in group.names)
    agent_names = tuple(name for group in agents for name in group.names)
    for side, names in (("hosts", host_names), ("agents", agent_names)):
        if not names or len(set(names)) < len(names):
            raise ValueError(f"cross-play needs {side}, each name once, got {names}")
    shape = (len(host_names), len(agent_names))
    num_rows = shape[0] * shape[1]
    never = torch.zeros(1, device=device)
    own = ranks.lanes(num_games, device).clamp(max=num_games - 1)
    noise = noise_of(split, num_rows, num_games, device)
    moves, finished, _ = play(
        GroupedPolicy(hosts, shape[1]),
        GroupedPolicy(agents, shape[0]),
        starts_of(game, split, num_games, device)[:, own].expand(num_rows, -1, -1, -1),
        max_steps=max_steps,
        reposition=game.reposition,
        exploration=(never, never),
        noise=lambda games: noise(own[games]),
    )
    played = ranks.gather_games(torch.stack([moves, finished.long()]), num_games)
    moves, finished = played.cpu().unflatten(1, shape)
    return CrossPlay(host_names, agent_names, moves.numpy(), finished.bool().numpy())


MAX_COORDINATES: Final = 2**24
"""of the positions of a rank's games at once; beside them stand a few tensors of their size, and
what the networks make of them"""


@dataclass(frozen=True)
class Players:
    """The players of one role, each name once."""

    learned: Mapping[str, SavedPlayer]  # by name
    scripted: tuple[str, ...]

    @property
    def count(self) -> int:
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
    ranks: Ranks = ALONE,
) -> CrossPlay:
    """Let every host play every agent, with the arguments of `crossplay`, in batches if need be.

    All games are played at once where they fit; else some players after the others, which changes
    no game. The result has hosts and agents in another order. If ``sampled``, learned players draw
    their moves as often as in their own evaluations. ``tell`` is called with the number of pairs
    whenever some have played, on each rank. ValueError if a side is empty.
    """
    num_own = math.ceil(num_games / ranks.size)
    pairs = max(1, MAX_COORDINATES // (num_own * game.max_num_points * game.dimension))
    agents_at_once = min(pairs, max(1, agents.count))
    hosts_at_once = pairs // agents_at_once
    rows = []
    for some_hosts in _batches(hosts, hosts_at_once):
        row = []
        for some_agents in _batches(agents, agents_at_once):
            played = crossplay(
                _groups(some_hosts, sampled=sampled),
                _groups(some_agents, sampled=sampled),
                game,
                num_games=num_games,
                max_steps=max_steps,
                split=split,
                device=device,
                ranks=ranks,
            )
            tell(some_hosts.count * some_agents.count)
            row.append(played)
        rows.append(row)
    return _joined(rows)


def _groups(players: Players, *, sampled: bool) -> tuple[PlayerGroup, ...]:
    return (*scripted_groups(players.scripted), *banks(players.learned, sampled=sampled))


def _batches(players: Players, size: int) -> Iterator[Players]:
    """Yield the players of a side, at most ``size`` at once."""
    learned = list(players.learned.items())
    for first in range(0, players.count, size):
        some = learned[first : first + size]
        begin = max(0, first - len(learned))
        yield Players(dict(some), players.scripted[begin : begin + size - len(some)])


def _joined(rows: Sequence[Sequence[CrossPlay]]) -> CrossPlay:
    """Return the games of batches, hosts by agents, as one."""
    if not (rows and rows[0]):
        raise ValueError("cross-play needs at least one host and one agent")
    return CrossPlay(
        tuple(name for row in rows for name in row[0].hosts),
        tuple(name for part in rows[0] for name in part.agents),
        np.concatenate([np.concatenate([part.moves for part in row], axis=1) for row in rows]),
        np.concatenate([np.concatenate([part.finished for part in row], axis=1) for row in rows]),
    )


def common_game(configs: Iterable[tuple[str, CommonConfig]]) -> GameConfig | None:
    """Return the one game of all players, given as names and configurations; None without players.

    Raises ConflictError if they were trained for different games.
    """
    players = list(configs)
    names_of: dict[str, dict[str, None]] = {}  # in order; a pair of one name plays both sides
    for name, config in players:
        names_of.setdefault(_game_text(config), {})[name] = None
    if len(names_of) > 1:
        told = "; ".join(f"{', '.join(names)}: {game}" for game, names in names_of.items())
        raise ConflictError(
            f"all must play the same game, but they know {len(names_of)} ({told}); name players of "
            "one game"
        )
    return game_config(players[0][1]) if players else None


def _game_text(config: CommonConfig) -> str:
    moved = "" if config.reposition else ", reposition=false"
    return (
        f"dimension={config.dimension}, max_num_points={config.max_num_points}, "
        f"max_value={config.max_value}{moved}"
    )
