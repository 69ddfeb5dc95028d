"""A learner: what one role of P members learns with, whatever the algorithm.

Axes: P members, R rows of a batch, F numbers of an observation, A actions, W weights of one member.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

import torch
from torch import Tensor

from hpsearch.game.rules import HostActionEncoder
from hpsearch.trainers.config import CommonConfig, optim
from hpsearch.trainers.members import column, prefixed
from hpsearch.trainers.networks import Network
from hpsearch.trainers.optim import Update, build_optimizer, clipping
from hpsearch.trainers.optim.reference import TargetWeights
from hpsearch.trainers.policies import LearnedPolicy, build_net, features_of
from hpsearch.trainers.ranks import Ranks, Shards


class Scheduler:
    """The values of one number for P members at their steps.

    Computed in float64, so that the value at a step does not depend on how it was reached.
    """

    def __init__(
        self, schedules: Sequence[optim.StepSchedule], finals: Sequence[float], device: torch.device
    ) -> None:
        self._mode = schedules[0].mode
        self._final = torch.tensor(finals, dtype=torch.float64, device=device)
        numbers = [_numbers(schedule) for schedule in schedules]
        initial, pace = torch.tensor(numbers, dtype=torch.float64, device=device).unbind(1)
        self._initial, self._pace = initial.clone(), pace.clone()

    def __call__(self, step: Tensor) -> Tensor:
        """Return float32 (P,) at ``step`` int64 (P,)."""
        initial, final, pace = self._initial, self._final, self._pace
        match self._mode:
            case "constant":
                value = final
            case "exponential":
                value = final + (initial - final) * pace**step
            case "inverse":
                value = pace / (step + pace / initial)
            case "linear":
                value = torch.lerp(initial, final, (step / pace).clamp(max=1.0))
            case "cosine":
                share = (1 - torch.cos(torch.pi * (step / pace).clamp(max=1.0))) / 2
                value = torch.lerp(initial, final, share)
            case _:
                assert_never(self._mode)
        return value.float()

    def settings(self) -> dict[str, Tensor]:
        return {"initial": self._initial, "final": self._final, "pace": self._pace}


def _numbers(schedule: optim.StepSchedule) -> tuple[float, float]:
    match schedule:
        case optim.ConstantSchedule():
            return 0.0, 0.0
        case optim.ExponentialSchedule() | optim.InverseSchedule():
            return schedule.initial, schedule.rate
        case optim.TimedSchedule():
            return schedule.initial, schedule.steps


class Learner:
    """The network, optimizer and learning rates of one role.

    Attributes:
        name: "host" or "agent".
        net: from features to what the role plays by.
        gamma, max_grad_norm: float32 (P,).
        trainable: bool (P,), whether updates move the weights.
        gradients: float32 (P, W), of the last update, before they are clipped.
        ranks, shards: what trains together, and what of the games is played here.
        statistics: float32 (P,) each, numbers of the last update, by name.
    """

    def __init__(
        self, name: str, configs: Sequence[CommonConfig], device: torch.device, ranks: Ranks
    ) -> None:
        """Build the role ``name`` of one member for each of ``configs``."""
        self.ranks, self.shards = ranks, Shards.of(configs[0].shards, ranks)
        roles = [config.learning()[name] for config in configs]
        self.name = name
        self._plays_by = configs[0].plays_by
        seeds = [config.seed for config in configs]
        self.net = build_net(name, configs[0], seeds, device, ranks)
        self.optimizer = build_optimizer(self.net.weights, [role.optim for role in roles])
        finals = [role.optim.args.lr for role in roles]
        self.lr_scheduler = Scheduler([role.optim.lr_schedule for role in roles], finals, device)
        self.gamma = column([role.gamma for role in roles], device)
        self.max_grad_norm = column([role.max_grad_norm for role in roles], device)
        self.trainable = torch.ones(len(roles), dtype=torch.bool, device=device)
        self.gradients = torch.zeros_like(self.net.weights)
        self.statistics: dict[str, Tensor] = {}
        self._encoder = HostActionEncoder(configs[0].dimension)

    def exploration(self, step: Tensor) -> Tensor:
        """Return how much the role explores in the games in which it learns, float32 (P, 1)."""
        raise NotImplementedError

    def policy(self, net: Network) -> LearnedPolicy:
        return LearnedPolicy(net, self._plays_by)

    def features(self, observation: Tensor, action: Tensor) -> Tensor:
        """Return what the network sees of positions (P, R, F) and the host's ``action`` (P, R).

        No more than it looks at, and in one piece, as products on a CPU would copy it each time.
        """
        seen = observation[..., : self.net.observation_size]
        return features_of(seen, self._subset(action)).contiguous()

    def legal(self, action: Tensor) -> Tensor:
        """Return which actions are legal, bool (P, R, A): all of a host's, an agent's in subset."""
        subset = self._subset(action)
        if subset is not None:
            return subset
        shape = (*action.shape, self._encoder.num_actions)
        return torch.ones(shape, dtype=torch.bool, device=action.device)

    def _subset(self, action: Tensor) -> Tensor | None:
        """Return the host's choice as an agent sees it, bool (P, R, D); None for a host."""
        return None if self.name == "host" else self._encoder.decode(action)

    def differentiate(self, loss: Tensor, numbers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Take the gradients of ``loss`` (P,), and return ``numbers`` float32 (P,) of the update.

        Both are means over all ranks, found at once.
        """
        # The sum over members: no member's gradient sees another.
        self.net.gradients(loss.sum(), out=self.gradients)
        return self.average({name: number.detach() for name, number in numbers.items()})

    def average(self, numbers: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Average ``gradients`` and ``numbers`` float32 (P,) over all ranks; return the numbers."""
        told = dict(numbers)
        if self.ranks.size > 1:
            num_weights = self.gradients.shape[1]
            bank = torch.cat([self.gradients, torch.stack(list(told.values()), dim=1)], dim=1)
            bank = self.ranks.average(bank)
            self.gradients.copy_(bank[:, :num_weights])
            told = dict(zip(told, bank[:, num_weights:].unbind(1), strict=True))
        return told

    def descend(self, lr: Tensor, active: Tensor, target: TargetWeights | None) -> None:
        """Make one step along the gradients taken last.

        ``active`` bool (P,) says whose weights move, at learning rates ``lr`` float32 (P,); the
        ``target`` follows the weights.
        """
        scale, norm = clipping(self.gradients, self.max_grad_norm)
        update = Update(self.gradients, scale, lr, active & self.learns())
        self.optimizer.step(self.net.weights, update, target)
        self.statistics |= {"gradient_norm": norm, "lr": lr}

    def keep_statistics(self, before: Tensor) -> None:
        """Put batch norms back to ``before`` (P, S) where nothing is learned.

        Updates let them follow what they see, which would change how the role plays.
        """
        statistics = self.net.statistics
        if statistics.shape[1]:
            statistics.copy_(statistics.where(self.learns()[:, None], before))

    def learns(self) -> Tensor:
        return self.trainable

    def check_fits(self, net: Network) -> None:
        """Raise a ValueError if ``net`` is of another structure or number of members."""
        same_members = net.weights.shape == self.net.weights.shape
        if not same_members or net.structure != self.net.structure:
            raise ValueError(
                f"the network of the {self.name} holds {tuple(self.net.weights.shape)} weights, "
                f"the new one {tuple(net.weights.shape)}; it needs the same net_arch and members, "
                "encoder and activation"
            )

    def replace_net(self, net: Network) -> None:
        """Take over weights that fit, and forget what was learned from."""
        self.net.copy_(net)
        self.optimizer.forget()

    def begin_with(self, net: Network, member: int) -> None:
        self.net.copy_member_(member, net)

    def forget_optimizer(self, member: int) -> None:
        for tensor in self.optimizer.state().values():
            tensor[member] = 0

    def change(self) -> None:
        """Take note that more than training has changed networks or memory."""

    def leave_games(self, member: int, shards: slice | None = None) -> None:
        """Take note that one member's games, of some own shards, were left before their ends."""

    def state(self) -> dict[str, Tensor]:
        return {
            "trainable": self.trainable,
            **prefixed("net", self.net.state()),
            **prefixed("optimizer", self.optimizer.state()),
        }

    def places(self) -> dict[str, Tensor]:
        """Return what this rank has of the state; see `Trainer.places`."""
        return {}

    def settings(self) -> dict[str, Tensor]:
        return {
            "gamma": self.gamma,
            "max_grad_norm": self.max_grad_norm,
            **prefixed("optimizer", self.optimizer.settings()),
            **prefixed("lr", self.lr_scheduler.settings()),
        }
