"""Proximal policy optimisation (Schulman et al., arXiv 1707.06347), for P members at once.

Axes: P members, T moves, B games, M = T * B moves of a step, m of them in a minibatch, A actions.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from hpsearch.game.kernels.threads import threads
from hpsearch.trainers import ppo_cpu
from hpsearch.trainers.actors import Actors
from hpsearch.trainers.config import PPOConfig
from hpsearch.trainers.config.weight_layout import POLICY, VALUE
from hpsearch.trainers.gae import advantages
from hpsearch.trainers.graphs import compiled, has_loops, quickest
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.members import column, member_stream
from hpsearch.trainers.networks import Network
from hpsearch.trainers.ppo_loss import LossCoefficients, Losses, Moves, losses
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.rollouts import GameGroup, SavedPlayers, Transitions, stack
from hpsearch.trainers.trainer import Trainer


class ActorCritic(Learner):
    """A learner whose network has two towers, a policy and a value."""

    def __init__(
        self, name: str, configs: Sequence[PPOConfig], device: torch.device, ranks: Ranks
    ) -> None:
        super().__init__(name, configs, device, ranks)
        seeds = [config.seed for config in configs]
        self.shuffle = member_stream(seeds, device, name, "shuffle")  # of the moves of an epoch
        self._exploration = torch.ones_like(self.gamma)[:, None]  # (P, 1)

    def exploration(self, step: Tensor) -> Tensor:
        """Return 1: a role draws every action by its policy."""
        return self._exploration

    def value(self, features: Tensor) -> Tensor:
        """Return the value float32 (P, R) of positions with ``features`` (P, R, I)."""
        return self.net.update_pass(features, tower=VALUE).squeeze(2)

    @torch.no_grad()
    def follow_statistics(self, features: Tensor) -> None:
        """Let batch norms follow ``features`` (P, R, I), once a step.

        Updates use the running statistics: with a minibatch's own the policy would differ from the
        one that played before anything was learned.
        """
        if self.net.statistics.shape[1]:
            for tower in (POLICY, VALUE):
                self.net(features, tower=tower, training=True)

    def state(self) -> dict[str, Tensor]:
        return {**super().state(), "shuffle.counters": self.shuffle.counters}

    def settings(self) -> dict[str, Tensor]:
        return {**super().settings(), "shuffle.keys": self.shuffle.keys}


class PPOTrainer(Trainer[PPOConfig, ActorCritic]):
    """Learns a policy from what it has just played, never moving far in one step."""

    looks_ahead = True

    def __init__(
        self,
        configs: Sequence[PPOConfig],
        saved: SavedPlayers | None = None,
        ranks: Ranks = ALONE,
        actors: Actors | None = None,
    ) -> None:
        super().__init__(configs, saved, ranks, actors)
        options, groups = [config.ppo for config in configs], self.roles.groups
        self._gae_lambda = column([option.gae_lambda for option in options], self.device)
        bounds = [_or_infinite(option.value_clip_range) for option in options]
        self._coefficients = LossCoefficients(
            clip=column([option.clip_range for option in options], self.device)[:, None],
            value_clip=column(bounds, self.device)[:, None],
            vf_coef=column([option.vf_coef for option in options], self.device),
            ent_coef=column([option.ent_coef for option in options], self.device),
        )
        # Each role's rollout: a recorded update reads the tensors that a recorded rollout fills.
        self._played: tuple[Transitions, ...] = ()
        # Where the moves of each own shard lie among all members' on this rank, int64
        # (P * own shards, M / own shards).
        self._places = {group.learner.name: self._moves_by_shard(group) for group in groups}
        self._estimate = quickest(advantages, ppo_cpu.advantages, self.device, "off")
        # What is written out, autograd cannot look into for anomalies.
        how = self.config.compile
        is_by_hand = has_loops(self.device, how) and not self.config.detect_anomaly
        by_autograd = partial(differentiate, compiled(losses, how))
        self._differentiate = ppo_cpu.differentiate if is_by_hand else by_autograd
        target_kls = [_or_infinite(option.target_kl) for option in options]
        self._target_kl = column(target_kls, self.device)

    def _learner(self, role: str) -> ActorCritic:
        return ActorCritic(role, self.configs, self.device, self.ranks)

    def settings(self) -> dict[str, Tensor]:
        return {
            **super().settings(),
            "gae_lambda": self._gae_lambda,
            **self._coefficients._asdict(),
            "target_kl": self._target_kl,
        }

    def _play(self) -> None:
        length = self.config.rollout_length
        moves = list(self.rollouts.play(length, looks_ahead=self.looks_ahead))
        self._played = tuple(_as_it_went_on(stack(seen)) for seen in zip(*moves, strict=True))

    def _learn(self) -> None:
        for group, rollout in zip(self.roles.groups, self._played, strict=True):
            self._learn_from(group, rollout)

    def _learn_from(self, group: GameGroup[ActorCritic], rollout: Transitions) -> None:
        learner, options = group.learner, self.config.ppo
        lr = learner.lr_scheduler(self.step)
        moves = self._moves(group, rollout)
        active = torch.ones_like(learner.trainable)
        for epoch in range(options.train_epochs):
            self.callbacks.before_epoch(self, learner.name, epoch)
            if epoch > 0 and options.recompute_advantages:
                advantage, target, _ = self._advantages(learner, rollout, moves.features)
                moves = moves._replace(advantage=advantage, target=target)
            for batch in self._minibatches(group, moves):
                active = self._update(learner, batch, active, lr)
            self.callbacks.after_epoch(self, learner.name, epoch)
        learner.follow_statistics(moves.features)

    def _moves_by_shard(self, group: GameGroup[ActorCritic]) -> Tensor:
        num_members, num_games = self.num_members, len(group.numbers)
        num_moves = num_members * self.config.rollout_length * num_games
        moves = torch.arange(num_moves, device=self.device).view(num_members, -1, num_games)
        return group.by_shard(moves.mT).mT.flatten(1)

    def _minibatches(self, group: GameGroup[ActorCritic], moves: Moves) -> Iterator[Moves]:
        """Yield the rank's moves of an epoch in minibatches, of which the last may be smaller.

        They are shuffled within each shard, of which all minibatches have equal parts.
        """
        learner, places = group.learner, self._places[group.learner.name]
        shards = learner.shards
        noise = shards.own_part(learner.shuffle.uniform(places.shape[1] * shards.total))
        shuffled = places.gather(1, noise.argsort(dim=1, stable=True))
        shuffled = shuffled.unflatten(0, (-1, shards.num_own))
        size = self.config.ppo.minibatch_size // shards.total
        num_in_full_ones = shuffled.shape[2] // size * size
        for part in shuffled.split(num_in_full_ones, dim=2):
            # Those of one size are copied at once, which takes fewer operations and more memory.
            chosen = part.unflatten(2, (-1, min(size, part.shape[2]))).permute(2, 0, 1, 3)
            batches = _moves_at(moves, chosen.flatten(2))
            if self.config.ppo.normalize_advantages:
                scaled = normalized(batches.advantage, self.ranks)
                batches = batches._replace(advantage=scaled)
            yield from map(Moves._make, zip(*batches, strict=True))

    def _update(self, learner: ActorCritic, batch: Moves, active: Tensor, lr: Tensor) -> Tensor:
        """Make one gradient step; return which members bool (P,) may go on in this step."""
        found = self._differentiate(learner.net, batch, self._coefficients, learner.gradients)
        numbers = learner.average(found._asdict())
        active = active & ~(numbers["kl"] > self._target_kl)  # NaN stays active, to be seen
        learner.descend(lr, active, None)
        learner.statistics |= numbers
        return active

    @torch.no_grad()
    def _moves(self, group: GameGroup[ActorCritic], rollout: Transitions) -> Moves:
        """Return the moves of a step with what the value network says of them."""
        learner, subset = group.learner, rollout.subset.flatten(1)
        features = learner.features(rollout.observation.flatten(1, 2), subset)
        advantage, target, value = self._advantages(learner, rollout, features)
        legal, action = learner.legal(subset), rollout.action.flatten(1)
        log_prob = rollout.log_prob.flatten(1)
        return Moves(features, legal, action, log_prob, value, advantage, target)

    @torch.no_grad()
    def _advantages(
        self, learner: ActorCritic, rollout: Transitions, features: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return advantages, the value network's targets and its present values, each (P, M)."""
        value = learner.value(features)
        by_move = value.view_as(rollout.reward)
        next_value = self._next_value(learner, rollout, by_move)
        estimated = self._estimate(rollout, by_move, next_value, learner.gamma, self._gae_lambda)
        return estimated.flatten(1), estimated.flatten(1) + value, value

    def _next_value(self, learner: ActorCritic, rollout: Transitions, value: Tensor) -> Tensor:
        """Return the values (P, T, B) of the positions after each move.

        Where a game went on, that is the position before the next move, whose value is in
        ``value``. Asked are those after the last move, and where a member's game was broken off;
        all, where a value depends on the rest of its batch. Where a game is over, that of the next
        game stands, and does not count.
        """
        observation, subset = rollout.next_observation.flatten(1, 2), rollout.next_subset.flatten(1)
        if not learner.net.has_independent_rows:
            return learner.value(learner.features(observation, subset)).view_as(value)
        # This is a CPU, so nothing waits if what tensors hold is looked at.
        unknown = rollout.truncated.any(dim=0)
        unknown[-1] = True
        places = unknown.flatten().nonzero().squeeze(1)
        asked = (tensor.index_select(1, places) for tensor in (observation, subset))
        after = learner.value(learner.features(*asked))
        return value.roll(-1, dims=1).flatten(1).index_copy(1, places, after).view_as(value)


