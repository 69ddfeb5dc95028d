"""Roles: what a configuration says of host and agent, as learners and as policies in the games."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import torch

from hpsearch.trainers import saved_player
from hpsearch.trainers.config import (
    CommonConfig,
    LearningRole,
    SavedPlayer,
    ScriptedAgent,
    ScriptedHost,
)
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.networks import Network
from hpsearch.trainers.optim import Optimizer
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.role_nets import member_stream, style
from hpsearch.trainers.schedulers import Scheduler
from hpsearch.trainers.seats import regrouped, seat_of
from hpsearch.trainers.snapshots import Snapshots

L = TypeVar("L", bound=Learner)


@dataclass(frozen=True)
class Table(Generic[L]):
    """The games in which one role learns, and who plays them."""

    learner: L
    lanes: slice
    """which of all games"""
    host: HostPolicy
    agent: AgentPolicy


class Roles(ABC, Generic[L]):
    """Host and agent of a population, each a learner, a scripted or a saved player.

    Attributes:
        host, agent: the learning roles; None where a role does not learn.
        learners: those of them that there are.
        host_policy, agent_policy: how the roles play as they are now.
        tables: the games of each learner.
        saved_players: by role, those that a checkpoint holds.
        snapshots: by role, what the other role trains against; empty without a pool.
    """

    def __init__(
        self,
        configs: Sequence[CommonConfig],
        device: torch.device,
        saved_players: Mapping[str, saved_player.SavedPlayer],
    ) -> None:
        """Build the roles of one member for each configuration.

        ``saved_players`` by role have been loaded already; others are loaded now.
        """
        self.saved_players = dict(saved_players)
        learning = {name: self._learner(name, configs, device) for name in configs[0].learning()}
        self.host = learning.get("host")
        self.agent = learning.get("agent")
        self.learners = tuple(learning.values())
        self.host_policy = cast(HostPolicy, self._policy("host", configs[0], device))
        self.agent_policy = cast(AgentPolicy, self._policy("agent", configs[0], device))
        self.snapshots = self._snapshots(configs, device)
        self.tables = tuple(self._tables(configs[0]))

    @abstractmethod
    def _learner(self, name: str, configs: Sequence[Any], device: torch.device) -> L:
        """Return what the role ``name`` learns with by this algorithm."""

    def _policy(
        self, name: str, config: CommonConfig, device: torch.device
    ) -> HostPolicy | AgentPolicy:
        match config.players()[name]:
            case ScriptedHost(player=script):
                return ScriptedHostPolicy(script)
            case ScriptedAgent(player=script):
                return ScriptedAgentPolicy(script)
            case SavedPlayer(checkpoint=path):
                if name not in self.saved_players:
                    player = saved_player.load_opponent(Path(path), name, config, device)
                    self.saved_players[name] = player
                saved = self.saved_players[name]
                return seat_of(name, regrouped(name, saved.policy, 1), saved.style.rate)
            case _:
                learner = self._learning(name)
                return learner.policy(learner.net)

    def _snapshots(
        self, configs: Sequence[CommonConfig], device: torch.device
    ) -> dict[str, Snapshots]:
        pools = [config.opponents for config in configs if config.opponents is not None]
        if not pools:
            return {}
        seeds = [config.seed for config in configs]
        return {
            one.name: Snapshots(
                one.name, one.net, pools, member_stream(seeds, device, one.name, "snapshots").keys
            )
            for one in self.learners
        }

    def _tables(self, config: CommonConfig) -> Iterator[Table[L]]:
        first = 0
        for learner in self.learners:
            lanes = slice(first, first + config.learning()[learner.name].rollout_size)
            first = lanes.stop
            if learner.name == "host":
                agent = cast(AgentPolicy, self._opposite("agent", self.agent_policy, config))
                yield Table(learner, lanes, self.host_policy, agent)
            else:
                host = cast(HostPolicy, self._opposite("host", self.host_policy, config))
                yield Table(learner, lanes, host, self.agent_policy)

    def _opposite(
        self, name: str, now: HostPolicy | AgentPolicy, config: CommonConfig
    ) -> HostPolicy | AgentPolicy:
        """Return the role ``name``, which plays by ``now``, as the other one meets it."""
        role = config.players()[name]
        if not isinstance(role, LearningRole):
            return now
        rate = style(role).rate
        if name not in self.snapshots:
            return seat_of(name, now, rate)
        net = self.snapshots[name].net
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
