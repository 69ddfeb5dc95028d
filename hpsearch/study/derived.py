"""Studies made of others: what they share, and those of `confirm` and `replay`.

Each is an ordinary study with a file below its folder, so every command works on it.

The study that trains chosen configurations of a search again, on seeds that are held out.

It is an ordinary study with a file of its own below its folder, so every command works on it.

The study that trains the schedule of a population's trial again, on seeds that are held out.

A schedule is the values of the hyperparameters, interval by interval, on the line of first parents
that led to the trial. No member is replaced in this study: its members are the schedule's seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpsearch import files, yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, ConflictError, UsageError
from hpsearch.names import NAME_RULE, is_name
from hpsearch.parameters import json_text
from hpsearch.population.options import PopulationOptions, Schedule
from hpsearch.schema import Config, to_plain
from hpsearch.study.options import ListedOptions, SlurmOptions
from hpsearch.study.spec import Study, load_spec

HELD_OUT = 1_000_000_000
"""what the study's seed is raised by, so that no trial of a study whose own seed is below it, this
one or a neighbour, has a seed of the derived one"""


def derived_name(name: str, suffix: str, made: str) -> str:
    """Return what the study is called by which another one is ``made`` something.

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


def begun_derived(
    folder: StudyDir, is_one: Callable[[Study], bool], *, kind: str, remedy: str
) -> Study | None:
    """Return the derived study that was begun in ``folder``, None if none was.

    Args:
        folder: its own.
        is_one: whether a study is of this kind.
        kind: its name in messages.
        remedy: what to do where the folder belongs to another study.

    Raises:
        ConfigError: if its file was changed and is wrong now.
        ConflictError: if the folder belongs to another study.
    """
    if folder.study_file.exists():
        study = load_spec(folder.study_file)
        if is_one(study) and study.spec.name == folder.root.name:
            return study
    elif not folder.spec.exists():
        return None
    raise ConflictError(f"{folder.root} belongs to a study that is no {kind}; {remedy}")


def write_bases(folder: StudyDir, bases: Mapping[str, Config]) -> dict[str, str]:
    """Write base configurations into ``folder``; return their names by algorithm."""
    for algorithm, base in bases.items():
        files.write_text(folder.base(algorithm), yaml_file.dump(base))
    return {algorithm: folder.base(algorithm).name for algorithm in bases}


def write_derived(folder: StudyDir, plain: Mapping[str, Any], *, command: str, what: str) -> Study:
    """Write and return a study; ``command`` made it, and ``what`` it is begins its file.

    Raises:
        DiskError: if the file cannot be written.
        ConfigError: if the study would be wrong; nothing of it is left, so it can be made anew.
    """
    header = f"# {command}\n#\n# {what}\n"
    files.write_text(folder.study_file, header + yaml_file.dump(plain))
    try:
        return load_spec(folder.study_file)
    except ConfigError:
        folder.study_file.unlink()
        raise


def executor_from_anywhere(study: Study) -> Any:
    """Return a study's executor as plain data; a path from its file is one from anywhere."""
    executor = study.spec.executor
    if isinstance(executor, SlurmOptions):
        profile = Path(study.path.parent, executor.profile).absolute()
        executor = replace(executor, profile=str(profile))
    return to_plain(executor)


SUFFIX = "-confirm"
SEED = "seed"
"""the path that a search may search, too; what is held out overrules it"""


def confirmation_name(name: str) -> str:
    """Return what the study that confirms another one is called.

    Raises:
        UsageError: if that would be no name.
    """
    return derived_name(name, SUFFIX, "confirmed")


def key(values: Mapping[str, Any]) -> str:
    """Return a text that tells configurations apart, whatever their seed."""
    return json_text({name: value for name, value in values.items() if name != SEED})


def begun_study(folder: StudyDir) -> Study | None:
    """Return the study of a confirmation that was begun in ``folder``, None if none was.

    Raises:
        ConfigError: if its file was changed and is wrong now.
        ConflictError: if the folder belongs to another study.
    """
    return begun_derived(
        folder,
        lambda study: isinstance(study.spec.sampler, ListedOptions),
        kind="confirmation",
        remedy=f"a study is confirmed under its name and {SUFFIX}, so search under another name",
    )


def configurations(study: Study) -> tuple[dict[str, Any], ...]:
    """Return what a confirmation compares."""
    assert isinstance(study.spec.sampler, ListedOptions)
    return study.spec.sampler.configurations


def num_seeds(study: Study) -> int:
    """Return how often a confirmation trains each configuration."""
    return study.spec.budget.trials // len(configurations(study))


