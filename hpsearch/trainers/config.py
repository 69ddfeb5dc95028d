"""Trainer configurations: frozen, exhaustive, without a single default.

Fields marked PER_MEMBER may differ between the members of one population; all others are the
population's shape, and members that share them train together in one job.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from hpsearch.plain import leaves
from hpsearch.schema import PER_MEMBER, NonNegative, Positive, Range, read
from hpsearch.trainers import net_arch

Rate = Annotated[float, Range(low=0.0, high=1.0), PER_MEMBER]
RateBelowOne = Annotated[float, Range(low=0.0, high=1.0, open_high=True), PER_MEMBER]
PositiveRate = Annotated[float, Range(low=0.0, high=1.0, open_low=True), PER_MEMBER]
PositiveNumber = Annotated[float, Range(low=0.0, open_low=True), PER_MEMBER]
MemberSteps = Annotated[int, Range(low=1), PER_MEMBER]

HostName = Literal["random", "random_pair", "all_coord", "zeillinger"]
AgentName = Literal["random", "choose_first", "choose_last"]
OpponentName = Literal[
    "random", "choose_first", "choose_last", "random_pair", "all_coord", "zeillinger"
]
RewardName = Literal["terminal", "step_penalty", "points_removed"]


@dataclass(frozen=True)
class ConstantSchedule:
    """The final value, always."""

    mode: Literal["constant"]


@dataclass(frozen=True)
class ExponentialSchedule:
    """initial * rate^t + final * (1 - rate^t) at step t."""

    mode: Literal["exponential"]
    initial: PositiveNumber
    """value at step 0"""
    rate: PositiveRate
    """factor a step by which the distance to the final value shrinks"""


@dataclass(frozen=True)
class InverseSchedule:
    """rate / (t + rate / initial) at step t; tends to 0, whatever the final value."""

    mode: Literal["inverse"]
    initial: PositiveNumber
    """value at step 0"""
    rate: PositiveNumber
    """steps times value: larger decays later"""


@dataclass(frozen=True)
class LinearSchedule:
    """A straight line from initial to final."""

    mode: Literal["linear"]
    initial: PositiveNumber
    """value at step 0"""
    steps: MemberSteps
    """steps until the final value is reached"""


@dataclass(frozen=True)
class CosineSchedule:
    """Half a cosine wave from initial to final."""

    mode: Literal["cosine"]
    initial: PositiveNumber
    """value at step 0"""
    steps: MemberSteps
    """steps until the final value is reached"""


Schedule = (
    ConstantSchedule | ExponentialSchedule | InverseSchedule | LinearSchedule | CosineSchedule
)


@dataclass(frozen=True)
class AdamArgs:
    """Arguments of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1)."""

    lr: PositiveNumber
    """learning rate; the final value of lr_schedule"""
    beta1: RateBelowOne
    """decay of the first moment"""
    beta2: RateBelowOne
    """decay of the second moment"""
    eps: PositiveNumber
    """added to the root of the second moment"""


@dataclass(frozen=True)
class Optim:
    """How the weights of a role move."""

    name: Literal["adam"]
    args: AdamArgs
    lr_schedule: Schedule


@dataclass(frozen=True)
class DQNRole:
    """A role (host or agent) that learns by Q-learning."""

    net_arch: tuple[Any, ...]
    """hidden layers; grammar in net_arch.py"""
    optim: Optim
    max_grad_norm: PositiveNumber
    """the gradient of a member is scaled down to this norm"""
    gamma: Rate
    """discount a move"""
    batch_size: Positive
    """transitions an update"""
    rollout_size: Positive
    """games played at once in which this role explores"""
    er: Rate
    """exploration rate; the final value of er_schedule"""
    er_schedule: Schedule
    tau: PositiveRate
    """share of the weights that the target network takes over; 1 copies them"""
    steps_before_update_target: MemberSteps
    """steps between two updates of the target network"""
    huber_delta: PositiveNumber
    """temporal-difference error above which the loss is linear"""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with the network."""
        try:
            net_arch.parse(self.net_arch)
        except ValueError as error:
            yield f"net_arch is not of the grammar: {error}"


@dataclass(frozen=True)
class ScriptedHost:
    """A host that follows a rule instead of learning."""

    player: HostName


@dataclass(frozen=True)
class ScriptedAgent:
    """An agent that follows a rule instead of learning."""

    player: AgentName


