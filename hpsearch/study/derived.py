"""Studies made of others, as files: `confirm` and `replay` train again, `breed` the best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import ceil, lcm
from pathlib import Path
from typing import Any, Final, NamedTuple

from hpsearch import files, yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, ConflictError, UsageError
from hpsearch.names import NAME_RULE, is_name
from hpsearch.parameters import CategoricalParameter, Parameter, is_plain, json_text
from hpsearch.population.operators import options as operators
from hpsearch.population.options import PopulationOptions, Schedule
from hpsearch.schema import Config, paths, to_plain, value_at
from hpsearch.study.breeding.checks import SHARED, explorable_of
from hpsearch.study.options import ListedOptions
from hpsearch.study.space import SearchSpace
from hpsearch.study.spec import Study, StudySpec, load_spec
from hpsearch.study.spec_checks import END, disagreements, value_problem
from hpsearch.trainers.config import GAME, TrainerConfig, read_config, shape_key
from hpsearch.trainers.config.ending import NEVER
from hpsearch.trainers.metrics import metric_names

HELD_OUT: Final = 1_000_000_000  # added to a study's seed, for seeds that no search has used
CONFIRM_SUFFIX: Final = "-confirm"
BRED_SUFFIX: Final = "-bred"
SEED: Final = "seed"  # the path that a search may search, too; what is held out overrules it


class DerivedKind(NamedTuple):
    name: str  # in messages
    is_one: Callable[[Study], bool]  # whether a study is of this kind
    remedy: str  # what to do where the folder belongs to another study


CONFIRMATION: Final = DerivedKind(
    "confirmation",
    lambda study: isinstance(study.spec.sampler, ListedOptions),
    f"a study is confirmed under its name and {CONFIRM_SUFFIX}, so search under another name",
)
REPLAY: Final = DerivedKind(
    "replay",
    lambda study: population_of(study) is not None,
    "move it away, or breed under another name",
)
BRED: Final = DerivedKind(
    "bred study",
    lambda study: study.spec.population is not None and bool(study.spec.population.founders),
    "give another name",
)


def derived_name(name: str, suffix: str, made: str) -> str:
    """Return the name of the study by which another one is ``made``; UsageError if it is none."""
    longer = f"{name}{suffix}"
    if not is_name(longer):
        raise UsageError(
            f"{name} is {made} by a study {longer}, but a name {NAME_RULE}; "
            "search under a shorter name"
        )
    return longer


def begun_derived(folder: StudyDir, kind: DerivedKind) -> Study | None:
    """Return the study begun in a folder, if any; ConfigError or ConflictError if it is wrong."""
    if folder.study_file.exists():
        study = load_spec(folder.study_file)
        if kind.is_one(study) and study.spec.name == folder.root.name:
            return study
    elif not folder.spec.exists():
        return None
    raise ConflictError(f"{folder.root} belongs to a study that is no {kind.name}; {kind.remedy}")


def inherited(study: Study, folder: StudyDir) -> dict[str, Any]:
    spec = study.spec
    # A path from the study's file is none from another one.
    on_slurm = [
        replace(executor, profile=str(study.profile_of(executor).absolute()))
        for executor in study.on_slurm
    ]
    where: dict[str, Any] = {"executor": to_plain(spec.executor)}
    if spec.executors:
        where = {"executors": to_plain(tuple(on_slurm))}
    elif on_slurm:
        where = {"executor": to_plain(on_slurm[0])}
    return {
        "name": folder.root.name,
        "seed": spec.seed + HELD_OUT,
        "storage": spec.storage,
        "objectives": to_plain(spec.objectives),
        "max_failures": spec.max_failures,
        **where,
    }


def write_derived(
    folder: StudyDir,
    plain: Mapping[str, Any],
    bases: Mapping[str, Config],
    *,
    command: str,
    what: str,
) -> Study:
    """Write and return a study with its base configurations, if any are to be written.

    ``plain`` is what its file says but for the bases; the file begins with the ``command`` that
    made it and a sentence ``what`` it is for. Of a study that would be wrong, a ConfigError, no
    file is left, so that it can be made anew.
    """
    names = {algorithm: folder.base(algorithm).name for algorithm in bases}
    for algorithm, base in bases.items():
        files.write_text(folder.base(algorithm), yaml_file.dump(base))
    if names:
        plain = {**plain, "base": names if len(names) > 1 else next(iter(names.values()))}
    order = [field.name for field in fields(StudySpec) if field.name in plain]
    text = yaml_file.dump({key: plain[key] for key in order})
    files.write_text(folder.study_file, f"# {command}\n#\n# {what}\n{text}")
    try:
        return load_spec(folder.study_file)
    except ConfigError:
        for path in (folder.study_file, *map(folder.base, bases)):
            path.unlink()
        raise


# Confirmations: chosen configurations of a search.


def key(values: Mapping[str, Any]) -> str:
    """Return a text that tells configurations apart, whatever their seed."""
    return json_text(_without_seed(values))


def configurations(study: Study) -> tuple[dict[str, Any], ...]:
    assert isinstance(study.spec.sampler, ListedOptions)
    return study.spec.sampler.configurations


def num_seeds(study: Study) -> int:
    return study.spec.budget.trials // len(configurations(study))


def write_confirmation(
    search: Study, chosen: Sequence[Mapping[str, Any]], seeds: int, folder: StudyDir
) -> Study:
    """Write the study of ``chosen`` on ``seeds`` each; UsageError if they differ in seeds alone."""
    left, name = _without_seed(search.spec.space), search.spec.name
    if not left or any(SEED in parameter.when for parameter in left.values()):
        raise UsageError(
            f"{name} searches the seed, and {'little else' if left else 'nothing else'}"
            ": there are no configurations to train on other seeds"
        )
    listed = [_without_seed(values) for values in chosen]
    plain = inherited(search, folder) | {
        "space": {path: to_plain(parameter) for path, parameter in left.items()},
        "sampler": {"name": "listed", "configurations": listed},
        "pruner": {"name": "none"},
        "budget": {"trials": len(chosen) * seeds},
    }
    return _write_confirmation(folder, plain, search.bases, name)


def with_more_seeds(study: Study, seeds: int, folder: StudyDir, search: str) -> Study:
    """Write and return a confirmation with more seeds; all else that a user changed stays."""
    plain = yaml_file.load(folder.study_file)
    plain["budget"]["trials"] = seeds * len(configurations(study))
    return _write_confirmation(folder, plain, {}, search)


def _write_confirmation(
    folder: StudyDir, plain: Mapping[str, Any], bases: Mapping[str, Config], search: str
) -> Study:
    what = f"The best configurations of {search} on held-out seeds."
    return write_derived(folder, plain, bases, command=f"hpsearch confirm {search}", what=what)


def _without_seed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != SEED}


# Replays: the schedule of a population's trial, which is the values of its hyperparameters by
# interval, on the line of first parents that led to it. The members are the schedule's seeds.


def population_of(study: Study) -> PopulationOptions | None:
    options = study.spec.population
    return options if options is not None and isinstance(options.explore, Schedule) else None


def write_replay(
    bred: Study, trial: int, schedule: Sequence[Mapping[str, Any]], seeds: int, folder: StudyDir
) -> Study:
    options, name = bred.spec.population, bred.spec.name
    assert options is not None, "a study with ancestry is a population"
    plain = inherited(bred, folder) | {
        "space": {path: to_plain(parameter) for path, parameter in bred.spec.space.items()},
        "sampler": {"name": "random"},
        "population": {
            "members": seeds,
            "interval": options.steps_of_schedule,
            # All wait for all: else the fast ones would train on, at the cost of the others.
            "generations": {"name": "synchronous", "quorum": 1.0},
            "matches": to_plain(options.matches),
            "selection": {"name": "none"},
            "explore": {"name": "schedule", "intervals": [dict(values) for values in schedule]},
            "operators": [{"name": "clone"}],
        },
        "budget": {"trials": len(schedule) * seeds},
    }
    command = f"hpsearch replay {name} --trial {trial}"
    what = f"The schedule that led to trial {trial} of {name} on held-out seeds."
    return write_derived(folder, plain, bred.bases, command=command, what=what)


# Populations that begin with the best of other studies.

MEMBERS: Final = 8
GENERATIONS: Final = 6
INTERVALS: Final = 10  # the first founder's training is divided into this many intervals
OWN_SEEDS: Final = HELD_OUT // 2  # added to the first study's seed: neither search nor confirmation
LEARNING: Final = operators.Distillation(
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
class BredSizes:
    """What a user may say of the population; None leaves it to what is usual."""

    members: int | None = None
    interval: int | None = None
    trials: int | None = None
    seed: int | None = None


def write_bred(
    folder: StudyDir,
    studies: Sequence[Study],
    founders: Sequence[BredFounder],
    numbers: BredSizes,
) -> Study:
    """Write and return a study that breeds founders.

    The first of the ``studies`` that were searched gives what belongs to no member; members begin
    with the ``founders``, their best, in that order. Raises ConflictError if the founders cannot be
    of one population; UsageError if the studies have nothing in common that could be searched, or
    an interval would not end with an evaluation.
    """
    configs = [read_config(founder.config, source=founder.name) for founder in founders]
    _check_founders(studies[0], founders, configs)
    names = [study.spec.name for study in studies]
    # Founders may have ended early; members train for whole intervals.
    bases = [founder.config | {END: NEVER} for founder in founders]
    space = common_space([study.spec.space for study in studies], bases)
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
        "population": {"members": members, "interval": _interval(configs, numbers.interval)}
        | _population(founders, configs),
        "budget": {"trials": numbers.trials or GENERATIONS * members},
    }
    command = f"hpsearch breed {' '.join(names)} --name {plain['name']}"
    what = f"The best of {' '.join(names)} as the founders of a population."
    base = {bases[0]["algorithm"]: bases[0]}
    return write_derived(folder, plain, base, command=command, what=what)


def _population(
    founders: Sequence[BredFounder], configs: Sequence[TrainerConfig]
) -> dict[str, Any]:
    has_both = len(configs[0].learning()) == 2
    both: list[operators.Changing] = [operators.HostAndAgent()] if has_both else []
    chosen: list[operators.OperatorOptions] = [
        operators.Clone(),
        *both,
        operators.GaussianMutation("gaussian_mutation", 0.02),
        operators.SafeMutation("safe_mutation", 0.1),
    ]
    if any(shape_key(before) != shape_key(other) for before, other in pairwise(configs)):
        chosen.append(operators.DistillationCrossover("distillation", LEARNING))
    closing: list[operators.Changing] = [
        *both,
        operators.LayerCrossover("layer_crossover", 0.5),
        operators.AlignedAverage("aligned_average", 0.5),
        operators.DistillationCrossover("distillation", TOGETHER),
    ]
    return {
        "founders": [str(founder.checkpoint) for founder in founders],
        "operators": [to_plain(operator) for operator in chosen],
        "closing": {"operators": [to_plain(operator) for operator in closing]},
    }


def _check_founders(
    first: Study, founders: Sequence[BredFounder], configs: Sequence[TrainerConfig]
) -> None:
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
    multiple = lcm(*(config.evaluation.interval for config in configs))
    if wanted is None:
        return ceil(configs[0].steps / INTERVALS / multiple) * multiple
    if wanted % multiple:
        raise UsageError(
            f"interval must be a multiple of {multiple}, after which all founders are evaluated, "
            f"but is {wanted}"
        )
    return wanted


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
    shared = {name for name in shared if name.partition(".")[0] != END}
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
    is_one_grid = not any(value_problem(wider, begin) for begin in (first.low, other.low))
    return wider if is_one_grid and not any(wider.check()) else None


def _with_values(parameter: Parameter, values: Sequence[Any]) -> Parameter:
    """Return a parameter whose choices hold these values too; a range stays what it is."""
    if not isinstance(parameter, CategoricalParameter):
        return parameter
    by_text = {json_text(choice): choice for choice in parameter.choices if is_plain(choice)}
    by_text |= {json_text(value): value for value in values if json_text(value) not in by_text}
    return replace(parameter, choices=tuple(by_text.values()))
