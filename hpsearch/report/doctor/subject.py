"""The study that is looked at, as far as it can be found: what is wrong with it is a finding."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpsearch.bounded import read_json
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import SHOWN_PROBLEMS, ConfigError, HpsearchError
from hpsearch.report.doctor.finding import Finding
from hpsearch.report.view import open_view
from hpsearch.study.spec import Study, load_spec


@dataclass(frozen=True)
class Subject:
    """A study, started or not."""

    study: Study
    folder: StudyDir
    is_started: bool
    """whether its folder says so"""


def find_subject(name_or_file: str, runs: Path) -> tuple[Subject | None, list[Finding]]:
    """Return the study of a file, or of a name under ``runs``; and what there is to say of it."""
    try:
        study = _load(name_or_file, runs)
    except ConfigError as error:
        return None, list(_faults(error))
    except HpsearchError as error:
        return None, [Finding("study", "error", str(error))]
    folder = StudyDir((runs / study.spec.name).absolute())
    said = f"{study.path} is right: {study.spec.budget.trials} trials of {study.spec.name}"
    return Subject(study, folder, folder.spec.exists()), [Finding("study", "ok", said)]


def _load(name_or_file: str, runs: Path) -> Study:
    """Return a study as its file has it, which says more than the database; else from there."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml"):
        return load_spec(path)
    note = read_json(StudyDir(runs / name_or_file).spec)
    file = note.get("file") if isinstance(note, dict) else None
    if isinstance(file, str) and os.path.exists(file):
        study = load_spec(Path(file))
        if study.spec.name == name_or_file:  # else the file has become another study's
            return study
    return open_view(name_or_file, runs).study


def _faults(error: ConfigError) -> Iterator[Finding]:
    for problem in error.problems[:SHOWN_PROBLEMS]:
        yield Finding("study", "error", f"{error.source}: {problem}")
