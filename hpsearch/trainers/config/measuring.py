"""How players are measured while they train, and when the state of training is written."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hpsearch.schema import Positive, Range
from hpsearch.trainers.config.players import OpponentName


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