def differentiate(
    losses_of: Callable[[Tensor, Tensor, Moves, LossCoefficients], Losses],
    net: Network,
    batch: Moves,
    coefficients: LossCoefficients,
    out: Tensor,
) -> Losses:
    """Return the losses of a minibatch, and fill ``out`` (P, W) with the gradients."""
    values = net.update_pass(batch.features, tower=POLICY)
    value = net.update_pass(batch.features, tower=VALUE).squeeze(2)
    found = losses_of(values, value, batch, coefficients)
    net.gradients(found.loss.sum(), out=out)  # over members: no member's gradient sees another
    return Losses._make(number.detach() for number in found)


def normalized(advantage: Tensor, ranks: Ranks) -> Tensor:
    """Return the advantages (..., m) of minibatches with mean 0 and deviation 1 over all ranks."""
    with threads(1):  # several would share out the sum of a single member, and round otherwise
        variance, mean = torch.var_mean(advantage, dim=-1, keepdim=True, correction=0)
    if ranks.size > 1:
        mean, variance = ranks.moments(torch.stack([mean, variance]))
    return (advantage - mean) / (variance.sqrt() + 1e-8)


def _moves_at(moves: Moves, places: Tensor) -> Moves:
    """Return the moves at ``places`` (n, P, m) among all members', tensors (n, P, m, ...)."""
    flat = places.flatten()
    rows = (tensor.flatten(0, 1).index_select(0, flat) for tensor in moves)
    return Moves(*(each.view(*places.shape, *each.shape[1:]) for each in rows))


def _as_it_went_on(rollout: Transitions) -> Transitions:
    """Put the host's real next choice where the game went on; the drawn one stays elsewhere."""
    ended = (rollout.done | rollout.truncated)[:, :-1]
    next_subset = rollout.next_subset.clone()
    next_subset[:, :-1] = torch.where(ended, next_subset[:, :-1], rollout.subset[:, 1:])
    return rollout._replace(next_subset=next_subset)


def _or_infinite(bound: float | None) -> float:
    return float("inf") if bound is None else bound
