"""The configuration of a trial: a trainer's, or that of any program that is run in its place."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from hpsearch.schema import (
    PER_MEMBER,
    Config,
    NonNegative,
    Positive,
    Range,
    read,
)
from hpsearch.trainers.config import TrainerConfig, read_config, shape_key

PROGRAM: Final = "program"  # in place of an algorithm's name
CONFIG, FOLDER = "{config}", "{folder}"
"""words of a command that stand for the trial's paths"""
SEED, STEPS = "seed", "steps"
"""what the file of parameters says beside them"""


@dataclass(frozen=True)
class ProgramConfig:
    """Any program as a trial, in place of a trainer."""

    command: tuple[str, ...]
    """program and arguments, run in the study file's folder; {config} stands for the path of the
    trial's parameters with its seed and steps, as JSON, and {folder} for that of the folder that is
    the program's own, with its metrics.jsonl"""
    parameters: Annotated[dict[str, Any], PER_MEMBER]
    """values by name, of which a space searches parameters.NAME"""
    steps: Positive
    """the last step, in the unit in which the program counts: epochs, updates, games"""
    algorithm: Literal["program"] = PROGRAM
    """always program"""
    seed: NonNegative = 0
    """of a trial, which the study sets"""
    interval: Positive = 1
    """steps between two lines of metrics.jsonl"""
    gpus: NonNegative = 0
    """GPUs of a job, which the programs that it runs at once share"""
    may_end_early: bool = False
    """whether exit code 0 before the last step is a good end, whose last values count; else the
    trial fails"""
    stop_seconds: Annotated[float, Range(low=0.0, high=300.0)] = 20.0
    """after SIGTERM, in which it may save its state before it is killed"""

    hang_timeout: Annotated[float, Range(low=0.0, open_low=True)] | None = None
    """seconds without a new line of metrics.jsonl after which it is ended as hung, and started
    again; null: it may be silent for ever"""

    def check(self) -> Iterator[str]:
        if not self.command:
            yield "command must name a program"
        elif not any(CONFIG in word or FOLDER in word for word in self.command):
            yield (
                f"command must pass {CONFIG} or {FOLDER} to the program, which finds its "
                f"parameters there, but is {' '.join(self.command)!r}"
            )
        for name in (SEED, STEPS):
            if name in self.parameters:
                yield f"parameters must not hold {name}, which each trial is given beside them"
        try:
            json.dumps(self.parameters, allow_nan=False)
        except (TypeError, ValueError) as error:
            yield f"parameters must be what JSON can hold, but {error}"
        if self.steps % self.interval:
            yield f"steps must be a multiple of interval={self.interval}, but is {self.steps}"

    def told(self) -> dict[str, Any]:
        """Return what the file of parameters holds."""
        return {**self.parameters, SEED: self.seed, STEPS: self.steps}


TrialConfig = TrainerConfig | ProgramConfig


def read_trial_config(data: object, *, source: str) -> TrialConfig:
    """Return the configuration that plain data holds; raises as `read_config`."""
    if is_program(data):
        return read(ProgramConfig, data, source=source)
    return read_config(data, source=source)


def is_program(data: object) -> bool:
    """Return whether plain data is the configuration of a program."""
    return isinstance(data, Mapping) and data.get("algorithm") == PROGRAM


def shape_of(config: TrialConfig) -> str:
    """Return the same for trials that can share a job, as `shape_key`: for any two programs."""
    return PROGRAM if isinstance(config, ProgramConfig) else shape_key(config)


def uses_gpu(config: Config) -> bool:
    """Return whether a plain configuration trains on a GPU."""
    return bool(config["gpus"]) if is_program(config) else bool(config["device"] == "cuda")


def interval_of(config: Config) -> int:
    """Return the steps between two evaluations of a plain configuration."""
    return int(config["interval"] if is_program(config) else config["evaluation"]["interval"])
