"""The configuration of REINFORCE: what a trainer file says. No torch is imported here."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from hpsearch.schema import PER_MEMBER, Range
from hpsearch.trainers.config import AlgorithmExtension, LearningRole
from hpsearch.trainers.config.common import PlayerConfig
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import SavedPlayerConfig, ScriptedAgent, ScriptedHost
from hpsearch.trainers.config.weight_layout import Tower, num_actions

if TYPE_CHECKING:
    from hpsearch_example.trainer import ReinforceTrainer


@dataclass(frozen=True)
class ReinforceConfig(AlgorithmExtension):
    """Everything that a ReinforceTrainer is built from."""

    plays_by = "probabilities"
    algorithm: Literal["reinforce"]
    host: LearningRole | ScriptedHost | SavedPlayerConfig | None
    """who chooses subsets; null: those that opponents lists"""
    agent: LearningRole | ScriptedAgent | SavedPlayerConfig | None
    """who chooses a coordinate of the subset; null: those that opponents lists"""
    ent_coef: Annotated[float, Range(low=0.0), PER_MEMBER]
    """weight of the policy's entropy"""

    def players(self) -> Mapping[str, PlayerConfig | None]:
        return {"host": self.host, "agent": self.agent}

    def towers(self, role: str) -> tuple[Tower, ...]:
        own = self.learning()[role]
        layers = parse(own.net_arch)
        return (Tower(own.encoder, layers, own.activation, num_actions(role, self.dimension)),)

    def rows_of_update(self, role: str) -> int:
        return self.learning()[role].rollout_size * self.rollout_length

    def rows_learned(self, role: str) -> int:
        return self.rows_of_update(role)

    def check(self) -> Iterator[str]:
        yield from super().check()
        if self.rollouts.mode == "actors":
            yield "rollouts.mode must be inline: what older policies played would mislead this one"

    def trainer(self) -> type["ReinforceTrainer"]:
        from hpsearch_example.trainer import ReinforceTrainer

        return ReinforceTrainer
