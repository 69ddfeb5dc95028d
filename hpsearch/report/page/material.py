"""Everything that a page is made of, gathered before anything is drawn.

What is missing is the sentence that says why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hpsearch.errors import CorruptError, HpsearchError
from hpsearch.report.confirmed import read_confirmed, whole_confirmation
from hpsearch.report.lineage import Descent, read_lineage
from hpsearch.report.page.learning import Learning, read_learning
from hpsearch.report.page.reproduction import Reproduction, read_reproduction
from hpsearch.report.played import Played, read_played
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial

if TYPE_CHECKING:  # they load torch
    from hpsearch.report.examination import Report
    from hpsearch.report.page.ade import AdeTrees

T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """What was measured of the best trial's players for the page."""

    report: "Report"
    trees: "AdeTrees | str"
    """of its host; or why there are none"""


@dataclass(frozen=True)
class Material:
    """What is known of a study."""

    view: StudyView
    at: float
    """when it was looked at, in seconds since the epoch"""
    elsewhere: str
    """the option of commands for studies that lie in another folder than usual; may be empty"""
    best: Trial | None
    is_confirmed: bool
    """whether the best is that of a confirmation, not of the search"""
    measured: Measured | str
    confirmation: Mapping[str, Any] | str
    """as `confirm` writes it"""
    learning: Learning
    descent: Descent | str
    played: Played | str
    reproduction: Reproduction
    other: StudyView | None
    """a study that is laid over this one"""


def gather(
    view: StudyView,
    at: float,
    elsewhere: str,
    measure: Callable[[StudyView, Trial], Measured | str],
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
    descent = _or_why(lambda: read_lineage(view))
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
        found = read_confirmed(view)
    except CorruptError:
        found = None  # the page says so below, in the confirmation's place
    if found is not None and found.is_current and found.best in view.state.trials:
        return view.state.trials[found.best], True
    return view.best(), False


def _confirmation(view: StudyView, elsewhere: str) -> Mapping[str, Any] | str:
    """Return what `confirm` wrote.

    Raises:
        CorruptError: if it is damaged.
    """
    found = read_confirmed(view)
    name = view.study.spec.name
    if found is None:
        return (
            f"the best of the search may be the luckiest; compare the best on held-out seeds with: "
            f"hpsearch confirm {name}{elsewhere}"
        )
    return whole_confirmation(view)


def _or_why(read: Callable[[], T | str]) -> T | str:
    """Return what is read, or why it cannot be."""
    try:
        return read()
    except HpsearchError as error:
        return str(error)
