"""Everything that a page is made of, gathered before anything is drawn.

What is missing is the sentence that says why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hpsearch import yaml_file
from hpsearch.analysis.candidates import Played, read_confirmed, read_played, whole_confirmation
from hpsearch.analysis.lineage import Ancestry, lineage_or_why
from hpsearch.cluster.code_snapshot import code_commit, versions
from hpsearch.errors import CorruptError, HpsearchError
from hpsearch.files import read_json
from hpsearch.report.page.learning import Learning, read_learning
from hpsearch.schema import to_plain
from hpsearch.study.records import Trial
from hpsearch.study.spec import load_spec, spec_hash
from hpsearch.study.view import StudyView

if TYPE_CHECKING:
    from hpsearch.report.page.players import MeasuredPlayers


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
    commits = []
    for path in sorted(view.folder.code.glob("*/code.json")):
        try:
            data = read_json(path)
        except HpsearchError:
            continue
        if isinstance(data, dict):
            commits.append(f"{data.get('hash')} (commit {data.get('commit')})")
    return commits


T = TypeVar("T")


@dataclass(frozen=True)
class Material:
    view: StudyView
    at: float
    """when it was looked at, in seconds since the epoch"""
    elsewhere: str
    """the option of commands for studies that lie in another folder than usual; may be empty"""
    best: Trial | None
    is_confirmed: bool
    """whether the best is that of a confirmation, not of the search"""
    measured: "MeasuredPlayers | str"
    confirmation: Mapping[str, Any] | str
    """as `confirm` writes it"""
    learning: Learning
    descent: Ancestry | str
    played: Played | str
    reproduction: Reproduction
    other: StudyView | None
    """a study that is laid over this one"""


def gather(
    view: StudyView,
    at: float,
    elsewhere: str,
    measure: Callable[[StudyView, Trial], "MeasuredPlayers | str"],
    other: StudyView | None = None,
) -> Material:
    """Return what is known of a study.

    Args:
        view: the study.
        at: the time now, in seconds since the epoch.
        elsewhere: the option of commands for studies in another folder than usual; may be empty.
        measure: measures the best trial's players.
        other: a study to lay over this one.
    """
    best, is_confirmed = _best(view)
    confirmation = _or_why(lambda: _confirmation(view, elsewhere))
    descent = lineage_or_why(view)
    return Material(
        view=view,
        at=at,
        elsewhere=elsewhere,
        best=best,
        is_confirmed=is_confirmed,
        measured="no trial has finished yet" if best is None else measure(view, best),
        confirmation=confirmation,
        learning=read_learning(view, best, confirmation, descent),
        descent=descent,
        played=_or_why(lambda: read_played(view)),
        reproduction=read_reproduction(view),
        other=other,
    )


def _best(view: StudyView) -> tuple[Trial | None, bool]:
    """Return the trial that `export` takes, and whether a confirmation named it."""
    try:
        confirmed = read_confirmed(view)
    except CorruptError:
        confirmed = None  # the page says so below, in the confirmation's place
    if confirmed is not None and confirmed.is_current and confirmed.best in view.state.trials:
        return view.state.trials[confirmed.best], True
    return view.best(), False


def _confirmation(view: StudyView, elsewhere: str) -> Mapping[str, Any] | str:
    """Return what `confirm` wrote.

    Raises:
        CorruptError: if it is damaged.
    """
    confirmed = read_confirmed(view)
    name = view.study.spec.name
    if confirmed is None:
        return (
            f"the best of the search may be the luckiest; compare the best on held-out seeds with: "
            f"hpsearch confirm {name}{elsewhere}"
        )
    return whole_confirmation(view)


def _or_why(read: Callable[[], T | str]) -> T | str:
    try:
        return read()
    except HpsearchError as error:
        return str(error)
