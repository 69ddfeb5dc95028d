"""The study that trains chosen configurations of a search again, on seeds that are held out.

It is an ordinary study with a file of its own below its folder, so every command works on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpsearch import atomic, yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, UsageError
from hpsearch.names import NAME_RULE, is_name
from hpsearch.plain import to_plain
from hpsearch.study.options import ListedOptions, SlurmOptions
from hpsearch.study.parameters import json_text
from hpsearch.study.spec import Study, load_spec

SUFFIX = "-confirm"
SEED = "seed"
"""the path that a search may search, too; what is held out overrules it"""
HELD_OUT = 1_000_000_000
"""what the study's seed is raised by, so that no trial of a study whose own seed is below it, this
one or a neighbour, has a seed of the confirmation"""


def confirmation_name(name: str) -> str:
    """Return what the study that confirms another one is called.

    Raises:
        UsageError: if that would be no name.
    """
    longer = f"{name}{SUFFIX}"
    if not is_name(longer):
        raise UsageError(
            f"{name} is confirmed by a study {longer}, but a name {NAME_RULE}; "
            "search under a shorter name"
        )
    return longer


def key(values: Mapping[str, Any]) -> str:
    """Return a text that tells configurations apart, whatever their seed."""
    return json_text({name: value for name, value in values.items() if name != SEED})


def begun_study(folder: StudyDir) -> Study | None:
    """Return the study of a confirmation that was begun in ``folder``, None if none was.

    Raises:
        ConfigError: if its file was changed and is wrong now.
        ConflictError: if the folder belongs to another study.
    """
    if folder.study_file.exists():
        study = load_spec(folder.study_file)
        if isinstance(study.spec.sampler, ListedOptions) and study.spec.name == folder.root.name:
            return study
    elif not folder.spec.exists():
        return None
    raise ConflictError(
        f"{folder.root} belongs to a study that is no confirmation; a study is confirmed under its "
        f"name and {SUFFIX}, so search under another name"
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
    for algorithm, base in search.bases.items():
        atomic.write_text(folder.base(algorithm), yaml_file.dump(base))
    return _write(folder, plain, of=search.spec.name)


def with_more_seeds(study: Study, seeds: int, folder: StudyDir, search: str) -> Study:
    """Write and return a confirmation with more seeds; what has been trained counts.

    What else its file says stays, for a user may have changed it.
    """
    plain = yaml_file.load(folder.study_file)
    plain["budget"]["trials"] = seeds * len(configurations(study))
    return _write(folder, plain, of=search)


def _write(folder: StudyDir, plain: Mapping[str, Any], *, of: str) -> Study:
    header = f"# hpsearch confirm {of}\n#\n# The best configurations of {of} on held-out seeds.\n"
    atomic.write_text(folder.study_file, header + yaml_file.dump(plain))
    return load_spec(folder.study_file)


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
        "executor": _executor(search),
    }


def _space(search: Study) -> dict[str, Any]:
    """Return the space without the seed."""
    left = {name: one for name, one in search.spec.space.items() if name != SEED}
    if not left or any(SEED in one.when for one in left.values()):
        raise UsageError(
            f"{search.spec.name} searches the seed, and {'little else' if left else 'nothing else'}"
            ": there are no configurations to train on other seeds"
        )
    return {name: to_plain(one) for name, one in left.items()}


def _executor(search: Study) -> Any:
    """Return the study's executor; a path from its file is one from anywhere."""
    executor = search.spec.executor
    if isinstance(executor, SlurmOptions):
        profile = Path(search.path.parent, executor.profile).absolute()
        executor = replace(executor, profile=str(profile))
    return to_plain(executor)
