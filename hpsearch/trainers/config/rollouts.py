"""Where the games of training are played: by the process that learns, or by actors beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from hpsearch.schema import NonNegative, Positive, Range


@dataclass(frozen=True)
class InlineRollouts:
    """The process that learns plays too: moves, then updates, and so on."""

    mode: Literal["inline"]
    gpus: ClassVar = 0


@dataclass(frozen=True)
class ActorRollouts:
    """Processes that only play send what they have played; the learner learns meanwhile.

    Each plays with a version of the weights, which has the number of the step it was sent at.
    """

    mode: Literal["actors"]
    actors: Positive
    """processes that play for each rank, which share its shards out"""
    device: Literal["cpu", "cuda"]
    """on which they play"""
    sync_style: Literal["fixed", "dynamic_by_trainer", "dynamic_by_explorer"]
    """when actors get new weights: all wait for them together; or each gets them while it plays,
    after sync_interval steps of the trainer, or of its own (the explorer's)"""
    sync_interval: Positive
    """steps between two versions of the weights"""
    sync_method: Literal["memory", "checkpoint", "nccl"]
    """how weights travel: in memory that the processes share, in a file, or from the learner's GPU
    to each actor's own"""
    max_staleness: NonNegative
    """largest age of weights, in steps: what older ones have played is dropped"""
    sample_strategy: Literal["fifo", "uniform", "recent"]
    """which of an actor's waiting rollouts is learned from next: the oldest, any, or the newest, in
    front of which all others are dropped"""
    actor_timeout: Annotated[float, Range(low=0.0, open_low=True)]
    """seconds that the learner waits for an actor, which is then replaced"""

    @property
    def gpus(self) -> int:
        """Return how many GPUs a rank needs beside the learner's."""
        return self.actors if self.sync_method == "nccl" and self.device == "cuda" else 0

    def check(self) -> Iterator[str]:
        if self.sync_method == "nccl" and self.device == "cpu":
            yield (
                "sync_method must be memory or checkpoint where actors play on device cpu, as NCCL "
                "connects GPUs, but is nccl"
            )
        if self.sync_style == "fixed" and self.sample_strategy == "recent":
            yield (
                "sample_strategy must be fifo or uniform where sync_style is fixed, as the learner "
                "then learns from all that actors play, but is recent"
            )
        if self.max_staleness < self.sync_interval - 1:
            yield (
                f"max_staleness must be at least sync_interval={self.sync_interval} less 1, which "
                f"is how old weights become, but is {self.max_staleness}"
            )


RolloutMode = InlineRollouts | ActorRollouts
