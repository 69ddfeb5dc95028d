"""Deep Q-learning of one host as one writes it: torch.nn, torch.optim, a loop over steps.

The same double Q-learning as hpsearch.trainers.dqn, and the same game kernel. Memory holds what the
network takes in, so that nothing is computed twice. test_plain_trainers.py compares an update.

Axes: B games or transitions, C places in memory, I inputs.
"""

from typing import NamedTuple

import torch
from plain import adam, mlp, new_game, num_points_seen, see, take_over
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from hpsearch.game import HostActionEncoder
from hpsearch.game.players import agent_player
from hpsearch.trainers.config import DQNConfig, DQNRole, ScriptedAgent
from hpsearch.trainers.config.optim import TimedSchedule
from hpsearch.trainers.dqn import DQNTrainer


class Memory(NamedTuple):
    """Transitions, one a row."""

    seen: Tensor
    """float32 (C, I)"""
    action: Tensor
    """int64 (C,)"""
    reward: Tensor
    """float32 (C,)"""
    next_seen: Tensor
    """float32 (C, I)"""
    done: Tensor
    """bool (C,)"""


class PlainDQN:
    """One host that learns against a scripted agent."""

    def __init__(self, config: DQNConfig) -> None:
        """Begin with fresh weights and an empty memory."""
        assert isinstance(config.host, DQNRole)
        assert isinstance(config.agent, ScriptedAgent)
        self.config, self.role = config, config.host
        self.device = torch.device(config.device)
        self.encoder = HostActionEncoder(config.dimension)
        self.num_points = num_points_seen(self.role)
        num_inputs = self.num_points * config.dimension
        widths = [num_inputs, *self.role.net_arch, self.encoder.num_actions]
        self.net = mlp(widths).to(self.device)
        self.target_net = mlp(widths).to(self.device)
        self.target_net.load_state_dict(self.net.state_dict())
        self.optimizer = adam(self.net, self.role)
        self.game = new_game(config, self.role, self.device)
        self.agent = agent_player(config.agent.player)
        self.memory = empty_memory(config.replay_buffer.buffer_size, num_inputs, self.device)
        self.num_added = 0
        self.step = 0

    def train(self, steps: int) -> None:
        """Make training steps: moves of every game, then updates."""
        for _ in range(steps):
            for _ in range(self.config.rollout_length):
                self.play()
            if self.step % self.role.steps_before_update_target == 0:
                self.update_target_net()
            for _ in range(self.config.updates_per_step):
                if self.step >= self.config.learning_starts:
                    self.update(self.sample())
            self.step += 1

    @torch.no_grad()
    def play(self) -> None:
        """Play a move of every game and remember it."""
        points = self.game.points[0]
        seen = see(points, self.num_points)
        greedy = self.net(seen).argmax(dim=1)
        drawn = torch.randint_like(greedy, self.encoder.num_actions)
        explores = torch.rand(len(greedy), device=self.device) < self.exploration()
        action = torch.where(explores, drawn, greedy)
        noise = torch.rand(len(greedy), device=self.device)
        axis = self.agent(points, self.encoder.decode(action), noise)
        step = self.game.step(action[None], axis[None])
        done = step.done[0]
        next_seen = see(step.next_points[0], self.num_points)
        self.remember(Memory(seen, action, done.float(), next_seen, done))

    def exploration(self) -> float:
        """Return the share of moves that are drawn: a straight line down to ``er``."""
        schedule = self.role.er_schedule
        assert isinstance(schedule, TimedSchedule)
        assert schedule.mode == "linear"
        share = min(1.0, self.step / schedule.steps)
        return schedule.initial + share * (self.role.er - schedule.initial)

    def remember(self, moves: Memory) -> None:
        """Write the newest moves over the oldest."""
        size = len(self.memory.done)
        places = (torch.arange(len(moves.done), device=self.device) + self.num_added) % size
        for ring, rows in zip(self.memory, moves, strict=True):
            ring[places] = rows
        self.num_added += len(moves.done)

    def sample(self) -> Memory:
        """Draw transitions to learn from."""
        filled = min(self.num_added, len(self.memory.done))
        places = torch.randint(filled, (self.role.batch_size,), device=self.device)
        return Memory(*(ring[places] for ring in self.memory))

    def update(self, batch: Memory) -> Tensor:
        """Make one gradient step; return the loss."""
        value = self.net(batch.seen).gather(1, batch.action[:, None]).squeeze(1)
        loss = huber_loss(value, self.target(batch), delta=self.role.huber_delta)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.role.max_grad_norm)
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def target(self, batch: Memory) -> Tensor:
        """Return r + gamma * (1 - done) * Q_target(s', argmax Q(s')), float32 (B,)."""
        best = self.net(batch.next_seen).argmax(dim=1, keepdim=True)
        value = self.target_net(batch.next_seen).gather(1, best).squeeze(1)
        return batch.reward + self.role.gamma * ~batch.done * value

    @torch.no_grad()
    def update_target_net(self) -> None:
        """Move the target network by tau."""
        for own, other in zip(self.target_net.parameters(), self.net.parameters(), strict=True):
            own.lerp_(other, self.role.tau)

    def take_over(self, trainer: DQNTrainer) -> None:
        """Begin with the weights of a trainer's only member."""
        take_over(self.net, trainer.host_net)
        take_over(self.target_net, trainer.learner("host").target_net)


def empty_memory(size: int, num_inputs: int, device: torch.device) -> Memory:
    """Return room for ``size`` transitions."""
    return Memory(
        seen=torch.zeros(size, num_inputs, device=device),
        action=torch.zeros(size, dtype=torch.int64, device=device),
        reward=torch.zeros(size, device=device),
        next_seen=torch.zeros(size, num_inputs, device=device),
        done=torch.zeros(size, dtype=torch.bool, device=device),
    )