def write_study(
    search: Study, chosen: Sequence[Mapping[str, Any]], seeds: int, folder: StudyDir
) -> Study:
    """Write and return the study that trains ``chosen`` configurations on ``seeds`` seeds each.

    Raises:
        UsageError: if they differ in nothing but their seeds, or depend on them.
        DiskError: if a file cannot be written.
    """
    plain = _plain(search, chosen, seeds, folder)
    write_bases(folder, search.bases)
    return _write(folder, plain, of=search.spec.name)


def with_more_seeds(study: Study, seeds: int, folder: StudyDir, search: str) -> Study:
    """Write and return a confirmation with more seeds; what has been trained counts.

    What else its file says stays, for a user may have changed it.
    """
    plain = yaml_file.load(folder.study_file)
    plain["budget"]["trials"] = seeds * len(configurations(study))
    return _write(folder, plain, of=search)


def _write(folder: StudyDir, plain: Mapping[str, Any], *, of: str) -> Study:
    what = f"The best configurations of {of} on held-out seeds."
    return write_derived(folder, plain, command=f"hpsearch confirm {of}", what=what)


def _plain(
    search: Study, chosen: Sequence[Mapping[str, Any]], seeds: int, folder: StudyDir
) -> dict[str, Any]:
    spec = search.spec
    return {
        "name": folder.root.name,
        "seed": spec.seed + HELD_OUT,
        "storage": spec.storage,
        "base": {algorithm: folder.base(algorithm).name for algorithm in search.bases},
        "objectives": to_plain(spec.objectives),
        "space": _space(search),
        "sampler": {
            "name": "listed",
            "configurations": [
                {name: value for name, value in values.items() if name != SEED} for values in chosen
            ],
        },
        "pruner": {"name": "none"},
        "budget": {"trials": len(chosen) * seeds},
        "max_failures": spec.max_failures,
        "executor": executor_from_anywhere(search),
    }


def _space(search: Study) -> dict[str, Any]:
    """Return the space without the seed."""
    left = {name: parameter for name, parameter in search.spec.space.items() if name != SEED}
    if not left or any(SEED in parameter.when for parameter in left.values()):
        raise UsageError(
            f"{search.spec.name} searches the seed, and {'little else' if left else 'nothing else'}"
            ": there are no configurations to train on other seeds"
        )
    return {name: to_plain(parameter) for name, parameter in left.items()}


Values = Mapping[str, Any]


def replay_name(name: str, trial: int) -> str:
    """Return what the study that trains a trial's schedule again is called.

    Raises:
        UsageError: if that would be no name.
    """
    return derived_name(name, f"-replay-{trial}", "replayed")


def begun_replay(folder: StudyDir) -> Study | None:
    """Return the study of a replay that was begun in ``folder``, None if none was.

    Raises:
        ConfigError: if its file was changed and is wrong now.
        ConflictError: if the folder belongs to another study.
    """
    return begun_derived(
        folder,
        lambda study: population_of(study) is not None,
        kind="replay",
        remedy="move it away, or breed under another name",
    )


def population_of(study: Study) -> PopulationOptions | None:
    """Return the population block of a replay, None for any other study."""
    options = study.spec.population
    return options if options is not None and isinstance(options.explore, Schedule) else None


def write_replay(
    bred: Study, trial: int, schedule: Sequence[Values], seeds: int, folder: StudyDir
) -> Study:
    """Write and return the study that trains a schedule from new networks on ``seeds`` seeds.

    Raises:
        DiskError: if a file cannot be written.
    """
    spec = bred.spec
    (base,) = write_bases(folder, bred.bases).values()
    plain = {
        "name": folder.root.name,
        "seed": spec.seed + HELD_OUT,
        "storage": spec.storage,
        "base": base,
        "objectives": to_plain(spec.objectives),
        "space": {name: to_plain(parameter) for name, parameter in spec.space.items()},
        "sampler": {"name": "random"},
        "population": _population(spec.population, schedule, seeds),
        "budget": {"trials": len(schedule) * seeds},
        "max_failures": spec.max_failures,
        "executor": executor_from_anywhere(bred),
    }
    command = f"hpsearch replay {spec.name} --trial {trial}"
    what = f"The schedule that led to trial {trial} of {spec.name} on held-out seeds."
    return write_derived(folder, plain, command=command, what=what)


def _population(
    options: PopulationOptions | None, schedule: Sequence[Values], seeds: int
) -> dict[str, Any]:
    assert options is not None, "a study with ancestry is a population"
    return {
        "members": seeds,
        "interval": options.steps_of_schedule,
        # All wait for all: else those who are fast would train on, at the cost of the others.
        "generations": {"name": "synchronous", "quorum": 1.0},
        "matches": to_plain(options.matches),
        "selection": {"name": "none"},
        "explore": {"name": "schedule", "intervals": [dict(values) for values in schedule]},
        "operators": [{"name": "clone"}],
    }
