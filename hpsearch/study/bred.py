"""Studies that `breed` makes: a population that begins with the best of other studies.

Its space is what their search spaces have in common.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, lcm
from pathlib import Path
from typing import Any, Final

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, UsageError
from hpsearch.parameters import (
    CategoricalParameter,
    Parameter,
    is_plain,
    json_text,
)
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
from hpsearch.schema import Config, paths, to_plain, value_at
from hpsearch.study.breeding.checks import SHARED, explorable_of
from hpsearch.study.derived import HELD_OUT, Kind, inherited, write_derived
from hpsearch.study.space import SearchSpace
from hpsearch.study.spec import Study
from hpsearch.study.spec_checks import disagreements
from hpsearch.trainers.config import GAME, TrainerConfig, read_config, shape_key
from hpsearch.trainers.metrics import metric_names


def common_space(
    spaces: Sequence[Mapping[str, Parameter]], founders: Sequence[Config]
) -> dict[str, Parameter]:
    """Return the parameters that all spaces search, all founders have, and members may differ in.

    Ranges are joined, so that they hold what every founder has learned by. No condition is left:
    where a parameter exists is decided by what members inherit. ``founders`` are complete trainer
    configurations.
    """
    switches = {
        parent for space in spaces for parameter in space.values() for parent in parameter.when
    }
    shared = set(spaces[0]).intersection(*spaces, *(paths(config) for config in founders))
    common = {}
    for name in sorted(shared - switches - {*SHARED, *GAME}):
        joined = _joined([space[name] for space in spaces])
        if joined is not None:
            common[name] = _with_values(joined, [value_at(config, name) for config in founders])
    for config in founders:
        common = explorable_of(config, SearchSpace(common))
    return {name: common[name] for name in sorted(common)}


def _joined(same: Sequence[Parameter]) -> Parameter | None:
    """Return a parameter with all ranges in its own, None where they do not fit together."""
    joined: Parameter | None = replace(same[0], when={})
    for other in same[1:]:
        joined = None if joined is None else _with_range(joined, other)
    return joined


def _with_range(first: Parameter, other: Parameter) -> Parameter | None:
    if isinstance(first, CategoricalParameter) and isinstance(other, CategoricalParameter):
        return _with_values(first, list(other.choices))
    if isinstance(first, CategoricalParameter) or isinstance(other, CategoricalParameter):
        return None
    if (first.type, first.log, first.step) != (other.type, other.log, other.step):
        return None  # their values lie on different scales
    low: Any = min(first.low, other.low)
    high: Any = max(first.high, other.high)
    wider = replace(first, low=low, high=high)
    return None if any(wider.check()) else wider


def _with_values(parameter: Parameter, values: Sequence[Any]) -> Parameter:
    """Return a parameter whose choices hold these values too; a range stays what it is."""
    if not isinstance(parameter, CategoricalParameter):
        return parameter
    by_text = {json_text(choice): choice for choice in parameter.choices if is_plain(choice)}
    by_text |= {json_text(value): value for value in values if json_text(value) not in by_text}
    return replace(parameter, choices=tuple(by_text.values()))


BRED_SUFFIX: Final = "-bred"
MEMBERS: Final = 8
GENERATIONS: Final = 6
INTERVALS: Final = 10  # of which a whole training of the first founder would consist
OWN_SEEDS: Final = HELD_OUT // 2
"""added to the first study's seed: neither it nor its confirmation has a seed of the population"""
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
"""of a member that is replaced by one of another shape, and trains on"""
TOGETHER: Final = replace(LEARNING, num_steps=500, lr=3e-4, temperature=0.03, compare="mean")
"""of the closing; as in tests/benchmarks/breeding.py"""


@dataclass(frozen=True)
class BredFounder:
    study: str
    trial: int
    checkpoint: Path  # absolute
    config: Config  # the complete trainer configuration that it was trained by

    @property
    def name(self) -> str:
        return f"{self.study}/{self.trial}"