@dataclass(frozen=True)
class ReplayBuffer:
    """Transitions kept for learning."""

    buffer_size: Positive
    """transitions a member keeps; the oldest are overwritten"""
    save: bool
    """whether checkpoints hold the buffer; without it a resumed run is not bitwise the same"""


@dataclass(frozen=True)
class DQNOptions:
    """What only Q-learning knows."""

    double: bool
    """the online network chooses the next action, the target network values it"""


@dataclass(frozen=True)
class Evaluation:
    """How the players are measured while they train."""

    interval: Positive
    """steps between two evaluations"""
    num_games: Positive
    """games an opponent, during training"""
    final_num_games: Positive
    """games an opponent, at the end of training"""
    max_steps: Positive
    """moves after which a game counts as unfinished"""
    er: Annotated[float, Range(low=0.0, high=1.0)]
    """exploration rate of the sampled policy; the greedy one never explores"""
    opponents: tuple[OpponentName, ...]
    """scripted players to measure against; a role meets those of the other role"""


@dataclass(frozen=True)
class Checkpointing:
    """When the state of training is written."""

    interval: Positive
    """steps between two checkpoints"""
    keep_last: Annotated[int, Range(low=2)]
    """checkpoints kept; one may be damaged by a crash, so at least two"""


@dataclass(frozen=True)
class DQNConfig:
    """Everything that a DQNTrainer is built from.

    A step is ``rollout_length`` moves of every game, then ``updates_per_step`` updates.
    """

    algorithm: Literal["dqn"]
    seed: Annotated[int, Range(low=0), PER_MEMBER]
    """of initial weights, starts and exploration"""
    device: Literal["cpu", "cuda"]
    steps: MemberSteps
    """training steps in all"""
    dimension: Annotated[int, Range(low=2, high=16)]
    """coordinates of a point, D"""
    max_num_points: Annotated[int, Range(low=2)]
    """points of a start, N"""
    max_value: Positive
    """coordinates of a start are uniform on 0..max_value"""
    max_steps: Positive
    """moves after which a training game is truncated"""
    reposition: bool
    """subtract each coordinate's minimum after a move"""
    reward: RewardName
    rollout_length: Positive
    """moves of every game a step, T"""
    updates_per_step: Positive
    """gradient updates a step"""
    learning_starts: NonNegative
    """steps before the first update; batch norms follow what they see from the start"""
    host: DQNRole | ScriptedHost
    agent: DQNRole | ScriptedAgent
    replay_buffer: ReplayBuffer
    dqn: DQNOptions
    evaluation: Evaluation
    checkpoint: Checkpointing

    def check(self) -> Iterator[str]:
        """Yield what disagrees between the fields."""
        if isinstance(self.host, ScriptedHost) and isinstance(self.agent, ScriptedAgent):
            yield "host or agent must learn, but both are scripted players"
        for player in (self.host, self.agent):
            if isinstance(player, DQNRole) and player.rollout_size > self.replay_buffer.buffer_size:
                yield (
                    "replay_buffer.buffer_size must hold the transitions of one move of every "
                    f"game, rollout_size={player.rollout_size}"
                )
        for name, opponents in self.opponents().items():
            if not opponents:
                yield f"evaluation.opponents names no player that the {name} can meet"

    def opponents(self) -> dict[str, tuple[str, ...]]:
        """Return the scripted players that each learning role is measured against."""
        named = self.evaluation.opponents
        opponents: dict[str, tuple[str, ...]] = {}
        if isinstance(self.host, DQNRole):
            opponents["host"] = tuple(n for n in named if n in get_args(AgentName))
        if isinstance(self.agent, DQNRole):
            opponents["agent"] = tuple(n for n in named if n in get_args(HostName))
        return opponents


TrainerConfig = DQNConfig


def read_config(data: object, *, source: str) -> TrainerConfig:
    """Return the trainer configuration that plain data holds.

    Raises:
        ConfigError: listing every missing, unknown or wrong key with its dotted path.
    """
    return read(DQNConfig, data, source=source)


def shape_key(config: TrainerConfig) -> str:
    """Return a name of the shape: equal for configurations whose members can train together."""
    shape = {leaf.path: leaf.value for leaf in leaves(config) if not leaf.per_member}
    return _digest(shape)


def _digest(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
