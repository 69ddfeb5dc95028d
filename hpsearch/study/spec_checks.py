"""What can be wrong within a study file, beyond the type of each value."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    for needed, rule in _RULES:
        if all(name in sections for name in needed):
            yield from rule(*(sections[name] for name in needed))


def metric_problems(
    objectives: tuple[Any, ...], space: Mapping[str, Parameter], bases: Mapping[str, Config]
) -> Iterator[str]:
    """Yield the objectives that a base configuration does not measure.

    Where who plays is itself searched, a trial that does not measure them fails by itself.
    """
    if not WHO_PLAYS.isdisjoint(space):
        return
    for algorithm, base in bases.items():
        measured = set(metric_names(read_config(base, source="").measured_against()))
        for index, objective in enumerate(objectives):
            if objective.metric.strip() and objective.metric not in measured:
                yield (
                    f"objectives[{index}].metric is measured by no trial of the {algorithm} base: "
                    f"{unknown_name('metric', objective.metric, measured)}; "
                    f"the base's evaluation.opponents decides which there are"
                )


def resume_problems(bases: Mapping[str, Config]) -> Iterator[str]:
    for algorithm, base in bases.items():
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
    if not isinstance(executor, LocalOptions) or executor.gpus_per_job != 0:
        return
    if use_gpus(configs, space):
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
        problems += _missing(where, founders[-1], sections.get("space", {}))
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


def _missing(where: str, config: Config, space: Mapping[str, Any]) -> Iterator[str]:
    known = set(paths(config))
    for path in space:
        if path not in known:
            yield f"{where} has no {path}, which the space searches"


def _name_problems(name: str) -> Iterator[str]:
    if not is_name(name):
        yield f"name {NAME_RULE}, but is {name!r}; {proposed_name(name)} would do"


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


def _objective_problems(objectives: tuple[Any, ...]) -> Iterator[str]:
    if not objectives:
        yield "objectives must name at least one metric"
    metrics = [objective.metric for objective in objectives]
    for index, metric in enumerate(metrics):
        if not metric.strip():
            yield f"objectives[{index}].metric must not be empty"
        elif metric in metrics[:index]:
            yield f"objectives[{index}].metric {metric!r} stands twice"


def _pruner_problems(objectives: tuple[Any, ...], pruner: Pruner) -> Iterator[str]:
    if len(objectives) > 1 and not isinstance(pruner, NoPruning):
        yield (
            f"pruner must be none for more than one objective, but is {pruner.name}, "
            f"which compares trials by a single value"
        )


def _cmaes_problems(objectives: tuple[Any, ...], sampler: Sampler) -> Iterator[str]:
    if len(objectives) > 1 and isinstance(sampler, CMAESOptions):
        yield "sampler must not be cmaes for more than one objective; tpe and gp take several"


def _grid_problems(sampler: Sampler, space: dict[str, Parameter]) -> Iterator[str]:
    if isinstance(sampler, GridOptions):
        for name, parameter in space.items():
            if parameter.num_values() is None:
                yield (
                    f"space.{name} must have a step (or be categorical) for the grid sampler, "
                    f"but is continuous"
                )


_RULES: tuple[tuple[tuple[str, ...], Callable[..., Iterator[str]]], ...] = (
    (("name",), _name_problems),
    (("storage",), _storage_problems),
    (("objectives",), _objective_problems),
    (("objectives", "pruner"), _pruner_problems),
    (("objectives", "sampler"), _cmaes_problems),
    (("sampler", "space"), _grid_problems),
)