@dataclass(frozen=True)
class Numbers:
    """What a user may say of the population; None leaves it to what is usual."""

    members: int | None = None
    interval: int | None = None
    trials: int | None = None
    seed: int | None = None


BRED: Final = Kind(
    "bred study",
    lambda study: study.spec.population is not None and bool(study.spec.population.founders),
    "give --name another name",
)


def write_bred(
    folder: StudyDir, studies: Sequence[Study], founders: Sequence[BredFounder], numbers: Numbers
) -> Study:
    """Write and return a study that breeds founders.

    The first of the ``studies`` that were searched gives what belongs to no member; members begin
    with the ``founders``, their best, in that order.

    Raises:
        ConflictError: if the founders cannot be of one population.
        UsageError: if the studies have nothing in common that could be searched, or an interval
            would not end with an evaluation.
        ConfigError: if the studies' files do not make a right one.
        DiskError: if a file cannot be written.
    """
    configs = [read_config(founder.config, source=founder.name) for founder in founders]
    _check_founders(studies[0], founders, configs)
    names = [study.spec.name for study in studies]
    space = common_space(
        [study.spec.space for study in studies], [founder.config for founder in founders]
    )
    if not space:
        raise UsageError(
            f"{', '.join(names)} have no hyperparameter in common in which members may differ, so "
            "there is nothing to change from parent to child; write a study file of your own with "
            "population.founders"
        )
    members = numbers.members or max(MEMBERS, len(studies))
    first_seed = studies[0].spec.seed + OWN_SEEDS
    plain = inherited(studies[0], folder) | {
        "seed": first_seed if numbers.seed is None else numbers.seed,
        "space": {path: to_plain(parameter) for path, parameter in space.items()},
        "sampler": {"name": "random"},
        "population": _population(founders, configs, members, numbers.interval),
        "budget": {"trials": numbers.trials or GENERATIONS * members},
    }
    base = founders[0].config
    command = f"hpsearch breed {' '.join(names)} --name {plain['name']}"
    what = f"The best of {' '.join(names)} as the founders of a population."
    return write_derived(folder, plain, {base["algorithm"]: base}, command=command, what=what)


def _population(
    founders: Sequence[BredFounder],
    configs: Sequence[TrainerConfig],
    members: int,
    interval: int | None,
) -> dict[str, Any]:
    has_both = len(configs[0].learning()) == 2
    both: list[Changing] = [HostAndAgent()] if has_both else []
    operators: list[OperatorOptions] = [
        Clone(),
        *both,
        GaussianMutation("gaussian_mutation", 0.02),
        SafeMutation("safe_mutation", 0.1),
    ]
    if any(shape_key(before) != shape_key(other) for before, other in pairwise(configs)):
        operators.append(DistillationCrossover("distillation", LEARNING))
    closing: list[Changing] = [
        *both,
        LayerCrossover("layer_crossover", 0.5),
        AlignedAverage("aligned_average", 0.5),
        DistillationCrossover("distillation", TOGETHER),
    ]
    return {
        "members": members,
        "interval": _interval(configs, interval),
        "founders": [str(founder.checkpoint) for founder in founders],
        "operators": [to_plain(operator) for operator in operators],
        "closing": {"operators": [to_plain(operator) for operator in closing]},
    }


def _check_founders(
    first: Study, founders: Sequence[BredFounder], configs: Sequence[TrainerConfig]
) -> None:
    """Refuse founders that do not play one game in the same roles, measured by the same."""
    problems: list[str] = []
    for founder, config in zip(founders, configs, strict=True):
        problems += disagreements(founder.name, config, configs[0])
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
    """Return the steps of an interval, which ends with an evaluation by the job that trains it."""
    multiple = lcm(*(config.evaluation.interval for config in configs))
    if wanted is None:
        return ceil(configs[0].steps / INTERVALS / multiple) * multiple
    if wanted % multiple:
        raise UsageError(
            f"--interval must be a multiple of {multiple}, after which all founders are evaluated, "
            f"but is {wanted}"
        )
    return wanted
