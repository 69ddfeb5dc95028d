"""Studies made of others: `confirm` and `replay` train again, on seeds that are held out.

Each is an ordinary study with a file below its folder, so every command works on it. `bred.py` has
the third kind, which `breed` makes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from hpsearch import files, yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, ConflictError, UsageError
from hpsearch.names import NAME_RULE, is_name
from hpsearch.parameters import json_text
from hpsearch.population.options import PopulationOptions, Schedule
from hpsearch.schema import Config, to_plain
from hpsearch.study.options import ListedOptions, SlurmOptions
from hpsearch.study.spec import Study, StudySpec, load_spec

HELD_OUT: Final = 1_000_000_000
"""added to the study's seed: no trial of a study with a seed below it has a derived one"""
CONFIRM_SUFFIX: Final = "-confirm"
SEED: Final = "seed"  # the path that a search may search, too; what is held out overrules it


@dataclass(frozen=True)
class Kind:
    """A kind of derived studies."""

    name: str  # in messages
    is_one: Callable[[Study], bool]  # whether a study is of this kind
    remedy: str  # what to do where the folder belongs to another study


CONFIRMATION: Final = Kind(
    "confirmation",
    lambda study: isinstance(study.spec.sampler, ListedOptions),
    f"a study is confirmed under its name and {CONFIRM_SUFFIX}, so search under another name",
)
REPLAY: Final = Kind(
    "replay",
    lambda study: population_of(study) is not None,
    "move it away, or breed under another name",
)


def derived_name(name: str, suffix: str, made: str) -> str:
    """Return the name of the study by which another one is ``made``: confirmed or replayed.

    Raises:
        UsageError: if that would be no name.
    """
    longer = f"{name}{suffix}"
    if not is_name(longer):
        raise UsageError(
            f"{name} is {made} by a study {longer}, but a name {NAME_RULE}; "
            "search under a shorter name"
        )
    return longer


def begun_derived(folder: StudyDir, kind: Kind) -> Study | None:
    """Return the derived study that was begun in its ``folder``, None if none was.

    Raises:
        ConfigError: if its file was changed and is wrong now.
        ConflictError: if the folder belongs to another study.
    """
    if folder.study_file.exists():
        study = load_spec(folder.study_file)
        if kind.is_one(study) and study.spec.name == folder.root.name:
            return study
    elif not folder.spec.exists():
        return None
    raise ConflictError(f"{folder.root} belongs to a study that is no {kind.name}; {kind.remedy}")


def inherited(study: Study, folder: StudyDir) -> dict[str, Any]:
    """Return what the file of a derived study takes from the study that it is made of."""
    spec, executor = study.spec, study.spec.executor
    if isinstance(executor, SlurmOptions):  # a path from its file is one from anywhere
        profile = Path(study.path.parent, executor.profile).absolute()
        executor = replace(executor, profile=str(profile))
    return {
        "name": folder.root.name,
        "seed": spec.seed + HELD_OUT,
        "storage": spec.storage,
        "objectives": to_plain(spec.objectives),
        "max_failures": spec.max_failures,
        "executor": to_plain(executor),
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
    made it and a sentence ``what`` it is for.

    Raises:
        DiskError: if a file cannot be written.
        ConfigError: if the study would be wrong; nothing of it is left, so it can be made anew.
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
        folder.study_file.unlink()
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
    """Write and return the study that trains ``chosen`` configurations on ``seeds`` seeds each.

    Raises:
        UsageError: if they differ in nothing but their seeds, or depend on them.
        DiskError: if a file cannot be written.
    """
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
    """Write and return a confirmation with more seeds; what has been trained counts.

    What else its file says stays, for a user may have changed it.
    """
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
    """Return the population block of a replay, None for any other study."""
    options = study.spec.population
    return options if options is not None and isinstance(options.explore, Schedule) else None


def write_replay(
    bred: Study, trial: int, schedule: Sequence[Mapping[str, Any]], seeds: int, folder: StudyDir
) -> Study:
    """Write and return the study that trains a schedule from new networks on ``seeds`` seeds.

    Raises:
        DiskError: if a file cannot be written.
    """
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
