"""The study that breeds what other studies have found: a population that begins with their best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, lcm
from pathlib import Path
from typing import Any, Final

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.config_paths import Config
from hpsearch.errors import ConflictError, UsageError
from hpsearch.plain import to_plain
from hpsearch.population.operators.options import (
    AlignedAverage,
    Changing,
    Clone,
    Distillation,
    DistillationCrossover,
    GaussianMutation,
    HostAndAgent,
    LayerCrossover,
    OperatorOptions,
    SafeMutation,
)
from hpsearch.study.common_space import common_space
from hpsearch.study.derived import (
    HELD_OUT,
    begun_derived,
    executor_from_anywhere,
    write_bases,
    write_derived,
)
from hpsearch.study.founders import disagreements
from hpsearch.study.spec import Study
from hpsearch.trainers.config import TrainerConfig, read_config, shape_key
from hpsearch.trainers.metrics import metric_names

SUFFIX: Final = "-bred"
MEMBERS: Final = 8
GENERATIONS: Final = 6
INTERVALS: Final = 10
"""of which a whole training of the first founder would consist"""
OWN_SEEDS: Final = HELD_OUT // 2
"""what the first study's seed is raised by, so that neither it nor what confirms it has a seed of
the population"""
LEARNING: Final = Distillation(
    num_steps=200,
    batch_size=256,
    lr=1e-3,
    beta1=0.9,
    beta2=0.999,
    eps=1e-8,
    temperature=0.1,
    value_weight=0.5,
    compare="standardised",  # founders may have learned by other rewards and discounts
)
"""of who gives way to a member of another shape, and trains on"""
TOGETHER: Final = replace(LEARNING, num_steps=500, lr=3e-4, temperature=0.03, compare="mean")
"""of the closing; as in tests/benchmarks/breeding.py"""


@dataclass(frozen=True)
class Founder:
    """A checkpoint with which members begin."""

    study: str
    trial: int
    checkpoint: Path
    """absolute"""
    config: Config
    """the complete trainer configuration that it was trained by"""

    @property
    def name(self) -> str:
        """Return what messages call it."""
        return f"{self.study}/{self.trial}"


@dataclass(frozen=True)
class Numbers:
    """What a user may say of the population; None leaves it to what is usual."""

    members: int | None = None
    interval: int | None = None
    trials: int | None = None
    seed: int | None = None


def begun_bred(folder: StudyDir) -> Study | None:
    """Return the bred study that was begun in ``folder``, None if none was.

    Raises:
        ConfigError: if its file was changed and is wrong now.
        ConflictError: if the folder belongs to another study.
    """
    return begun_derived(folder, _is_bred, kind="bred study", remedy="give --name another name")


def plan_bred(
    name: str, studies: Sequence[Study], founders: Sequence[Founder], numbers: Numbers
) -> dict[str, Any]:
    """Return what the file of a study says that breeds founders, but for its base.

    Args:
        name: its own.
        studies: that were searched; the first gives what belongs to no member.
        founders: their best, in the order in which members begin with them.
        numbers: that a user has named.

    Raises:
        ConflictError: if the founders cannot be of one population.
        UsageError: if the studies have nothing in common that could be searched, or an interval
            would not end with an evaluation.
    """
    configs = [read_config(one.config, source=one.name) for one in founders]
    first = studies[0].spec
    _check_founders(studies[0], founders, configs)
    space = common_space(
        [one.spec.space for one in studies], [founder.config for founder in founders]
    )
    if not space:
        raise UsageError(
            f"{', '.join(one.spec.name for one in studies)} have no hyperparameter in common in "
            "which members may differ, so there is nothing to change from parent to child; write a "
            "study file of your own with population.founders"
        )
    members = numbers.members or max(MEMBERS, len(studies))
    return {
        "name": name,
        "seed": first.seed + OWN_SEEDS if numbers.seed is None else numbers.seed,
        "storage": first.storage,
        "objectives": to_plain(first.objectives),
        "space": {path: to_plain(one) for path, one in space.items()},
        "sampler": {"name": "random"},
        "population": {
            "members": members,
            "interval": _interval(configs, numbers.interval),
            "founders": [str(one.checkpoint) for one in founders],
            "operators": [to_plain(one) for one in _operators(configs)],
            "closing": {"operators": [to_plain(one) for one in _closing_operators(configs)]},
        },
        "budget": {"trials": numbers.trials or GENERATIONS * members},
        "max_failures": first.max_failures,
        "executor": executor_from_anywhere(studies[0]),
    }


def write_bred(folder: StudyDir, plain: Mapping[str, Any], studies: str, base: Config) -> Study:
    """Write and return the study; ``studies`` are the names of those whose best it breeds.

    Raises:
        ConfigError: if the studies' files do not make a right one.
        DiskError: if a file cannot be written.
    """
    (name,) = write_bases(folder, {base["algorithm"]: base}).values()
    command = f"hpsearch breed {studies} --name {plain['name']}"
    what = f"The best of {studies} as the founders of a population."
    return write_derived(folder, {**plain, "base": name}, command=command, what=what)


def _is_bred(study: Study) -> bool:
    return study.spec.population is not None and bool(study.spec.population.founders)


def _check_founders(
    first: Study, founders: Sequence[Founder], configs: Sequence[TrainerConfig]
) -> None:
    """Refuse founders that do not play one game in the same roles, measured by the same."""
    problems = [
        problem
        for founder, config in zip(founders, configs, strict=True)
        for problem in disagreements(founder.name, config, configs[0])
    ]
    for founder, config in zip(founders, configs, strict=True):
        measured = set(metric_names(config.measured_against()))
        problems += [
            f"{founder.name} does not measure {objective.metric}, the objective of "
            f"{first.spec.name}"
            for objective in first.spec.objectives
            if objective.metric not in measured
        ]
    if problems:
        raise ConflictError(
            f"not all can be members of one population: {'; '.join(problems)}; "
            "breed studies of one game, whose trials learn and measure the same"
        )


def _interval(configs: Sequence[TrainerConfig], wanted: int | None) -> int:
    """Return the steps of an interval, which ends with an evaluation of whoever trains it."""
    multiple = lcm(*(config.evaluation.interval for config in configs))
    if wanted is None:
        return ceil(configs[0].steps / INTERVALS / multiple) * multiple
    if wanted % multiple:
        raise UsageError(
            f"--interval must be a multiple of {multiple}, after which all founders are evaluated, "
            f"but is {wanted}"
        )
    return wanted


def _operators(configs: Sequence[TrainerConfig]) -> list[OperatorOptions]:
    found: list[OperatorOptions] = [Clone()]
    if len(configs[0].learning()) == 2:
        found.append(HostAndAgent())
    found.append(GaussianMutation("gaussian_mutation", 0.02))
    found.append(SafeMutation("safe_mutation", 0.1))
    if any(shape_key(one) != shape_key(other) for one, other in pairwise(configs)):
        found.append(DistillationCrossover("distillation", LEARNING))
    return found


def _closing_operators(configs: Sequence[TrainerConfig]) -> list[Changing]:
    found: list[Changing] = []
    if len(configs[0].learning()) == 2:
        found.append(HostAndAgent())
    found.append(LayerCrossover("layer_crossover", 0.5))
    found.append(AlignedAverage("aligned_average", 0.5))
    found.append(DistillationCrossover("distillation", TOGETHER))
    return found
