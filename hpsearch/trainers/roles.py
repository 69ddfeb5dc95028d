"""Roles: what a configuration says of host and agent, as learners and as policies in the games."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from hpsearch.trainers import opponents
from hpsearch.trainers.config import CommonConfig, SavedPlayerConfig, ScriptedAgent, ScriptedHost
from hpsearch.trainers.config.players import (
    LEARNER,
    ListedCheckpoint,
    ListedOpponent,
    ListedPlayer,
    ListedSnapshots,
)
from hpsearch.trainers.learner import Learner, Scheduler
from hpsearch.trainers.networks import Network
from hpsearch.trainers.opponents import Draws, Snapshots, mixed
from hpsearch.trainers.optim import Optimizer
from hpsearch.trainers.policies import AgentPolicy, HostPolicy, regrouped, scripted, seat_of
from hpsearch.trainers.role_nets import member_stream, style

L = TypeVar("L", bound=Learner)
SavedPlayers = Mapping[tuple[str, str], opponents.SavedPlayer]
"""by role and path"""


@dataclass(frozen=True)
class GameGroup(Generic[L]):
    """The games in which one role learns, and who plays them."""

    learner: L
    lanes: slice
    """which of all games"""
    host: HostPolicy
    agent: AgentPolicy
    draws: Draws | None
    """which of several opponents each game has; None where there is one"""
    snapshots_at: int
    """the place of the other role's snapshots among them, -1 where they are not"""

    def meets_snapshots(self, done: Tensor) -> Tensor:
        """Return which of the games bool (P, B) are against snapshots."""
        if self.draws is None:
            return torch.ones_like(done)
        return self.draws.opponent == self.snapshots_at


