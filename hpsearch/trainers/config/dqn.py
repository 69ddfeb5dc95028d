"""The configuration of Q-learning."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, Self

from hpsearch.schema import NonNegative, Positive, Range
from hpsearch.trainers.config.common import CommonConfig, LearningRole, PlayerConfig
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.optim import (
    MemberSteps,
    PositiveNumber,
    PositiveRate,
    Rate,
    StepSchedule,
)
from hpsearch.trainers.config.players import SavedPlayerConfig, ScriptedAgent, ScriptedHost
from hpsearch.trainers.config.weight_layout import Tower, num_actions


@dataclass(frozen=True)
class DQNRole(LearningRole):
    """A role (host or agent) that learns by Q-learning."""

    batch_size: Positive
    """transitions an update"""
    er: Rate
    """exploration rate; the final value of er_schedule"""
    er_schedule: StepSchedule
    """how the exploration rate moves to er"""
    tau: PositiveRate
    """share of the weights that the target network takes over; 1 copies them"""
    steps_before_update_target: MemberSteps
    """steps between two updates of the target network"""
    huber_delta: PositiveNumber
    """temporal-difference error above which the loss is linear"""


@dataclass(frozen=True)
class PrioritisedReplay:
    """Transitions with a large error are sampled more often (Schaul et al., arXiv 1511.05952)."""

    alpha: Rate
    """power of the error by which a transition is drawn; 0 is uniform"""
    beta: Rate
    """power of the weight that corrects the bias, at step 0"""
    beta_steps: MemberSteps
    """steps until that power is 1"""
    eps: PositiveNumber
    """added to every error, so that no transition is forgotten"""


@dataclass(frozen=True)
class ReplayBufferConfig:
    """Transitions kept for learning."""

    buffer_size: Positive
    """transitions a member keeps; the oldest are overwritten"""
    save: bool
    """whether checkpoints hold the buffer; without it a resumed run is not bitwise the same"""
    prioritised: PrioritisedReplay | None
    """none: all transitions alike"""


@dataclass(frozen=True)
class DQNOptions:
    """What only Q-learning knows."""

    double: bool
    """the online network chooses the next action, the target network values it"""
    dueling: bool
    """the last layer gives the value of the position and each action's advantage over the mean"""
    n_step: Annotated[int, Range(low=1, high=100)]
    """rewards that a target sums before it bootstraps; never beyond the end of a game"""
    minimax: bool
    """a host's target takes the agent's worst reply instead of the one that was played"""


@dataclass(frozen=True)
class DQNConfig(CommonConfig):
    """Everything that a DQNTrainer is built from."""

    plays_by = "values"
    algorithm: Literal["dqn"]
    updates_per_step: Positive
    """gradient updates a step"""
    learning_starts: NonNegative
    """steps before the first update; batch norms follow what they see from the start"""
    host: DQNRole | ScriptedHost | SavedPlayerConfig | None
    """who chooses subsets; null: those that opponents lists"""
    agent: DQNRole | ScriptedAgent | SavedPlayerConfig | None
    """who chooses a coordinate of the subset; null: those that opponents lists"""
    replay_buffer: ReplayBufferConfig
    dqn: DQNOptions

    def players(self) -> Mapping[str, PlayerConfig | None]:
        return {"host": self.host, "agent": self.agent}

    def towers(self, role: str) -> tuple[Tower, ...]:
        learner = self.learning()[role]
        return (
            Tower(
                encoder=learner.encoder,
                layers=parse(learner.net_arch),
                activation=learner.activation,
                num_outputs=num_actions(role, self.dimension),
                dueling=self.dqn.dueling,
            ),
        )

    def rows_of_update(self, role: str) -> int:
        learner = self.learning()[role]
        assert isinstance(learner, DQNRole)
        return learner.batch_size

    def rows_learned(self, role: str) -> int:
        return self.rows_of_update(role) * self.updates_per_step

    def changes_to_learn_alone(self, role: str) -> dict[str, Any]:
        # Minimax is a target for hosts.
        return {"dqn": asdict(self.dqn) | {"minimax": self.dqn.minimax and role == "host"}}

    def check(self) -> Iterator[str]:
        yield from super().check()
        most = max((role.rollout_size for role in self.learning().values()), default=0)
        if most > self.replay_buffer.buffer_size:
            yield (
                "replay_buffer.buffer_size must hold the transitions of one move of every "
                f"game, rollout_size={most}"
            )
        sizes = {"replay_buffer.buffer_size": self.replay_buffer.buffer_size}
        for name, role in self.learning().items():
            assert isinstance(role, DQNRole)
            sizes[f"{name}.batch_size"] = role.batch_size
        for path, size in sizes.items():
            if size % self.shards:
                yield f"shards must divide {path}={size}, but is {self.shards}"
        if self.dqn.minimax and self.dqn.n_step > 1:
            n_step = self.dqn.n_step
            yield f"dqn.minimax looks one move ahead, so dqn.n_step must be 1, but is {n_step}"
        if self.max_steps == 1 and any(map(self._needs_next, self.learning())):
            yield (
                f"max_steps must be at least 2, but is {self.max_steps}: Q-learning cannot learn "
                "from a game's last allowed move"
            )
        if self.dqn.minimax and "host" not in self.learning():
            yield "dqn.minimax is a target for hosts, but the host does not learn"

    def to_play(self) -> Self:
        config = super().to_play()
        # One move of every game: an actor remembers nothing.
        size = max(role.rollout_size for role in self.learning().values())
        memory = replace(self.replay_buffer, buffer_size=size, prioritised=None)
        return replace(config, replay_buffer=memory)

    def _needs_next(self, name: str) -> bool:
        """Return whether a role's targets ask for the position to which a move led."""
        return self.learning()[name].gamma > 0 and not (self.dqn.minimax and name == "host")
