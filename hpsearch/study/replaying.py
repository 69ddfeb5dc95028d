"""The study that trains the schedule of a population's trial again, on seeds that are held out.

A schedule is the values of the hyperparameters, interval by interval, on the line of first parents
that led to the trial. Nobody gives way in this study: its members are the schedule's seeds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.plain import to_plain
from hpsearch.population.options import PopulationOptions, Schedule
from hpsearch.study.derived import (
    HELD_OUT,
    begun_derived,
    derived_name,
    executor_from_anywhere,
    write_bases,
    write_derived,
)
from hpsearch.study.spec import Study

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
        "space": {name: to_plain(one) for name, one in spec.space.items()},
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
    assert options is not None, "whoever has descent is a population"
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
