"""Deep Q-learning with a target network, for P members at once.

Mnih et al., Nature 518 (2015); double: van Hasselt et al., arXiv 1509.06461; n-step: Sutton and
Barto, Reinforcement Learning (2018), section 7.1; minimax: Littman, Markov games as a framework for
multi-agent reinforcement learning (1994). Axes: P members, B transitions, A actions.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.trainers import dqn_cpu
from hpsearch.trainers.actors import Actors
from hpsearch.trainers.config import DQNConfig, DQNRole, RewardName
from hpsearch.trainers.graphs import compiled, has_loops, quickest
from hpsearch.trainers.learner import Learner, Scheduler
from hpsearch.trainers.members import column, member_stream, prefixed
from hpsearch.trainers.moves import Batch, Targets
from hpsearch.trainers.networks import Network
from hpsearch.trainers.optim import TargetWeights
from hpsearch.trainers.policies import build_net, legal_values
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.replay_buffer import ReplayBuffer
from hpsearch.trainers.rollouts import SavedPlayers, Transitions
from hpsearch.trainers.target_values import TargetValues, is_worth_it
from hpsearch.trainers.trainer import Trainer


class QLearner(Learner):
    """A learner with a target network, a memory and exploration rates."""

    def __init__(
        self, name: str, configs: Sequence[DQNConfig], device: torch.device, ranks: Ranks
    ) -> None:
        roles = [role for config in configs if isinstance(role := config.learning()[name], DQNRole)]
        super().__init__(name, configs, device, ranks)
        self.config = roles[0]  # for the fields that all members share
        seeds = [config.seed for config in configs]
        # The same stream again: the target network begins with the same weights.
        self.target_net = build_net(name, configs[0], seeds, device)
        keeps_points = configs[0].dqn.minimax and name == "host"
        self.replay_buffer = ReplayBuffer(
            observation_size=self.net.observation_size,
            points_shape=(configs[0].max_num_points if keeps_points else 0, configs[0].dimension),
            num_games=roles[0].rollout_size,
            options=[config.replay_buffer for config in configs],
            stream=member_stream(seeds, device, name, "replay"),
            how=configs[0].compile,
            shards=self.shards,
        )
        self.tau = column([role.tau for role in roles], device)  # (P,)
        self.huber_delta = column([role.huber_delta for role in roles], device)  # (P,)
        intervals = [role.steps_before_update_target for role in roles]
        self.target_interval = torch.tensor(intervals, device=device)  # int64 (P,) steps
        self.er_scheduler = Scheduler(
            [role.er_schedule for role in roles], [role.er for role in roles], device
        )
        self._kept_values = self._values_to_keep(configs[0], intervals)

    def _values_to_keep(self, config: DQNConfig, intervals: Sequence[int]) -> TargetValues | None:
        """Return what keeps the target network's values.

        None where a pass for each batch is as quick, where values depend on the rest of the batch,
        or where they would take more memory than the observations.
        """
        net, num_drawn = self.target_net, self.config.batch_size * config.updates_per_step
        num_added = self.config.rollout_size * config.rollout_length
        if not (
            self.shards.total == 1
            and net.has_independent_rows
            and net.towers[0].num_outputs <= net.observation_size
            and not (config.dqn.minimax and self.name == "host")  # of whose moves all replies count
            and is_worth_it(self.replay_buffer.num_places, num_added, intervals, num_drawn)
        ):
            return None
        return TargetValues(
            self.replay_buffer,
            net.towers[0].num_outputs,
            lambda seen, action: net.update_pass(self.features(seen, action)),
        )

    def exploration(self, step: Tensor) -> Tensor:
        er = self.er_scheduler(step)
        self.statistics["er"] = er
        return er[:, None]

    def target_weights(self, step: Tensor) -> TargetWeights:
        """Return the target network's weights, and the share of the way (P,) that they follow now.

        It is tau where ``step`` (P,) is a multiple of ``target_interval`` and the member learns,
        else 0.
        """
        is_due = self.learns() & (step % self.target_interval == 0)
        return TargetWeights(self.target_net.weights, self.tau * is_due)

    def follow(self, target: TargetWeights) -> None:
        """Take note that an update has moved the ``target`` weights; let its norms follow."""
        self.target_net.follow_statistics(self.net, target.tau)
        if self._kept_values is not None and target.tau.any():
            self._kept_values.forget()

    def next_values(self, batch: Batch, features: Tensor) -> Tensor:
        """Return what the target network says of the positions that a batch led to, (P, B, A).

        Their ``features`` (P, B, I) are given.
        """
        if self._kept_values is not None:
            return self._kept_values.after(batch)
        return self.target_net.update_pass(features)

    def change(self) -> None:
        super().change()
        if self._kept_values is not None:
            self._kept_values.forget()

    def learns(self) -> Tensor:
        """Return which members have something to learn from, and may, bool (P,)."""
        return super().learns() & self.replay_buffer.holds_any()

    def replace_net(self, net: Network) -> None:
        super().replace_net(net)
        self.target_net.copy_(net)
        self.replay_buffer.forget()

    def begin_with(self, net: Network, member: int) -> None:
        super().begin_with(net, member)
        self.target_net.copy_member_(member, net)

    def leave_games(self, member: int, shards: slice | None = None) -> None:
        self.replay_buffer.leave_games(member, shards)

    def state(self) -> dict[str, Tensor]:
        return {
            **super().state(),
            **prefixed("target_net", self.target_net.state()),
            **prefixed("replay_buffer", self.replay_buffer.state()),
        }

    def places(self) -> dict[str, Tensor]:
        return prefixed("replay_buffer", self.replay_buffer.places())

    def settings(self) -> dict[str, Tensor]:
        return {
            **super().settings(),
            "tau": self.tau,
            "huber_delta": self.huber_delta,
            "target_interval": self.target_interval,
            **prefixed("er", self.er_scheduler.settings()),
            **prefixed("replay_buffer", self.replay_buffer.settings()),
        }


class DQNTrainer(Trainer[DQNConfig, QLearner]):
    """Learns the value of each action from remembered transitions."""

    looks_ahead = False

    def __init__(
        self,
        configs: Sequence[DQNConfig],
        saved: SavedPlayers | None = None,
        ranks: Ranks = ALONE,
        actors: Actors | None = None,
    ) -> None:
        super().__init__(configs, saved, ranks, actors)
        device, how = self.device, self.config.compile
        self._backed_up = quickest(backed_up, dqn_cpu.backed_up, device, "off")
        # What is written out, autograd cannot look into for anomalies.
        is_by_hand = has_loops(device, how) and not self.config.detect_anomaly
        by_autograd = partial(differentiate, compiled(temporal_difference, how))
        self._differentiate = dqn_cpu.differentiate if is_by_hand else by_autograd

    def _learner(self, role: str) -> QLearner:
        return QLearner(role, self.configs, self.device, self.ranks)

    def _play(self) -> None:
        length = self.config.rollout_length
        for moves in self.rollouts.play(length, looks_ahead=self.looks_ahead):
            for group, transitions in zip(self.roles.groups, moves, strict=True):
                group.learner.replay_buffer.add(Transitions(*map(group.by_shard, transitions)))

    def _learn(self) -> None:
        for learner in self.learners:
            lr, num_updates = learner.lr_scheduler(self.step), self.config.updates_per_step
            batches = learner.replay_buffer.sample(
                num_updates,
                batch_size=learner.config.batch_size,
                n_step=self.config.dqn.n_step,
                gamma=learner.gamma,
                step=self.step,
            )
            for _ in range(num_updates - 1):
                self._update(learner, next(batches), lr, None)
            target_weights = learner.target_weights(self.step + 1)
            self._update(learner, next(batches), lr, target_weights)
            learner.follow(target_weights)

    def _update(
        self, learner: QLearner, batch: Batch, lr: Tensor, target_weights: TargetWeights | None
    ) -> None:
        """Make one gradient step on the Huber loss of the temporal-difference error."""
        target = self._target(learner, batch)
        features = learner.features(batch.observation, batch.subset)
        known = torch.ones_like(batch.known) if self._is_minimax(learner) else batch.known
        targets = Targets(batch.action, target, batch.weight, known, learner.huber_delta)
        loss, value, error = self._differentiate(learner.net, features, targets, learner.gradients)
        numbers = learner.average({"loss": loss, "value": value})
        learner.descend(lr, self.step >= self.config.learning_starts, target_weights)
        learner.replay_buffer.reprioritise(batch.places, error)
        learner.statistics |= numbers

    @torch.no_grad()
    def _target(self, learner: QLearner, batch: Batch) -> Tensor:
        """Return r + discount * V(s'), float32 (P, B); r sums n moves."""
        if self._is_minimax(learner):
            return self._minimax_target(learner, batch.points, batch.subset)
        features = learner.features(batch.next_observation, batch.next_subset)
        values = learner.next_values(batch, features)
        legal = learner.legal(batch.next_subset)
        return self._back_up(learner, features, values, legal, batch.reward, batch.discount)

    def _is_minimax(self, learner: QLearner) -> bool:
        return self.config.dqn.minimax and learner.name == "host"

    def _minimax_target(self, learner: QLearner, points: Tensor, action: Tensor) -> Tensor:
        """Return the least target over all replies of the agent to the host's subset."""
        kernel, reward_of = self.rollouts.kernel, rules.reward_function(self.config.reward)
        subset = self.rollouts.encoder.decode(action)
        worst = torch.full(action.shape, torch.inf, device=action.device)
        for axis in range(self.config.dimension):
            is_reply = subset[..., axis]
            # Where the axis is not in the subset, move by another one that is, as the kernel takes
            # legal moves only; `where` below drops the result.
            reply = torch.where(is_reply, axis, subset.to(torch.uint8).argmax(dim=-1))
            next_points, capped = kernel.move(points, subset, reply, self.config.reposition)
            done = rules.is_over(next_points) & ~capped
            reward = reward_of(points, next_points, done)
            discount = learner.gamma[:, None] * ~done
            features = learner.features(kernel.observe(next_points), action)
            values, legal = learner.target_net.update_pass(features), learner.legal(action)
            target = self._back_up(learner, features, values, legal, reward, discount)
            worst = torch.where(is_reply, torch.minimum(worst, target), worst)
        return worst

    def _back_up(
        self,
        learner: QLearner,
        features: Tensor,
        values: Tensor,
        legal: Tensor,
        reward: Tensor,
        discount: Tensor,
    ) -> Tensor:
        """Return reward + discount * Q_target(s, a*), float32 (P, B).

        a* is the best legal action by the online network (double) or by the target network, whose
        ``values`` (P, B, A) are given.
        """
        chooser = learner.net.update_pass(features) if self.config.dqn.double else values
        return self._backed_up(values, chooser, legal, reward, discount)

    def load(self, path: Path, member: int) -> None:
        super().load(path, member)
        if not self.config.replay_buffer.save:
            for learner in self.learners:
                if learner.replay_buffer.added[member] > 0:  # of games that the member leaves
                    learner.leave_games(member)

    def saved_state(self) -> dict[str, Tensor]:
        """Return the part of the state that checkpoints hold: the buffers only if asked for."""
        state = super().saved_state()
        if self.config.replay_buffer.save:
            return state
        return {name: tensor for name, tensor in state.items() if ".replay_buffer." not in name}

    def replace_reward_func(self, name: RewardName) -> None:
        """Reward by another function from now on, and forget moves that the old one rewarded.

        ValueError if there is no reward of that name.
        """
        super().replace_reward_func(name)
        for learner in self.learners:
            learner.replay_buffer.forget()

    @property
    def host_er_scheduler(self) -> Scheduler:
        return self.learner("host").er_scheduler

    @property
    def agent_er_scheduler(self) -> Scheduler:
        return self.learner("agent").er_scheduler

    @property
    def host_replay_buffer(self) -> ReplayBuffer:
        return self.learner("host").replay_buffer

    @property
    def agent_replay_buffer(self) -> ReplayBuffer:
        return self.learner("agent").replay_buffer


def backed_up(
    values: Tensor, chooser: Tensor, legal: Tensor, reward: Tensor, discount: Tensor
) -> Tensor:
    """Return ``reward`` + ``discount`` * the value of the best ``legal`` action, float32 (P, B).

    The best by ``chooser``, float32 (P, B, A) as ``values``, of which NaN counts as highest.
    ``legal`` is bool (P, B, A).
    """
    best = legal_values(chooser, legal).argmax(dim=2, keepdim=True)
    return reward + discount * values.gather(2, best).squeeze(2)


def temporal_difference(values: Tensor, targets: Targets) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss (P,), the mean value (P,) and the errors (P, B) of actions taken.

    ``values`` (P, B, A) are of all actions. Errors are 0 where what was drawn is not known.
    """
    value = values.gather(2, targets.action[..., None]).squeeze(2)
    error = value - targets.target
    losses = targets.weight * targets.known * huber(error, targets.delta[:, None])
    return losses.mean(dim=1), value.mean(dim=1), error * targets.known


def huber(error: Tensor, delta: Tensor) -> Tensor:
    """Return error^2 / 2 up to ``delta`` and delta * (|error| - delta / 2) beyond."""
    size = error.abs()
    near = torch.minimum(size, delta)
    return near * (size - 0.5 * near)


def differentiate(
    difference: Callable[[Tensor, Targets], tuple[Tensor, Tensor, Tensor]],
    net: Network,
    features: Tensor,
    targets: Targets,
    out: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what ``difference`` does of a network's values, and fill ``out`` with the gradients.

    These, (P, W), are of the loss that `temporal_difference`, or what is compiled of it, returns.
    """
    values = net.update_pass(features, training=True)
    loss, value, error = difference(values, targets)
    net.gradients(loss.sum(), out=out)  # over members: no member's gradient sees another
    return loss.detach(), value.detach(), error.detach()
