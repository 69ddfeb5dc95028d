"""What can be wrong in a study file, its search space and its bases, beyond the type of values."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from itertools import product
from pathlib import Path
from typing import Any

from hpsearch.errors import ConfigError, CorruptError, DiskError, shown, unknown_name
from hpsearch.files import read_json
from hpsearch.names import NAME_RULE, is_name, proposed_name
from hpsearch.parameters import (
    CategoricalParameter,
    FloatParameter,
    IntParameter,
    Parameter,
    is_plain,
    json_text,
)
from hpsearch.population.options import Schedule
from hpsearch.programs.config import ProgramConfig, is_program, read_trial_config, uses_gpu
from hpsearch.schema import Config, apply, paths, to_plain
from hpsearch.study import options
from hpsearch.study.space import ALGORITHM, SearchSpace, point_of, wanted_values
from hpsearch.study.url import FROM_ENVIRONMENT, password, url_problem
from hpsearch.trainers.checkpoint_name import STATE, step_of
from hpsearch.trainers.config import GAME, TrainerConfig, read_config
from hpsearch.trainers.config.ending import NEVER
from hpsearch.trainers.metrics import metric_names

WHO_PLAYS = frozenset({"host", "agent", "evaluation.opponents"})
"""paths of a trainer configuration that decide what is measured"""

DEVICE, GPU = "device", "cuda"  # key of a trainer configuration, and its value for a GPU
SHARDS, END = "shards", "end"  # keys of a trainer configuration


def section_problems(sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of the sections that could be read, those between two of them included."""
    name, storage = sections.get("name"), sections.get("storage")
    objectives, sampler = sections.get("objectives"), sections.get("sampler")
    if name is not None and not is_name(name):
        yield f"name {NAME_RULE}, but is {name!r}; {proposed_name(name)} would do"
    if storage is not None:
        yield from _storage_problems(storage)
    if objectives is not None:
        yield from _objective_problems(objectives, sections.get("pruner"), sampler)
    if isinstance(sampler, options.GridOptions):
        for path, parameter in sections.get("space", {}).items():
            if parameter.num_values() is None:
                yield (
                    f"space.{path} must have a step (or be categorical) for the grid sampler, "
                    f"but is continuous"
                )


def trainer_problems(
    objectives: tuple[Any, ...], space: Mapping[str, Parameter], bases: Mapping[str, Config]
) -> Iterator[str]:
    """Yield the objectives that a base does not measure, and bases that would not go on."""
    for algorithm, base in bases.items():
        if is_program(base):  # what it measures is known when it has
            continue
        measured = set(metric_names(read_config(base, source="").measured_against()))
        # Where who plays is itself searched, a trial that does not measure them fails by itself.
        for index, objective in enumerate(objectives if WHO_PLAYS.isdisjoint(space) else ()):
            if objective.metric.strip() and objective.metric not in measured:
                yield (
                    f"objectives[{index}].metric is measured by no trial of the {algorithm} base: "
                    f"{unknown_name('metric', objective.metric, measured)}; "
                    f"the base's evaluation.opponents decides which there are"
                )
        resume = base["checkpoint"]["resume"]
        if resume != "auto":
            yield (
                f"base must say checkpoint.resume: auto, since a study decides itself when a trial "
                f"goes on, but the {algorithm} base says {resume}"
            )


def use_gpus(configs: Sequence[Config], space: Mapping[str, Parameter]) -> bool:
    searched = space.get(DEVICE)
    choices = searched.choices if isinstance(searched, CategoricalParameter) else ()
    return GPU in choices or any(map(uses_gpu, configs))


def gpus_per_rank(configs: Sequence[Config], space: Mapping[str, Parameter]) -> int:
    if not use_gpus(configs, space):
        return 0
    trials = [read_trial_config(config, source="") for config in configs]
    return max(
        trial.gpus if isinstance(trial, ProgramConfig) else 1 + trial.rollouts.gpus
        for trial in trials
    )


