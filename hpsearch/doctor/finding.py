"""What a check found, and the study that is checked; what is wrong with that is a finding too."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import SHOWN_PROBLEMS, ConfigError, HpsearchError
from hpsearch.files import read_json
from hpsearch.study.spec import Study, load_spec
from hpsearch.study.view import open_view

Level = Literal["ok", "warning", "error", "skipped"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str  # of the check
    level: Level
    """ok, warning (works, but), error (does not work), or skipped (does not matter here)"""
    sentence: str  # what is the case, and the remedy if it should not be


Check = Callable[[], Finding | Iterable[Finding]]


def examine(name: str, check: Check) -> list[Finding]:
    """Return the findings of a check; an exception is the last finding, an error."""
    findings: list[Finding] = []
    try:
        finding = check()
        findings.extend([finding] if isinstance(finding, Finding) else finding)
    except (HpsearchError, SchedulerSilentError) as error:
        findings.append(Finding(name, "error", " ".join(str(error).split())))
    except Exception as error:
        # A diagnosis that breaks off is no help, whatever the reason.
        told = f"the check itself failed ({type(error).__name__}: {error}); report this as a fault"
        findings.append(Finding(name, "error", told))
    return findings


def has_error(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)


@dataclass(frozen=True)
class Subject:
    study: Study
    folder: StudyDir
    is_started: bool  # whether its folder says so


def find_subject(name_or_file: str, runs: Path) -> tuple[Subject | None, list[Finding]]:
    """Return the study of a file, or of a name under ``runs``; and what there is to say of it."""
    try:
        study = _load(name_or_file, runs)
    except ConfigError as error:
        faults = (f"{error.source}: {problem}" for problem in error.problems[:SHOWN_PROBLEMS])
        return None, [Finding("study", "error", fault) for fault in faults]
    except HpsearchError as error:
        return None, [Finding("study", "error", str(error))]
    folder = StudyDir((runs / study.spec.name).absolute())
    note = f"{study.path} is right: {study.spec.budget.trials} trials of {study.spec.name}"
    return Subject(study, folder, folder.spec.exists()), [Finding("study", "ok", note)]


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
