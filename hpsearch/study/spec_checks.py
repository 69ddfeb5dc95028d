"""What can be wrong within a study file, beyond the type of each value."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpsearch.errors import ConfigError, CorruptError, DiskError, unknown_name
from hpsearch.files import read_json
from hpsearch.names import NAME_RULE, is_name, proposed_name
from hpsearch.parameters import CategoricalParameter, Parameter
from hpsearch.schema import Config, paths, to_plain
from hpsearch.study.options import (
    CMAESOptions,
    GridOptions,
    LocalOptions,
    NoPruning,
    Pruner,
    Sampler,
)
from hpsearch.study.url import FROM_ENVIRONMENT, password, url_problem
from hpsearch.trainers.checkpoint_name import STATE, step_of
from hpsearch.trainers.config import GAME, TrainerConfig, read_config
from hpsearch.trainers.metrics import metric_names

WHO_PLAYS = frozenset({"host", "agent", "evaluation.opponents"})
"""paths of a trainer configuration that decide what is measured"""

DEVICE, GPU = "device", "cuda"  # key of a trainer configuration, and its value for a GPU

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
    if isinstance(sampler, GridOptions):
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
    return GPU in choices or any(config[DEVICE] == GPU for config in configs)


def gpu_problems(
    executor: Any, configs: Sequence[Config], space: Mapping[str, Parameter]
) -> Iterator[str]:
    has_none = isinstance(executor, LocalOptions) and executor.gpus_per_job == 0
    if has_none and use_gpus(configs, space):
        yield (
            "executor.gpus_per_job must be 1 or more where trials train on device cuda, but is 0; "
            "leave it out, or set device: cpu"
        )


def read_founders(
    sections: Mapping[str, Any], folder: Path, problems: list[str]
) -> tuple[Config, ...]:
    """Return the configurations of the founders; faults are added to ``problems``."""
    options = sections.get("population")
    if options is None or not options.founders:
        return ()
    founders: list[Config] = []
    configs: list[TrainerConfig] = []
    for index, name in enumerate(options.founders):
        where = f"population.founders[{index}]"
        try:
            step_of(name)
            data = read_json(folder / name / STATE)
            if data is None:
                problems.append(f"{where} names no checkpoint: there is no {folder / name / STATE}")
                continue
            config = read_config(data["config"], source=str(folder / name))
        except (ValueError, TypeError, KeyError, CorruptError, DiskError) as error:
            problems.append(f"{where} is no checkpoint: {error}")
            continue
        except ConfigError as error:
            problems += [f"{where} {folder / name}: {problem}" for problem in error.problems]
            continue
        founders.append(to_plain(data["config"]))
        configs.append(config)
        problems += disagreements(where, config, configs[0])
        known = set(paths(founders[-1]))
        problems += [
            f"{where} has no {path}, which the space searches"
            for path in sections.get("space", {})
            if path not in known
        ]
    return tuple(founders)


def disagreements(where: str, config: TrainerConfig, first: TrainerConfig) -> Iterator[str]:
    """Yield why a founder cannot be of one population with the first."""
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
        if not _VARIABLE.fullmatch(variable):
            yield (
                f"storage must be env: and the name of an environment variable, "
                f"but the name is {variable!r}"
            )
    elif password(storage):
        yield (
            "storage must not hold a password; put the URL into an environment variable "
            "and write its name, such as storage: env:HPSEARCH_STORAGE"
        )
    else:
        problem = url_problem(storage)
        if problem:
            yield f"storage {problem}, or env: and the name of an environment variable"


def _objective_problems(
    objectives: tuple[Any, ...], pruner: Pruner | None, sampler: Sampler | None
) -> Iterator[str]:
    if not objectives:
        yield "objectives must name at least one metric"
    metrics = [objective.metric for objective in objectives]
    for index, metric in enumerate(metrics):
        if not metric.strip():
            yield f"objectives[{index}].metric must not be empty"
        elif metric in metrics[:index]:
            yield f"objectives[{index}].metric {metric!r} stands twice"
    if len(objectives) > 1 and not isinstance(pruner, NoPruning | None):
        yield (
            f"pruner must be none for more than one objective, but is {pruner.name}, "
            f"which compares trials by a single value"
        )
    if len(objectives) > 1 and isinstance(sampler, CMAESOptions):
        yield "sampler must not be cmaes for more than one objective; tpe and gp take several"