def gpu_problems(
    executor: Any, configs: Sequence[Config], space: Mapping[str, Parameter]
) -> Iterator[str]:
    if not isinstance(executor, options.LocalOptions) or executor.gpus_per_job is None:
        return
    asked, ranks, each = executor.gpus_per_job, executor.ranks, gpus_per_rank(configs, space)
    if any(map(is_program, configs)):
        if asked < each:
            yield (
                f"executor.gpus_per_job must be {each} or more, as gpus of base says, but is "
                f"{asked}; leave it out, or lower gpus"
            )
        return
    if each and (asked < ranks * each or asked % ranks):
        rule = f"{each} or more" if ranks == 1 else f"a multiple of executor.ranks={ranks}"
        if each > 1:
            rule += f", with {each} for each rank, as weights go to actors by NCCL,"
        yield (
            f"executor.gpus_per_job must be {rule} where trials train on device cuda, but is "
            f"{asked}; leave it out, or set device: cpu"
        )


def rank_problems(
    key: str, ranks: int, configs: Sequence[Config], space: Mapping[str, Parameter]
) -> Iterator[str]:
    if any(map(is_program, configs)):
        if ranks > 1:
            yield (
                f"{key} must be 1 where a program is run, which starts further processes itself, "
                f"but is {ranks}"
            )
        return
    numbers: list[int] | None
    match space.get(SHARDS):
        case CategoricalParameter(choices=choices):
            numbers = [choice for choice in choices if isinstance(choice, int)]
        case IntParameter(low=low, high=high, step=step):  # if two do, all others do
            numbers = [*range(low, high + 1, step)[:2]]
        case _:
            numbers = None  # each base has its own
    pairs = {
        (number, config.get("rollouts", {}).get("actors", 1))
        for config in configs
        # Bases of older studies are from before this key.
        for number in numbers or [config.get(SHARDS, 1)]
    }
    if wrong := sorted(number for number, _ in pairs if number % ranks):
        yield (
            f"{key} must divide the trainer's key shards={wrong[0]}, but is {ranks}; "
            "write a multiple of it there"
        )
        return
    for number, actors in sorted(pairs):
        if number % (ranks * actors):
            yield (
                f"{key}={ranks} times the trainer's rollouts.actors={actors} must divide "
                f"its key shards={number}; write a multiple of {ranks * actors} there"
            )
            return


def _unmeasured(where: str, config: TrainerConfig, sections: Mapping[str, Any]) -> Iterator[str]:
    """Yield the objectives that members of a founder would not measure."""
    measured = set(metric_names(config.measured_against()))
    searches_players = not WHO_PLAYS.isdisjoint(sections.get("space", {}))
    for objective in () if searches_players else sections.get("objectives", ()):
        if objective.metric.strip() and objective.metric not in measured:
            yield (
                f"{where} does not measure {objective.metric}, an objective of the study: "
                f"{unknown_name('metric', objective.metric, measured)}; name a founder that does"
            )


def read_founders(
    sections: Mapping[str, Any], folder: Path, problems: list[str]
) -> tuple[Config, ...]:
    """Return the configurations of the founders; faults are added to ``problems``."""
    population = sections.get("population")
    if population is None or not population.founders:
        return ()
    founders: list[Config] = []
    configs: list[TrainerConfig] = []
    for index, name in enumerate(population.founders):
        where, path = f"population.founders[{index}]", folder / name
        try:
            step_of(name)
            data = read_json(path / STATE)
            if data is None:
                problems.append(f"{where} names no checkpoint: there is no {path / STATE}")
                continue
            config = read_config(data["config"], source=str(path))
        except (ValueError, TypeError, KeyError, CorruptError, DiskError) as error:
            problems.append(f"{where} is no checkpoint: {error}")
            continue
        except ConfigError as error:
            problems += [f"{where} {path}: {problem}" for problem in error.problems]
            continue
        own = to_plain(data["config"])
        # Whatever the founder did, its members go on from their own checkpoints.
        own["checkpoint"] |= {"resume": "auto", "warm_start": None}
        # It may have ended early; members that begin with it train for whole intervals.
        founders.append(own | {END: NEVER} if END in own else own)
        configs.append(config)
        problems += disagreements(where, config, configs[0])
        problems += _unmeasured(where, config, sections)
        known, parameters = set(paths(founders[-1])), sections.get("space", {})
        missing = [searched for searched in parameters if searched not in known]
        problems += [f"{where} has no {searched}, which the space searches" for searched in missing]
        # A schedule says itself by what values all members learn.
        begins = not isinstance(population.explore, Schedule)
        if begins and not (missing or any(condition_problems(parameters))):
            try:
                point_of(SearchSpace(parameters), founders[-1])
            except ValueError as error:
                problems.append(f"{where} cannot begin in this space: its {error}")
    return tuple(founders)


