"""What every algorithm's configuration says."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, Any, ClassVar, Literal, Self

from hpsearch.errors import unknown_fault
from hpsearch.extensions import Kind, PartName
from hpsearch.monitor.config import MonitorConfig
from hpsearch.schema import PER_MEMBER, Positive, Range
from hpsearch.trainers.config.ending import EndConfig
from hpsearch.trainers.config.net_arch import net_arch_faults
from hpsearch.trainers.config.optim import MemberSteps, Optim, PositiveNumber, Rate
from hpsearch.trainers.config.players import (
    LEARNER,
    OTHER,
    Activation,
    Encoder,
    EncoderExtension,
    FlattenEncoder,
    ListedCheckpoint,
    ListedOpponent,
    ListedPlayer,
    ListedSnapshots,
    OpponentName,
    OpponentPool,
    SavedPlayerConfig,
    ScriptedAgent,
    ScriptedHost,
    is_scripted,
)
from hpsearch.trainers.config.rollouts import ActorRollouts, InlineRollouts, RolloutMode
from hpsearch.trainers.config.weight_layout import (
    POLICY,
    SUMMED_IN_ORDER,
    Inputs,
    Tower,
    WeightLayout,
    weight_layout,
)
from hpsearch.trainers.metrics import metric_names


@dataclass(frozen=True)
class EvaluationConfig:
    """How the players are measured while they train."""

    interval: Positive
    """steps between two evaluations"""
    num_games: Positive
    """games per opponent, during training"""
    final_num_games: Positive
    """games per opponent, at the end of training"""
    max_steps: Positive
    """moves after which a game counts as unfinished"""
    er: Annotated[float, Range(low=0.0, high=1.0)]
    """share of its moves that the sampled policy draws (DQN: among all legal actions alike, PPO: by
    their probabilities); the greedy one always plays what it holds best"""
    opponents: tuple[OpponentName, ...]
    """scripted players to measure against; a role meets those of the other role"""


@dataclass(frozen=True)
class Checkpointing:
    """When the state of training is written, and what training begins with."""

    interval: Positive
    """steps between two checkpoints"""
    seconds: Annotated[float | None, Range(low=0.0, open_low=True)]
    """seconds after which one is written all the same"""
    keep_last: Annotated[int, Range(low=2)]
    """checkpoints kept; one may be damaged by a crash, so at least two"""
    best: str | None
    """metric by which the best checkpoint is kept too"""
    resume: Literal["auto", "never", "must"]
    """go on from the newest checkpoint if there is one, never, or fail if there is none"""
    warm_start: str | None
    """path of a checkpoint whose networks training begins with"""


RewardName = Annotated[str, PartName(("terminal", "step_penalty", "points_removed"), ("rewards",))]


@dataclass(frozen=True)
class LearningRole:
    """What every role that learns says, whatever the algorithm."""

    encoder: Encoder
    """how points become features"""
    net_arch: tuple[Any, ...]
    """hidden layers: N of width N; norms b, l; residual blocks rN, rlN; or {repeat, net_arch}"""
    activation: Activation
    """after every layer of the encoder and the hidden layers"""
    optim: Optim
    """how gradients move the weights"""
    max_grad_norm: PositiveNumber
    """the gradient of a member is scaled down to this norm"""
    gamma: Rate
    """discount a move"""
    rollout_size: Positive
    """games played at once in which this role learns, B"""

    def check(self) -> Iterator[str]:
        yield from net_arch_faults("net_arch", self.net_arch)


PlayerConfig = LearningRole | ScriptedHost | ScriptedAgent | SavedPlayerConfig


PlaysBy = Literal["values", "probabilities"]


@dataclass(frozen=True)
class CommonConfig:
    """The fields that every algorithm has; each adds its roles and its own block.

    A step is ``rollout_length`` moves of every game, then updates.

    Attributes:
        plays_by: what the outputs of a role's first tower are: values, of which it takes the best
            action's, or an action's log-probability up to a constant.
    """

    plays_by: ClassVar[PlaysBy]

    algorithm: str
    """by which roles learn; each has its own keys"""
    seed: Annotated[int, Range(low=0), PER_MEMBER]
    """of initial weights, starts and exploration"""
    device: Literal["cpu", "cuda"]
    """on which it trains; cuda is a GPU"""
    precision: Literal["fp32", "tf32", "bf16"]
    """of the networks' products; weights, optimizer and game stay as they are"""
    compile: Literal["off", "default"]
    """whether torch.compile compiles the networks' pass in updates"""
    deterministic: bool
    """whether operations that may differ from run to run are avoided where there is a choice"""
    detect_anomaly: bool
    """whether the operation whose gradient became NaN is named; slows updates several times"""
    steps: MemberSteps
    """training steps in all"""
    end: Annotated[EndConfig, PER_MEMBER]
    """what ends training sooner; files that are older than this key are read as if nothing did"""
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
    """what a host earns: 1 for the last move, -1 for each, or the share of the points it removes"""
    rollout_length: Positive
    """moves of every game a step, T"""
    shards: Positive
    """equal parts of games, memories and batches, which ranks share out among them; files that are
    older than this key are read as 1"""
    rollouts: RolloutMode
    """where these games are played; files that are older than this key are read as inline"""
    opponents: OpponentPool | tuple[ListedOpponent, ...] | None
    """snapshots that two learning roles meet; or a list of players, of which each game draws one by
    their weights; none: each role meets the other one"""
    evaluation: EvaluationConfig
    checkpoint: Checkpointing
    monitor: MonitorConfig

    def players(self) -> Mapping[str, PlayerConfig | None]:
        """Return host and agent by name; None for one that ``opponents`` lists."""
        raise NotImplementedError

    def towers(self, role: str) -> tuple[Tower, ...]:
        """Return the towers of a learning role's network; it plays by the first."""
        raise NotImplementedError

    def rows_of_update(self, role: str) -> int:
        """Return the moves that one gradient of a learning role passes."""
        raise NotImplementedError

    def rows_learned(self, role: str) -> int:
        """Return the moves that gradients of a learning role pass in a step, repeats counted."""
        raise NotImplementedError

    def work(self) -> int:
        """Return how many multiplications a step's gradients take, up to a factor."""
        return sum(self.policy_size(name) * self.rows_learned(name) for name in self.learning())

    def largest_product(self) -> int:
        """Return how many multiplications the largest matrix product of an update takes."""
        return max(
            (
                self.rows_of_update(role) * prod(affine.shape)
                for role in self.learning()
                for affine in self.weight_layout(role).affines
            ),
            default=0,
        )

    def can_change_threads(self) -> bool:
        """Return whether training gives the same digits by any number of a CPU's threads."""
        is_plain = self.compile == "off" and self.precision != "bf16" and not self.detect_anomaly
        roles = self.learning()
        of_others = any(isinstance(role.encoder, EncoderExtension) for role in roles.values())
        shapes = [affine.shape for role in roles for affine in self.weight_layout(role).affines]
        is_in_order = max(map(max, shapes), default=0) <= SUMMED_IN_ORDER
        return self.device == "cpu" and is_plain and is_in_order and not of_others

    def changes_to_learn_alone(self, role: str) -> dict[str, Any]:
        """Return what must change, by top key, where the other role does not learn."""
        return {}

    def inputs(self, role: str) -> Inputs:
        """Return what a role sees: the points, and as an agent the host's subset."""
        return Inputs(self.max_num_points, self.dimension, self.dimension if role == "agent" else 0)

    def weight_layout(self, role: str) -> WeightLayout:
        """Return the layout of a learning role's weights; a KeyError if it does not learn."""
        return weight_layout(self.inputs(role), self.towers(role))

    def policy_size(self, role: str) -> int:
        """Return the number of weights of the tower by which a learning role plays.

        The value tower of an actor-critic plays no move and counts for nothing; the value of a
        dueling network is one more output of the tower that plays.
        """
        return sum(affine.size for affine in self.weight_layout(role).of_tower(POLICY))

    def learning(self) -> dict[str, LearningRole]:
        players = self.players().items()
        return {name: role for name, role in players if isinstance(role, LearningRole)}

    def listed_against(self, role: str) -> tuple[ListedOpponent, ...]:
        """Return those of a list of opponents that a learning role meets."""
        if not isinstance(self.opponents, tuple):
            return ()
        return tuple(
            opponent
            for opponent in self.opponents
            if not isinstance(opponent, ListedPlayer)
            or opponent.player == LEARNER
            or is_scripted(opponent.player, OTHER[role])
        )

    def snapshots(self) -> OpponentPool | None:
        """Return which snapshots of learning roles are met, None if none are."""
        if not isinstance(self.opponents, tuple):
            return self.opponents
        pools = (item.snapshots for item in self.opponents if isinstance(item, ListedSnapshots))
        return next(pools, None)

    def measured_against(self) -> dict[str, tuple[str, ...]]:
        """Return the scripted players that each learning role is measured against."""
        named = self.evaluation.opponents
        return {
            role: tuple(name for name in named if is_scripted(name, OTHER[role]))
            for role in self.learning()
        }

    def check(self) -> Iterator[str]:
        learning = self.learning()
        if not learning:
            yield "host or agent must learn, but neither does"
            return
        for name, role in learning.items():
            encoder, most = role.encoder, self.max_num_points
            if isinstance(encoder, FlattenEncoder) and encoder.num_points > most:
                rule = f"{name}.encoder.num_points must not exceed max_num_points={most}"
                yield f"{rule}, but is {encoder.num_points}"
        for name, opponents in self.measured_against().items():
            if not opponents:
                yield f"evaluation.opponents names no player that the {name} can meet"
        metrics = list(metric_names(self.measured_against()))
        best = self.checkpoint.best
        if best is not None and best not in metrics:
            yield f"checkpoint.best {unknown_fault('metric', best, metrics)}"
        for fault in self.end.faults(metrics):
            yield f"end.{fault}"
        yield from self._list_faults(learning)
        yield from self._pool_faults(learning)
        yield from self._shard_faults(learning)

    def to_play(self) -> Self:
        """Return the configuration of an actor, which plays as this one says and learns nothing."""
        assert isinstance(self.rollouts, ActorRollouts)
        return replace(self, device=self.rollouts.device, rollouts=InlineRollouts("inline"))

    def _shard_faults(self, learning: Mapping[str, LearningRole]) -> Iterator[str]:
        if isinstance(self.rollouts, ActorRollouts):
            actors, device = self.rollouts.actors, self.rollouts.device
            if self.shards % actors:
                yield f"rollouts.actors must divide shards={self.shards}, but is {actors}"
            if device == "cuda" and self.device != "cuda":
                yield (
                    f"rollouts.device must be cpu where device is {self.device}, as actors play on "
                    f"the GPUs of their learner's job, but is {device}"
                )
            if self.rollouts.gpus and self.monitor.hang_timeout is None:
                yield (
                    "monitor.hang_timeout must be a number of seconds where rollouts.sync_method "
                    "is nccl, which may wait for ever for a GPU that is lost, but is null"
                )
        pool = self.snapshots()
        at_once = 1 if pool is None else pool.at_once
        for name, role in learning.items():
            size = role.rollout_size
            if size // at_once % self.shards:
                rule = f"shards must divide {name}.rollout_size={size}"
                if at_once > 1:
                    rule += f" over opponents.at_once={at_once}"
                yield f"{rule}, but is {self.shards}"

    def _list_faults(self, learning: Mapping[str, LearningRole]) -> Iterator[str]:
        others = {name: player for name, player in self.players().items() if name not in learning}
        listed = self.opponents
        for name, player in others.items():
            if isinstance(listed, tuple) and player is not None:
                yield f"{name} must be null where opponents lists those that the other role meets"
            if not isinstance(listed, tuple) and player is None:
                yield (
                    f"{name} is null, so opponents must list those that the other role meets; "
                    f"write such a list, or a player as {name}"
                )
        if not isinstance(listed, tuple):
            return
        for name in learning:
            if not self.listed_against(name):
                yield f"opponents lists no player that the {name} can meet"
        scripts = Counter(item.player for item in listed if isinstance(item, ListedPlayer))
        paths = Counter(item.checkpoint for item in listed if isinstance(item, ListedCheckpoint))
        twice = [f"{script}" for script in sorted(scripts) if scripts[script] > 1]
        twice += [f"the checkpoint {path}" for path in sorted(paths) if paths[path] > 1]
        for name in twice:
            yield f"opponents must list {name} once, with the sum of its weights"
        met = {item for name in learning for item in self.listed_against(name)}
        for item in listed:
            if isinstance(item, ListedPlayer) and item not in met:
                yield f"opponents lists {item.player}, which no learning role can meet"
        if LEARNER in scripts and len(learning) < 2:
            yield f"opponents lists the {LEARNER}, but only one role learns"
        if sum(isinstance(item, ListedSnapshots) for item in listed) > 1:
            yield "opponents must list snapshots once"

    def _pool_faults(self, learning: Mapping[str, LearningRole]) -> Iterator[str]:
        pool = self.snapshots()
        if pool is None:
            return
        if len(learning) < 2:
            yield (
                "opponents holds snapshots of two learning roles, but only one learns; leave them "
                "out, or write null"
            )
        at_once = pool.at_once
        for name, role in learning.items():
            size = role.rollout_size
            if size % at_once:
                yield f"opponents.at_once must divide {name}.rollout_size={size}, but is {at_once}"


@dataclass(frozen=True)
class AlgorithmExtension(CommonConfig, ABC):
    """An algorithm of another package: what its configurations derive from."""

    KIND: ClassVar[Kind] = "algorithms"

    def can_change_threads(self) -> bool:
        return False  # its updates are unknown

    @abstractmethod
    def players(self) -> Mapping[str, PlayerConfig | None]: ...

    @abstractmethod
    def towers(self, role: str) -> tuple[Tower, ...]: ...

    @abstractmethod
    def rows_of_update(self, role: str) -> int: ...

    @abstractmethod
    def rows_learned(self, role: str) -> int: ...

    @abstractmethod
    def trainer(self) -> type[Any]:
        """Return the class, a `Trainer`, that trains by such configurations.

        It is imported here, as configurations are read where torch is not loaded.
        """
