"""The founders of a population: checkpoints of other studies, with what they were trained by."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.files import read_json
from hpsearch.schema import Config, paths, to_plain
from hpsearch.trainers.checkpoint_name import STATE, step_of
from hpsearch.trainers.config import GAME, TrainerConfig, read_config


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
