"""Cross-play: every host against every agent, from the same starts, in one batched call.

Axes: P hosts, Q agents, G games of each pair, R bootstrap samples.

Cross-play of all players that were named, in as few calls as memory allows.

Axes: P hosts, Q agents, G games of each pair.

Hosts and agents that play together: banks of networks and scripted players, side by side.

Axes: P hosts, Q agents, R = P * Q rows, A games of each; in row p * Q + q host p meets agent q.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpsearch.errors import ConflictError
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import GameConfig
from hpsearch.game.stream import Stream
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.evaluation import noise_key_of, starts_key
from hpsearch.trainers.networks import Network
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.playing import play
from hpsearch.trainers.policies import (
    FixedRatePolicy,
    LearnedPolicy,
    Policy,
    Position,
    RegroupedPolicy,
    ScriptedPolicy,
    Style,
)
from hpsearch.trainers.rho import Floats, Lengths, Rho, rho
from hpsearch.trainers.rollouts import game_config


@dataclass(frozen=True)
class Hosts:
    """Hosts that one policy plays: the members of a bank, or a scripted one."""

    names: tuple[str, ...]
    policy: Policy


@dataclass(frozen=True)
class Agents:
    """Agents that one policy plays: the members of a bank, or a scripted one."""

    names: tuple[str, ...]
    policy: Policy


G = TypeVar("G", Hosts, Agents)
Rows = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class HostSide:
    """Several `Hosts` as the one host policy of all R rows."""

    groups: tuple[Hosts, ...]
    num_agents: int
    """Q"""

    def __call__(
        self, position: Position, subset: Tensor | None, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the action index int64 (R, A)."""
        rate = exploration.expand(noise.shape[:2])
        actions = []
        for group, rows in _rows_of(self.groups, self.num_agents):
            host = RegroupedPolicy(group.policy, len(group.names))
            actions.append(host(position.map(rows), None, rows(noise), rows(rate)))
        return torch.cat(actions)