def disagreements(where: str, config: TrainerConfig, first: TrainerConfig) -> Iterator[str]:
    own, others = to_plain(config), to_plain(first)
    for key in GAME:
        if own[key] != others[key]:
            yield (
                f"{where} plays another game than the first founder: {key} is {own[key]!r}, not "
                f"{others[key]!r}"
            )
    if config.learning().keys() != first.learning().keys():
        yield (
            f"{where} learned {', '.join(config.learning())}, but the first founder "
            f"{', '.join(first.learning())}; all members must learn the same roles"
        )


def _storage_problems(storage: str) -> Iterator[str]:
    if storage.startswith(FROM_ENVIRONMENT):
        variable = storage.removeprefix(FROM_ENVIRONMENT)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
            yield (
                f"storage must be env: and the name of an environment variable, "
                f"but the name is {variable!r}"
            )
    elif password(storage):
        yield (
            "storage must not hold a password; put the URL into an environment variable "
            "and write its name, such as storage: env:HPSEARCH_STORAGE"
        )
    elif problem := url_problem(storage):
        yield f"storage {problem}, or env: and the name of an environment variable"


def _objective_problems(
    objectives: tuple[Any, ...], pruner: options.Pruner | None, sampler: options.Sampler | None
) -> Iterator[str]:
    if not objectives:
        yield "objectives must name at least one metric"
    metrics = [objective.metric for objective in objectives]
    for index, metric in enumerate(metrics):
        if not metric.strip():
            yield f"objectives[{index}].metric must not be empty"
        elif metric in metrics[:index]:
            yield f"objectives[{index}].metric {metric!r} stands twice"
    if len(objectives) > 1 and not isinstance(pruner, options.NoPruning | None):
        yield (
            f"pruner must be none for more than one objective, but is {pruner.name}, "
            f"which compares trials by a single value"
        )
    if len(objectives) > 1 and isinstance(sampler, options.CMAESOptions):
        yield "sampler must not be cmaes for more than one objective; tpe and gp take several"


# The search space. Choices of a categorical parameter are compared as text: 1 is not true.


def condition_problems(parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """Yield every condition that names no value of a categorical parameter, and every circle."""
    for name, parameter in parameters.items():
        for parent_name, wanted in parameter.when.items():
            path = f"space.{name}.when.{parent_name}"
            parent = parameters.get(parent_name)
            if parent is None:
                yield f"{path} names an {unknown_name('parameter', parent_name, parameters)}"
            elif not isinstance(parent, CategoricalParameter):
                yield f"{path} must name a categorical parameter, but it is of type {parent.type}"
            else:
                yield from _condition_problems(path, parent, wanted)
    try:
        needed = {name: parameters[name].when.keys() for name in parameters}
        TopologicalSorter(needed).prepare()
    except CycleError as error:
        circle = reversed(error.args[1])  # it names each before those that need it
        yield f"space has conditions in a circle: {' needs '.join(circle)}; drop one when"


def base_problems(space: SearchSpace, bases: Mapping[str, Config]) -> Iterator[str]:
    seen = set()
    for name, algorithm in product((name for name in space.order if name != ALGORITHM), bases):
        for problem in _parameter_problems(space, name, algorithm, bases[algorithm]):
            if problem not in seen:
                yield problem
            seen.add(problem)


def unread_problems(
    names: Iterable[str], bases: Sequence[Config], faults: Sequence[str]
) -> Iterator[str]:
    """Yield the parameters that no base has, where nothing else could be checked.

    ``names`` or their bases are wrong; paths of ``faults``, which say so already, are left out.
    """
    names = [name for name in names if name != ALGORITHM]
    known = {path for base in bases for path in paths(base)}
    at_fault = {fault.partition(" ")[0] for fault in faults}
    for name in names:
        # The choices of a parameter above it may bring it along.
        above = {name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)}
        if name not in known and above.isdisjoint(names) and at_fault.isdisjoint({name, *above}):
            algorithms = {str(base.get(ALGORITHM, "given")) for base in bases}
            yield _unknown_path(name, " or ".join(sorted(algorithms)), known, searched=False)


