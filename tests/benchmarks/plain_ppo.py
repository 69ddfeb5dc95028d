"""Proximal policy optimisation of one host as one writes it: torch.nn, torch.optim, loops.

The same updates as hpsearch.trainers.ppo, and the same game kernel. What was computed while
playing is kept and not computed again. test_plain_trainers.py compares an update.

Axes: T moves, B games, M = T * B, m moves of a minibatch, I inputs, A actions.
"""

from typing import NamedTuple

import torch
from plain import adam, mlp, new_game, num_points_seen, see, take_over
from torch import Tensor, nn

from hpsearch.game import HostActionEncoder
from hpsearch.game.players import agent_player
from hpsearch.trainers.config import PPOConfig, PPORole, ScriptedAgent
from hpsearch.trainers.ppo import PPOTrainer


class Rollout(NamedTuple):
    """Moves as they were played, each tensor (T, B, ...)."""

    seen: Tensor
    """float32 (T, B, I)"""
    action: Tensor
    """int64 (T, B)"""
    log_prob: Tensor
    """float32 (T, B)"""
    reward: Tensor
    """float32 (T, B)"""
    next_seen: Tensor
    """float32 (T, B, I)"""
    done: Tensor
    """bool (T, B)"""
    truncated: Tensor
    """bool (T, B)"""


class Moves(NamedTuple):
    """What a minibatch holds, each tensor (m, ...)."""

    seen: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor


class PlainPPO:
    """One host that learns against a scripted agent."""

    def __init__(self, config: PPOConfig) -> None:
        """Begin with fresh weights."""
        assert isinstance(config.host, PPORole)
        assert isinstance(config.agent, ScriptedAgent)
        self.config, self.role, self.options = config, config.host, config.ppo
        # What the measured configurations do without.
        assert self.options.value_clip_range is None
        assert self.options.target_kl is None
        self.device = torch.device(config.device)
        self.encoder = HostActionEncoder(config.dimension)
        self.num_points = num_points_seen(self.role)
        num_inputs = self.num_points * config.dimension
        self.policy = mlp([num_inputs, *self.role.net_arch, self.encoder.num_actions])
        self.value = mlp([num_inputs, *self.role.value_net_arch, 1])
        self.nets = nn.ModuleList([self.policy, self.value]).to(self.device)
        self.optimizer = adam(self.nets, self.role)
        self.game = new_game(config, self.role, self.device)
        self.agent = agent_player(config.agent.player)

    def train(self, steps: int) -> None:
        """Make training steps: moves of every game, then passes over them."""
        for _ in range(steps):
            played = [self.play() for _ in range(self.config.rollout_length)]
            rollout = Rollout(*(torch.stack(parts) for parts in zip(*played, strict=True)))
            for epoch in range(self.options.train_epochs):
                if epoch == 0 or self.options.recompute_advantages:
                    moves = self.moves(rollout)
                order = torch.randperm(len(moves.action), device=self.device)
                for chosen in order.split(self.options.minibatch_size):
                    self.update(Moves(*(tensor[chosen] for tensor in moves)))

    @torch.no_grad()
    def play(self) -> Rollout:
        """Play a move of every game, each tensor (B, ...)."""
        points = self.game.points[0]
        seen = see(points, self.num_points)
        policy = torch.distributions.Categorical(logits=self.policy(seen), validate_args=False)
        action = policy.sample()
        noise = torch.rand(len(action), device=self.device)
        axis = self.agent(points, self.encoder.decode(action), noise)
        step = self.game.step(action[None], axis[None])
        done, truncated = step.done[0], step.truncated[0]
        next_seen = see(step.next_points[0], self.num_points)
        log_prob = policy.log_prob(action)
        return Rollout(seen, action, log_prob, done.float(), next_seen, done, truncated)

    @torch.no_grad()
    def moves(self, rollout: Rollout) -> Moves:
        """Return the moves with advantages by the value network as it is now."""
        value = self.value(rollout.seen).squeeze(2)
        advantage = self.advantages(rollout, value, self.value(rollout.next_seen).squeeze(2))
        parts = (rollout.action, rollout.log_prob, advantage, advantage + value)
        return Moves(rollout.seen.flatten(0, 1), *(part.flatten() for part in parts))

    def advantages(self, rollout: Rollout, value: Tensor, next_value: Tensor) -> Tensor:
        """Return generalized advantages, float32 (T, B)."""
        going = (~rollout.done).float()
        error = rollout.reward + self.role.gamma * going * next_value - value
        carries = self.role.gamma * self.options.gae_lambda * going * ~rollout.truncated
        advantage = torch.zeros_like(error)
        last = torch.zeros_like(error[0])
        for move in reversed(range(len(error))):
            last = error[move] + carries[move] * last
            advantage[move] = last
        return advantage

    def update(self, batch: Moves) -> Tensor:
        """Make one gradient step; return the loss."""
        log_probs = self.policy(batch.seen).log_softmax(dim=1)
        chosen = log_probs.gather(1, batch.action[:, None]).squeeze(1)
        ratio = (chosen - batch.log_prob).exp()
        advantage = batch.advantage
        if self.options.normalize_advantages:
            deviation = advantage.std(correction=0)
            advantage = (advantage - advantage.mean()) / (deviation + 1e-8)
        near = ratio.clamp(1 - self.options.clip_range, 1 + self.options.clip_range)
        policy_loss = -torch.minimum(ratio * advantage, near * advantage).mean()
        error = self.value(batch.seen).squeeze(1) - batch.target
        entropy = -(log_probs * log_probs.exp()).sum(dim=1).mean()
        value_loss = 0.5 * error.square().mean()
        loss = policy_loss + self.options.vf_coef * value_loss - self.options.ent_coef * entropy
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.nets.parameters(), self.role.max_grad_norm)
        self.optimizer.step()
        return loss.detach()

    def take_over(self, trainer: PPOTrainer) -> None:
        """Begin with the weights of a trainer's only member."""
        take_over(self.policy, trainer.host_net, "0.")
        take_over(self.value, trainer.host_net, "1.")