@dataclass(frozen=True)
class AgentSide:
    """Several `Agents` as the one agent policy of all R rows."""

    groups: tuple[Agents, ...]
    num_hosts: int
    """P"""

    def __call__(
        self, position: Position, subset: Tensor | None, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (R, A) in ``subset`` bool (R, A, D)."""
        assert subset is not None, "an agent chooses from what the host chose"
        swap = partial(_swap, num_outer=self.num_hosts)
        position, subset, noise = position.map(swap), swap(subset), swap(noise)
        rate = swap(exploration.expand(noise.shape[0], noise.shape[1]))
        axes = []
        for group, rows in _rows_of(self.groups, self.num_hosts):
            agent = RegroupedPolicy(group.policy, len(group.names))
            axes.append(agent(position.map(rows), rows(subset), rows(noise), rows(rate)))
        return _swap(torch.cat(axes), sum(len(group.names) for group in self.groups))


def scripted_hosts(names: Sequence[str]) -> tuple[Hosts, ...]:
    """Return scripted hosts."""
    return tuple(Hosts((name,), ScriptedPolicy(name)) for name in names)


def scripted_agents(names: Sequence[str]) -> tuple[Agents, ...]:
    """Return scripted agents."""
    return tuple(Agents((name,), ScriptedPolicy(name)) for name in names)


def host_banks(players: Mapping[str, SavedPlayer]) -> tuple[Hosts, ...]:
    """Return saved hosts by name, those of one structure as one bank."""
    return tuple(
        Hosts(tuple(bank), LearnedPolicy(stacked(bank), _style(bank).weigh))
        for bank in _banks(players)
    )


def agent_banks(players: Mapping[str, SavedPlayer]) -> tuple[Agents, ...]:
    """Return saved agents by name, those of one structure as one bank."""
    return tuple(
        Agents(tuple(bank), LearnedPolicy(stacked(bank), _style(bank).weigh))
        for bank in _banks(players)
    )


def stacked(bank: Mapping[str, SavedPlayer]) -> Network:
    """Return the networks of players of one structure as one network of so many members."""
    players = list(bank.values())
    net = players[0].net.like(len(players))
    for name, tensor in net.state().items():
        tensor.copy_(torch.cat([player.net.state()[name] for player in players]))
    return net


def _banks(players: Mapping[str, SavedPlayer]) -> list[dict[str, SavedPlayer]]:
    banks: dict[Hashable, dict[str, SavedPlayer]] = {}
    for name, player in players.items():
        banks.setdefault((player.net.structure, player.style), {})[name] = player
    return list(banks.values())


def _style(bank: Mapping[str, SavedPlayer]) -> Style:
    return next(iter(bank.values())).style


def _rows_of(groups: Iterable[G], num_opponents: int) -> Iterator[tuple[G, Rows]]:
    """Yield each group and what takes its rows of a tensor (R, ...)."""
    first = 0
    for group in groups:
        end = first + len(group.names) * num_opponents
        yield group, itemgetter(slice(first, end))
        first = end


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
    finished: npt.NDArray[np.bool_]
    """(P, Q, G)"""

    def rho(self) -> Floats:
        """Return games decided a move, (P, Q): high where the host is strong; see `Rho`."""
        values: Floats = 1.0 / self.moves.mean(axis=2)
        return values

    def cell(self, host: str, agent: str) -> Rho:
        """Return one pair's rho with its interval.

        Raises:
            ValueError: if there is no player of that name.
        """
        p, q = self.hosts.index(host), self.agents.index(agent)
        return rho(Lengths(self.moves[p, q], self.finished[p, q]), seed=0)


def crossplay(
    hosts: Sequence[Hosts],
    agents: Sequence[Agents],
    game: GameConfig,
    *,
    num_games: int,
    max_steps: int,
    split: str,
    device: torch.device,
) -> CrossPlay:
    """Let every host play every agent, both greedily, ``num_games`` games a pair.

    Args:
        hosts: P in all, each name once.
        agents: Q in all, each name once.
        game: which starts, and how a move is made.
        num_games: G.
        max_steps: moves after which a game counts as unfinished.
        split: name of the set of starts; sets of different names are independent.
        device: where the players' networks are.

    Raises:
        ValueError: if a side is empty, or a name stands twice on it.
    """
    host_names = tuple(name for group in hosts for name in group.names)
    agent_names = tuple(name for group in agents for name in group.names)
    for side, names in (("hosts", host_names), ("agents", agent_names)):
        if not names or len(set(names)) < len(names):
            raise ValueError(f"cross-play needs {side}, each name once, got {names}")
    shape = (len(host_names), len(agent_names))
    num_rows = shape[0] * shape[1]
    noise = torch.tensor([noise_key_of(split)], device=device).repeat(num_rows)
    never = torch.zeros(1, device=device)
    moves, finished = play(
        HostSide(tuple(hosts), shape[1]),
        AgentSide(tuple(agents), shape[0]),
        _starts(game, num_games, split, device).expand(num_rows, -1, -1, -1),
        max_steps=max_steps,
        reposition=game.reposition,
        exploration=(never, never),
        stream=Stream(noise, torch.zeros_like(noise)),
    )
    return CrossPlay(
        host_names,
        agent_names,
        moves.cpu().unflatten(0, shape).numpy(),
        finished.cpu().unflatten(0, shape).numpy(),
    )


def _starts(game: GameConfig, num_games: int, split: str, device: torch.device) -> torch.Tensor:
    """Return the starts of a split, int32 (1, G, N, D): those of `evaluation` by the same name."""
    return BACKENDS[default_backend(device)].random_starts(
        torch.tensor([starts_key(split)], device=device),
        torch.zeros((1, num_games), dtype=torch.int64, device=device),
        num_points=game.max_num_points,
        dimension=game.dimension,
        max_value=game.max_value,
    )


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
        groups += [Hosts(b.names, FixedRatePolicy(b.policy, rate)) for b in host_banks(learned)]
    return tuple(groups)


def _agents(players: Players, *, sampled: bool) -> tuple[Agents, ...]:
    groups = [*scripted_agents(players.scripted)]
    for rate, learned in _by_rate(players.learned, sampled=sampled).items():
        groups += [Agents(b.names, FixedRatePolicy(b.policy, rate)) for b in agent_banks(learned)]
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