def algorithm_problems(
    parameters: Mapping[str, Parameter], bases: Mapping[str, Config]
) -> Iterator[str]:
    parameter = parameters.get(ALGORITHM)
    if parameter is None:
        if len(bases) > 1:
            yield (
                f"base names the algorithms {', '.join(bases)}, but space does not search "
                f"algorithm; give base one path"
            )
        return
    path = f"space.{ALGORITHM}"
    if not isinstance(parameter, CategoricalParameter):
        yield f"{path} must be categorical, but is of type {parameter.type}"
        return
    if parameter.when:
        yield f"{path} must exist in every trial; drop its when"
    for choice in parameter.choices:
        if choice not in bases:
            yield (
                f"{path} offers {shown(choice)}, for which there is no base; give base a mapping "
                f"from each algorithm to the path of its configuration"
            )
    for name in bases:
        if name not in parameter.choices:
            yield f"base.{name} is used by no trial; add {name} to the choices of {path}"


def _condition_problems(path: str, parent: CategoricalParameter, wanted: Any) -> Iterator[str]:
    if not is_plain(wanted):
        yield f"{path} must be one of the choices or a list of them, but is {shown(wanted)}"
        return
    values = wanted_values(parent, wanted)
    if not values:
        yield f"{path} must name at least one choice, but the list is empty"
    for value in values:
        if unknown := _unknown_choice(parent, value):
            yield f"{path} names an {unknown}"


def _unknown_choice(parameter: CategoricalParameter, value: Any) -> str | None:
    valid = [json_text(choice) for choice in parameter.choices if is_plain(choice)]
    text = json_text(value)
    return None if text in valid else unknown_name("choice", text, valid)


def _parameter_problems(
    space: SearchSpace, name: str, algorithm: str, base: Config
) -> Iterator[str]:
    for context in space.contexts(name):
        if context.get(ALGORITHM, algorithm) != algorithm:
            continue
        settings = {path: value for path, value in context.items() if path != ALGORITHM}
        try:
            config = apply(base, settings)
        except KeyError:
            continue  # the parent's own path is unknown, and reported there
        known = set(paths(config))
        if name not in known:
            yield _unknown_path(name, algorithm, known, searched=ALGORITHM in space.parameters)
            continue
        parameter, before = space.parameters[name], _config_problems(config)
        if isinstance(parameter, CategoricalParameter):
            values: Sequence[Any] = parameter.choices
        else:
            values = (parameter.low, parameter.high)
        for value in values:
            for problem in _config_problems(apply(config, {name: value})):
                if problem not in before:
                    yield (
                        f"space.{name} allows {shown(value)}, which is no valid {algorithm} "
                        f"configuration: {problem}"
                    )


def _config_problems(config: Config) -> tuple[str, ...]:
    try:
        read_trial_config(config, source="")
    except ConfigError as error:
        return error.problems
    return ()


