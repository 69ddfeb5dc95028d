"""What is needed to do a study again: its file, its base, the code and the versions."""

from dataclasses import dataclass

from hpsearch import yaml_file
from hpsearch.bounded import read_json
from hpsearch.errors import HpsearchError
from hpsearch.plain import to_plain
from hpsearch.report.provenance import code_commit, versions
from hpsearch.report.view import StudyView
from hpsearch.study.spec import load_spec, spec_hash


@dataclass(frozen=True)
class Reproduction:
    """Where a study comes from."""

    file: str
    """where the study file is, or was"""
    text: str
    """of the study file; where that is gone or another by now, what the database holds"""
    is_file: bool
    """whether it is the file's text"""
    bases: dict[str, str]
    """text of the complete trainer configurations, by algorithm"""
    commit: str | None
    """of the code that makes the page; a + where it had been edited, None where unknown"""
    jobs_ran: tuple[str, ...]
    """hash and commit of the code that jobs on a cluster ran"""
    versions: dict[str, str]
    """of the packages that make the page"""


def read_reproduction(view: StudyView) -> Reproduction:
    """Return where a study comes from."""
    text = _file_text(view)
    stored = yaml_file.dump(to_plain(view.study.spec))
    return Reproduction(
        file=str(view.study.path),
        text=stored if text is None else text,
        is_file=text is not None,
        bases={name: yaml_file.dump(base) for name, base in view.study.bases.items()},
        commit=code_commit(),
        jobs_ran=tuple(_snapshots(view)),
        versions=versions(),
    )


def _file_text(view: StudyView) -> str | None:
    """Return the text of the study file, None where it no longer says what the study is."""
    try:
        if spec_hash(load_spec(view.study.path)) != spec_hash(view.study):
            return None
        return view.study.path.read_text(encoding="utf-8")
    except (HpsearchError, OSError):
        return None


def _snapshots(view: StudyView) -> list[str]:
    found = []
    for path in sorted(view.folder.code.glob("*/code.json")):
        try:
            data = read_json(path)
        except HpsearchError:
            continue
        if isinstance(data, dict):
            found.append(f"{data.get('hash')} (commit {data.get('commit')})")
    return found
