"""The study that trains chosen configurations of a search again, on seeds that are held out.

It is an ordinary study with a file of its own below its folder, so every command works on it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import UsageError
from hpsearch.parameters import json_text
from hpsearch.plain import to_plain
from hpsearch.study.derived import (
    HELD_OUT,
    begun_derived,
    derived_name,
    executor_from_anywhere,
    write_bases,
    write_derived,
)
from hpsearch.study.options import ListedOptions
from hpsearch.study.spec import Study

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
    left = {name: one for name, one in search.spec.space.items() if name != SEED}
    if not left or any(SEED in one.when for one in left.values()):
        raise UsageError(
            f"{search.spec.name} searches the seed, and {'little else' if left else 'nothing else'}"
            ": there are no configurations to train on other seeds"
        )
    return {name: to_plain(one) for name, one in left.items()}