def _unknown_path(name: str, algorithm: str, known: set[str], *, searched: bool) -> str:
    same_key = [path for path in known if path.rpartition(".")[2] == name.rpartition(".")[2]]
    close = get_close_matches(name, sorted(known), n=3) or sorted(same_key)[:3]
    parent = name.rpartition(".")[0]
    while parent and parent not in known:
        parent = parent.rpartition(".")[0]
    prefix = f"{parent}." if parent else ""
    siblings = sorted(path for path in known if path.startswith(prefix))
    direct = [path for path in siblings if "." not in path.removeprefix(prefix)]
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    valid = f"valid in {parent}" if parent else "valid"
    remedy = f"; if only another algorithm has it, add when: {{{ALGORITHM}: ...}}"
    unknown = f"space.{name} is no path of the {algorithm} base{hint}; {valid}: {', '.join(direct)}"
    return f"{unknown}{remedy if searched else ''}"


ON_THE_GRID = 1e-9  # share of a step by which a value may miss it, as decimal numbers do in binary


def configuration_problems(
    where: str,
    configurations: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Parameter],
    data: object,
) -> Iterator[str]:
    """Yield what is wrong with listed configurations; ``data``, the whole file, names all."""
    written = data.get("space") if isinstance(data, Mapping) else None
    named = [str(name) for name in written] if isinstance(written, Mapping) else []
    # Which parameters exist is known only where the conditions are right.
    is_whole = parameters.keys() == set(named) and not any(condition_problems(parameters))
    space = SearchSpace(parameters)
    for index, values in enumerate(configurations):
        path = f"{where}[{index}]"
        for name, value in values.items():
            if name in parameters:
                if problem := value_problem(parameters[name], value):
                    yield f"{path}.{name} {problem}"
            elif name not in named:
                yield f"{path} names an {unknown_name('parameter', name, named)}"
        for name in space.order if is_whole else ():
            exists = space.is_active(name, values)
            if exists and name not in values:
                yield f"{path} lacks {name}, which exists in this configuration"
            elif name in values and not exists:
                yield f"{path}.{name} must be left out, for its conditions do not hold"


def enqueue_problems(
    parameters: Mapping[str, Parameter],
    sampler: options.Sampler,
    params: Mapping[str, Any],
    *,
    is_population: bool,
) -> list[str]:
    """Return why the next trial cannot have the values ``params``, by path; none: it can."""
    if is_population:
        return ["a population plans its trials itself"]
    if isinstance(sampler, options.ListedOptions | options.GridOptions):
        return [f"the sampler {sampler.name} has a configuration for each trial"]
    space, problems = SearchSpace(parameters), []
    for name, value in params.items():
        if name not in parameters:
            problems.append(unknown_name("parameter", name, parameters))
        elif problem := value_problem(parameters[name], value):
            problems.append(f"{name} {problem}")
        elif not space.is_active(name, params):
            when = parameters[name].when.items()
            wanted = ", ".join(f"{key}: {shown(own)}" for key, own in when)
            problems.append(f"{name} exists only with {wanted}, which must be given too")
    return problems


def example_setting(parameters: Mapping[str, Parameter]) -> str:
    """Return NAME=VALUE of a parameter that all trials have, and of a value that it may have."""
    name = SearchSpace(parameters).order[0]
    match parameters[name]:
        case CategoricalParameter(choices=choices):
            value = choices[0]
        case IntParameter(low=low) | FloatParameter(low=low):
            value = low
    return f"{name}={json.dumps(value, separators=(',', ':'))}"


def value_problem(parameter: Parameter, value: Any) -> str | None:
    """Return why a value is none of the parameter's, None if it is one."""
    if isinstance(parameter, CategoricalParameter):
        if not is_plain(value):
            return f"must be one of the choices, but is {shown(value)}"
        unknown = _unknown_choice(parameter, value)
        return f"is an {unknown}" if unknown else None
    is_float = isinstance(parameter, FloatParameter)
    kinds = (int, float) if is_float else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return f"must be {'a number' if is_float else 'a whole number'}, but is {shown(value)}"
    low, high, step = parameter.low, parameter.high, parameter.step
    if not low <= value <= high:
        return f"must lie in [{low!r}, {high!r}], but is {shown(value)}"
    steps = 0.0 if step is None else (value - low) / step
    if abs(steps - round(steps)) > ON_THE_GRID * max(1.0, abs(steps)):
        return f"must lie a whole number of steps of {step!r} above {low!r}, but is {value!r}"
    return None
