"""Who plays in the games in which roles learn: learners, scripted or saved players, snapshots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import torch
from torch import Tensor

from hpsearch.trainers.config import CommonConfig, SavedPlayerConfig, ScriptedAgent, ScriptedHost
from hpsearch.trainers.config.common import Player
from hpsearch.trainers.config.players import (
    LEARNER,
    ListedCheckpoint,
    ListedOpponent,
    ListedPlayer,
    ListedSnapshots,
)
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.members import member_stream, prefixed
from hpsearch.trainers.opponents import Draws, SavedPlayer, Snapshots, load_opponent
from hpsearch.trainers.policies import (
    FixedRatePolicy,
    MixedPolicy,
    Policy,
    RegroupedPolicy,
    ScriptedPolicy,
)

L = TypeVar("L", bound=Learner)
SavedPlayers = Mapping[tuple[str, str], SavedPlayer]
"""by role and path"""
OTHER = {"host": "agent", "agent": "host"}


@dataclass(frozen=True)
class GameGroup(Generic[L]):
    """The games in which one role learns, and who plays them."""

    learner: L
    lanes: slice
    """which of all games"""
    host: Policy
    agent: Policy
    draws: Draws | None
    """which of several opponents each game has; None where there is one"""
    snapshots_at: int
    """the place of the other role's snapshots among them, -1 where they are not"""

    def meets_snapshots(self, done: Tensor) -> Tensor:
        """Return which of the games bool (P, B) are against snapshots."""
        if self.draws is None:
            return torch.ones_like(done)
        return self.draws.opponent == self.snapshots_at


class Roles(Generic[L]):
    """How the roles of a population play, and against which opponents they learn.

    Attributes:
        groups: the games of each learner, the host's first.
        host_policy, agent_policy: how the roles play as they are now; one that does not learn, as
            its opponent meets it.
        saved_players: those that checkpoints hold, by role and path.
        snapshots: by role, what the other role trains against; empty without a pool.
    """

    def __init__(
        self,
        learners: Mapping[str, L],
        configs: Sequence[CommonConfig],
        device: torch.device,
        saved_players: SavedPlayers,
    ) -> None:
        self.saved_players = dict(saved_players)
        self._learners, self._config, self._device = learners, configs[0], device
        self._seeds = [config.seed for config in configs]
        pools = [pool for config in configs if (pool := config.snapshots()) is not None]
        self.snapshots: dict[str, Snapshots] = {}
        if pools:
            for name, learner in learners.items():
                keys = member_stream(self._seeds, device, name, "snapshots").keys
                self.snapshots[name] = Snapshots(name, learner.net, pools, keys)
        groups: list[GameGroup[L]] = []
        for learner in learners.values():
            groups.append(self._group(learner, groups[-1].lanes.stop if groups else 0))
        self.groups = tuple(groups)
        self.host_policy = groups[0].host
        self.agent_policy = groups[-1].agent

    def _group(self, learner: L, first: int) -> GameGroup[L]:
        """Return the games of a learner, the first of which is in lane ``first``."""
        role, num_games = learner.name, self._config.learning()[learner.name].rollout_size
        own, other = learner.policy(learner.net), OTHER[role]
        listed = self._config.listed_against(role)
        draws: Draws | None = None
        if listed:
            keys = member_stream(self._seeds, self._device, role, "opponents").keys
            draws = Draws([opponent.weight for opponent in listed], keys, num_games)
            policies = [self._opponent(other, opponent) for opponent in listed]
            opponent: Policy = MixedPolicy(policies, draws.opponent)
        else:
            opponent = self._opponent(other, self._config.players()[other])
        host, agent = (own, opponent) if role == "host" else (opponent, own)
        places = [n for n, item in enumerate(listed) if isinstance(item, ListedSnapshots)]
        lanes = slice(first, first + num_games)
        return GameGroup(learner, lanes, host, agent, draws, places[0] if places else -1)

    def _opponent(self, role: str, player: Player | ListedOpponent | None) -> Policy:
        """Return a role as the other one meets it, by what its configuration says."""
        match player:
            case SavedPlayerConfig(checkpoint=path) | ListedCheckpoint(checkpoint=path):
                return self._saved(role, path)
            case (
                ScriptedHost(player=script)
                | ScriptedAgent(player=script)
                | ListedPlayer(player=script)
            ) if script != LEARNER:
                return ScriptedPolicy(script)
        learner = self._learners[role]
        if role not in self.snapshots or isinstance(player, ListedPlayer):
            return FixedRatePolicy(learner.policy(learner.net), learner.style.rate)
        net = self.snapshots[role].net
        policy = FixedRatePolicy(learner.policy(net), learner.style.rate)
        return RegroupedPolicy(policy, net.weights.shape[0])

    def _saved(self, role: str, path: str) -> Policy:
        if (role, path) not in self.saved_players:
            player = load_opponent(Path(path), role, self._config, self._device)
            self.saved_players[role, path] = player
        saved = self.saved_players[role, path]
        return FixedRatePolicy(RegroupedPolicy(saved.policy, 1), saved.style.rate)

    def state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for role, snapshots in self.snapshots.items():
            tensors |= prefixed(f"{role}.snapshots", snapshots.state())
        return tensors

    def settings(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for group in self.groups:
            if group.draws is not None:
                tensors[f"{group.learner.name}.opponents.keys"] = group.draws.keys
        for role, snapshots in self.snapshots.items():
            tensors |= prefixed(f"{role}.snapshots", snapshots.settings())
        return tensors
