"""What studies that are made of others have in common: names, held-out seeds, files of their own.

Each is an ordinary study with a file below its folder, so every command works on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpsearch import atomic, yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.config_paths import Config
from hpsearch.errors import ConfigError, ConflictError, UsageError
from hpsearch.names import NAME_RULE, is_name
from hpsearch.plain import to_plain
from hpsearch.study.options import SlurmOptions
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
        atomic.write_text(folder.base(algorithm), yaml_file.dump(base))
    return {algorithm: folder.base(algorithm).name for algorithm in bases}


def write_derived(folder: StudyDir, plain: Mapping[str, Any], *, command: str, what: str) -> Study:
    """Write and return a study; ``command`` made it, and ``what`` it is begins its file.

    Raises:
        DiskError: if the file cannot be written.
        ConfigError: if the study would be wrong; nothing of it is left, so it can be made anew.
    """
    header = f"# {command}\n#\n# {what}\n"
    atomic.write_text(folder.study_file, header + yaml_file.dump(plain))
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