class Roles(ABC, Generic[L]):
    """Host and agent of a population, each a learner, a scripted or a saved player.

    Attributes:
        host, agent: the learning roles; None where a role does not learn.
        learners: those of them that there are.
        tables: the games of each learner, the host's first.
        host_policy, agent_policy: how the roles play as they are now; one that does not learn, as
            its opponent meets it.
        saved_players: those that checkpoints hold, by role and path.
        snapshots: by role, what the other role trains against; empty without a pool.
    """

    def __init__(
        self,
        configs: Sequence[CommonConfig],
        device: torch.device,
        saved_players: SavedPlayers,
    ) -> None:
        """Build the roles of one member for each configuration.

        ``saved_players`` by role and path have been loaded already; others are loaded now.
        """
        self.saved_players = dict(saved_players)
        learning = {name: self._learner(name, configs, device) for name in configs[0].learning()}
        self.host = learning.get("host")
        self.agent = learning.get("agent")
        self.learners = tuple(learning.values())
        self._device = device
        self.snapshots = self._snapshots(configs, device)
        self.tables = tuple(self._tables(configs))
        self.host_policy = self.tables[0].host
        self.agent_policy = self.tables[-1].agent

    @abstractmethod
    def _learner(self, name: str, configs: Sequence[Any], device: torch.device) -> L:
        """Return what the role ``name`` learns with by this algorithm."""

    def _snapshots(
        self, configs: Sequence[CommonConfig], device: torch.device
    ) -> dict[str, Snapshots]:
        pools = [pool for config in configs if (pool := config.snapshots()) is not None]
        if not pools:
            return {}
        seeds = [config.seed for config in configs]
        return {
            learner.name: Snapshots(
                learner.name,
                learner.net,
                pools,
                member_stream(seeds, device, learner.name, "snapshots").keys,
            )
            for learner in self.learners
        }

    def _tables(self, configs: Sequence[CommonConfig]) -> Iterator[GameGroup[L]]:
        first = 0
        for learner in self.learners:
            num_games = configs[0].learning()[learner.name].rollout_size
            lanes = slice(first, first + num_games)
            first = lanes.stop
            yield self._table(learner, lanes, configs)

    def _table(self, learner: L, lanes: slice, configs: Sequence[CommonConfig]) -> GameGroup[L]:
        own, config = learner.policy(learner.net), configs[0]
        other = "agent" if learner.name == "host" else "host"
        listed = config.listed_against(learner.name)
        draws: Draws | None = None
        if listed:
            seeds = [member.seed for member in configs]
            stream = member_stream(seeds, self._device, learner.name, "opponents")
            draws = Draws(
                [opponent.weight for opponent in listed], stream.keys, lanes.stop - lanes.start
            )
            policies = [self._listed(other, opponent, config) for opponent in listed]
            opponent = mixed(other, policies, draws)
        else:
            opponent = self._opponent(other, config)
        is_earlier = [isinstance(opponent, ListedSnapshots) for opponent in listed]
        at = is_earlier.index(True) if any(is_earlier) else -1
        if learner.name == "host":
            host, agent = cast(HostPolicy, own), cast(AgentPolicy, opponent)
        else:
            host, agent = cast(HostPolicy, opponent), cast(AgentPolicy, own)
        return GameGroup(learner, lanes, host, agent, draws, at)

    def _opponent(self, name: str, config: CommonConfig) -> HostPolicy | AgentPolicy:
        """Return the role ``name`` as the other one meets it."""
        match config.players()[name]:
            case ScriptedHost(player=script) | ScriptedAgent(player=script):
                return scripted(name, script)
            case SavedPlayerConfig(checkpoint=path):
                return self._saved(name, path, config)
            case _ if name in self.snapshots:
                return self._earlier(name, config)
            case _:
                return self._present(name, config)

    def _listed(
        self, name: str, opponent: ListedOpponent, config: CommonConfig
    ) -> HostPolicy | AgentPolicy:
        """Return a player of the role ``name`` that a list of opponents holds."""
        match opponent:
            case ListedCheckpoint(checkpoint=path):
                return self._saved(name, path, config)
            case ListedSnapshots():
                return self._earlier(name, config)
            case ListedPlayer(player=script) if script == LEARNER:
                return self._present(name, config)
            case ListedPlayer(player=script):
                return scripted(name, script)

    def _saved(self, name: str, path: str, config: CommonConfig) -> HostPolicy | AgentPolicy:
        """Return the player of a checkpoint."""
        if (name, path) not in self.saved_players:
            player = opponents.load_opponent(Path(path), name, config, self._device)
            self.saved_players[name, path] = player
        saved = self.saved_players[name, path]
        return seat_of(name, regrouped(name, saved.policy, 1), saved.style.rate)

    def _present(self, name: str, config: CommonConfig) -> HostPolicy | AgentPolicy:
        """Return a learning role as it is."""
        learner = self._learning(name)
        return seat_of(name, learner.policy(learner.net), style(config).rate)

    def _earlier(self, name: str, config: CommonConfig) -> HostPolicy | AgentPolicy:
        """Return the snapshots of a learning role that are met now."""
        net = self.snapshots[name].net
        rate = style(config).rate
        policy = seat_of(name, self._learning(name).policy(net), rate)
        return regrouped(name, policy, net.weights.shape[0])

    def set_trainable(self, roles: Sequence[str]) -> None:
        """Let only these of the learning roles go on learning; the others play on as they are.

        Raises:
            ValueError: if one of them is no learning role.
        """
        for name in roles:
            self._learning(name)
        for learner in self.learners:
            learner.trainable.fill_(learner.name in roles)

    def replace_nets(self, *, host: Network | None = None, agent: Network | None = None) -> None:
        """Give roles the weights of other networks, and begin their learning anew.

        Raises:
            ValueError: if a role does not learn or its network has another shape.
        """
        new = {name: net for name, net in (("host", host), ("agent", agent)) if net is not None}
        for name, net in new.items():
            self._learning(name).check_fits(net)
        for name, net in new.items():
            self._learning(name).replace_net(net)
            for member in range(net.weights.shape[0]):
                self.begin_snapshots(name, member)

    @abstractmethod
    def begin_snapshots(self, name: str, member: int) -> None:
        """Let the other role meet one member's present networks instead of earlier ones."""

    @property
    def host_net(self) -> Network:
        """Return the host's network."""
        return self._learning("host").net

    @property
    def host_optimizer(self) -> Optimizer:
        """Return the host's optimizer."""
        return self._learning("host").optimizer

    @property
    def host_lr_scheduler(self) -> Scheduler:
        """Return the host's learning rates by step."""
        return self._learning("host").lr_scheduler

    @property
    def agent_net(self) -> Network:
        """Return the agent's network."""
        return self._learning("agent").net

    @property
    def agent_optimizer(self) -> Optimizer:
        """Return the agent's optimizer."""
        return self._learning("agent").optimizer

    @property
    def agent_lr_scheduler(self) -> Scheduler:
        """Return the agent's learning rates by step."""
        return self._learning("agent").lr_scheduler

    def _learning(self, name: str) -> L:
        for learner in self.learners:
            if learner.name == name:
                return learner
        raise ValueError(
            f"the {name} of this trainer does not learn, it is a scripted player or a saved one"
        )
