"""Roles: what a configuration says of host and agent, as learners and policies."""

from collections.abc import Sequence

import torch

from hpsearch.trainers.config import DQNRole, ScriptedAgent, ScriptedHost, TrainerConfig
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.networks import Network
from hpsearch.trainers.optim import Adam
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    LearnedAgent,
    LearnedHost,
    Observe,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.replay_buffer import ReplayBuffer
from hpsearch.trainers.schedulers import Scheduler


class Roles:
    """Host and agent of a population, each a learner or a scripted player.

    Attributes:
        host, agent: the learning roles; None where the role is a scripted player.
        learners: those of them that there are.
        host_policy, agent_policy: how the roles choose.
    """

    def __init__(
        self, configs: Sequence[TrainerConfig], device: torch.device, observe: Observe
    ) -> None:
        """Build the roles of one member for each configuration."""
        self.host = _learner("host", [config.host for config in configs], configs, device)
        self.agent = _learner("agent", [config.agent for config in configs], configs, device)
        self.learners = tuple(role for role in (self.host, self.agent) if role is not None)
        self.host_policy = _host_policy(self.host, configs[0], observe)
        self.agent_policy = _agent_policy(self.agent, configs[0], observe)

    def replace_nets(self, *, host: Network | None = None, agent: Network | None = None) -> None:
        """Give roles the weights of other networks, and begin their learning anew.

        Raises:
            ValueError: if a role does not learn or its network has another shape.
        """
        for name, net in (("host", host), ("agent", agent)):
            if net is not None:
                self._learning(name).replace_net(net)

    @property
    def host_net(self) -> Network:
        """Return the host's network."""
        return self._learning("host").net

    @property
    def host_optimizer(self) -> Adam:
        """Return the host's optimizer."""
        return self._learning("host").optimizer

    @property
    def host_lr_scheduler(self) -> Scheduler:
        """Return the host's learning rates by step."""
        return self._learning("host").lr_scheduler

    @property
    def host_er_scheduler(self) -> Scheduler:
        """Return the host's exploration rates by step."""
        return self._learning("host").er_scheduler

    @property
    def host_replay_buffer(self) -> ReplayBuffer:
        """Return the host's memory."""
        return self._learning("host").replay_buffer

    @property
    def agent_net(self) -> Network:
        """Return the agent's network."""
        return self._learning("agent").net

    @property
    def agent_optimizer(self) -> Adam:
        """Return the agent's optimizer."""
        return self._learning("agent").optimizer

    @property
    def agent_lr_scheduler(self) -> Scheduler:
        """Return the agent's learning rates by step."""
        return self._learning("agent").lr_scheduler

    @property
    def agent_er_scheduler(self) -> Scheduler:
        """Return the agent's exploration rates by step."""
        return self._learning("agent").er_scheduler

    @property
    def agent_replay_buffer(self) -> ReplayBuffer:
        """Return the agent's memory."""
        return self._learning("agent").replay_buffer

    def _learning(self, name: str) -> Learner:
        learner = {"host": self.host, "agent": self.agent}.get(name)
        if learner is None:
            raise ValueError(f"the {name} of this trainer does not learn, it is a scripted player")
        return learner


def _learner(
    name: str,
    roles: Sequence[DQNRole | ScriptedHost | ScriptedAgent],
    configs: Sequence[TrainerConfig],
    device: torch.device,
) -> Learner | None:
    learning = [role for role in roles if isinstance(role, DQNRole)]
    if not learning:
        return None
    return Learner(
        name,
        learning,
        [config.seed for config in configs],
        num_points=configs[0].max_num_points,
        dimension=configs[0].dimension,
        buffer_size=configs[0].replay_buffer.buffer_size,
        device=device,
    )


def _host_policy(host: Learner | None, config: TrainerConfig, observe: Observe) -> HostPolicy:
    if host is not None:
        return LearnedHost(host.net, observe)
    assert isinstance(config.host, ScriptedHost)
    return ScriptedHostPolicy(config.host.player)


def _agent_policy(agent: Learner | None, config: TrainerConfig, observe: Observe) -> AgentPolicy:
    if agent is not None:
        return LearnedAgent(agent.net, observe)
    assert isinstance(config.agent, ScriptedAgent)
    return ScriptedAgentPolicy(config.agent.player)
