"""Everything that a page is made of, gathered before anything is drawn.

Where something is missing, a sentence in its place says why.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from sys import float_info
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hpsearch.analysis.activity import Activity, read_activity
from hpsearch.analysis.candidates import Played, front, read_played, strongest_members
from hpsearch.analysis.confirmation import Confirmation, read_confirmed, whole_confirmation
from hpsearch.analysis.lineage import Ancestry, lineage_or_why
from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.errors import CorruptError, DiskError, HpsearchError
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView

if TYPE_CHECKING:
    from hpsearch.report.page.players import MeasuredPlayers


T = TypeVar("T")

NO_PLAYERS: Final = "its trials are programs, which play no games"
NUM_CURVES: Final = 5  # of the best trials, drawn with their intervals
MAX_DRAWN: Final = 5000  # trials that are drawn and listed one by one; a browser takes no more


@dataclass(frozen=True)
class MeasuredCurve:
    trial: int
    points: Mapping[int, tuple[float, float, float]]  # value, low and high over games, by step

    @property
    def steps(self) -> list[int]:
        return list(self.points)

    def column(self, place: int) -> list[float]:
        """Return all values (place 0), lower ends (1) or upper ends (2)."""
        return [point[place] for point in self.points.values()]


@dataclass(frozen=True)
class Learning:
    best: tuple[MeasuredCurve, ...]  # the best trial first; of a population, whole lines
    seeds: Mapping[int, list[MeasuredCurve]] | str
    """of a confirmation, its best first: by trial of the search the curves of the trials that
    trained it again; or why there are none"""


def read_learning(
    view: StudyView, best: Trial | None, confirmation: Confirmation | str, descent: Ancestry | str
) -> Learning:
    """Return the curves of the best trials, or of whole lines, and of what confirmed the best."""
    if isinstance(descent, str):
        curves = [_curve(view.folder, trial.number, view.metric) for trial in _top(view, best)]
    else:
        trials = [trial for trial in strongest_members(view) if trial in descent.relatives]
        curves = [_line(view, descent, trial) for trial in trials[:NUM_CURVES]]
    drawn = tuple(curve for curve in curves if curve.points)
    return Learning(drawn, _seeds(view, confirmation))


def _line(view: StudyView, descent: Ancestry, trial: int) -> MeasuredCurve:
    """Return what was measured along a line: of each trial what it trained itself."""
    points = {}
    for relative in descent.line(trial):
        for step, value in _curve(view.folder, relative.trial, view.metric).points.items():
            if relative.begin < step <= relative.step:
                points[step] = value
    return MeasuredCurve(trial, points)


def _curve(folder: StudyDir, trial: int, metric: str) -> MeasuredCurve:
    return read_curve(folder.trial(trial), trial, metric)


def read_curve(files: TrialDir, trial: int, metric: str) -> MeasuredCurve:
    """Return a trial's curve, the last of several lines of one step; empty if there is none."""
    by_step: dict[int, Any] = {}
    with suppress(CorruptError, DiskError):
        for row in files.read_metrics():
            match row:
                case {"step": step, "metrics": {**metrics}}:
                    match metrics.get(metric):
                        case {"value": value, "low": low, "high": high}:
                            if all(map(_is_finite, (value, low, high))):
                                by_step[step] = value, low, high
    return MeasuredCurve(trial, dict(sorted(by_step.items())))


def _is_finite(value: Any) -> bool:
    # Which neither infinities nor NaN pass, nor whole numbers too large for a chart.
    return isinstance(value, float | int) and abs(value) <= float_info.max


def _top(view: StudyView, best: Trial | None) -> Sequence[Trial]:
    """Return the best trials, the one that the page is about first; running ones follow."""
    ended = view.ranked(view.state.trials.values())
    first = [] if best is None else [best]
    others = [trial for trial in (*ended, *view.state.unfinished()) if trial is not best]
    return [*first, *others][:NUM_CURVES]


def _seeds(
    view: StudyView, confirmation: Confirmation | str
) -> Mapping[int, list[MeasuredCurve]] | str:
    if isinstance(confirmation, str):
        return confirmation
    if confirmation.trained_by is None:
        return "a population is confirmed by playing again, not by training on other seeds"
    folder = StudyDir(view.folder.root.parent / confirmation.trained_by)
    by_trial = {}
    for trial in confirmation.trials:
        curves = [_curve(folder, seed.trial, view.metric) for seed in trial.seeds]
        if kept := [curve for curve in curves if curve.points]:
            by_trial[trial.trial] = kept
    return by_trial or f"the learning curves of {confirmation.trained_by} are gone"


def drawn_part(view: StudyView, best: Trial | None) -> StudyView:
    """Return the study with its trials alone that are drawn: of very many the best, and some."""
    trials = view.state.trials
    if len(trials) <= MAX_DRAWN:
        return view
    ranked = view.ranked(trials.values())
    first = ranked[: MAX_DRAWN // 10] + ([] if best is None else [best])
    if len(view.study.spec.objectives) > 1:
        first += front(view)
    chosen = {trial.number for trial in first}
    with_value = {trial.number for trial in ranked}
    for numbers in (sorted(with_value), sorted(trials.keys() - with_value)):
        chosen |= {*numbers[:: ceil(len(numbers) / (0.45 * MAX_DRAWN)) or 1]}
    drawn = {number: trials[number] for number in sorted(chosen)}
    return replace(view, state=replace(view.state, trials=drawn))


@dataclass(frozen=True)
class Material:
    view: StudyView
    drawn: StudyView  # the same with the trials alone that are drawn and listed one by one
    at: float  # when it was looked at, in seconds since the epoch
    elsewhere: str  # the option --runs for studies in another folder, or empty
    best: Trial | None
    is_confirmed: bool  # whether the best is that of a confirmation, not of the search
    measured: "MeasuredPlayers | str"
    certified: Sequence[str]  # the verdict on the best that its bundle certifies; may be empty
    confirmation: Confirmation | str
    learning: Learning
    descent: Ancestry | str
    played: Played | str
    activity: Activity | None  # of learner and actors, in the newest job that has some
    other: StudyView | None  # a study that is laid over this one

    @property
    def drawn_text(self) -> str:
        """A sentence on trials that are left out, with a space before it; else empty."""
        number, total = len(self.drawn.state.trials), len(self.view.state.trials)
        if number == total:
            return ""
        return (
            f" Of {total:,} trials {number:,} were chosen: the best, and others evenly by number."
        )


def gather(
    view: StudyView,
    at: float,
    elsewhere: str,
    measure: Callable[[StudyView, Trial], "MeasuredPlayers | str"],
    other: StudyView | None = None,
    *,
    certify: Callable[[StudyView, Trial], Sequence[str]] = lambda view, trial: (),
) -> Material:
    best, is_confirmed = _best(view)
    if view.study.is_program:
        measured: MeasuredPlayers | str = NO_PLAYERS
    else:
        measured = "no trial has finished yet" if best is None else measure(view, best)
    unconfirmed = (
        "the best of the search may be the luckiest; compare the best on held-out seeds with: "
        f"hpsearch confirm {view.name}{elsewhere}"
    )
    if view.study.is_program:
        unconfirmed = "a program is not confirmed: give the best values other seeds by hand"
    confirmation = _or_why(lambda: whole_confirmation(view) or unconfirmed)
    descent = lineage_or_why(view)
    return Material(
        view=view,
        drawn=drawn_part(view, best),
        at=at,
        elsewhere=elsewhere,
        best=best,
        is_confirmed=is_confirmed,
        measured=measured,
        certified=() if best is None else certify(view, best),
        confirmation=confirmation,
        learning=read_learning(view, best, confirmation, descent),
        descent=descent,
        played=_or_why(lambda: read_played(view)),
        activity=read_activity(view),
        other=other,
    )


def _best(view: StudyView) -> tuple[Trial | None, bool]:
    """Return the trial that `export` takes, and whether a confirmation named it."""
    confirmed = None
    with suppress(CorruptError, DiskError):  # the page's section on it says why
        confirmed = read_confirmed(view)
    return confirmed if confirmed is not None and confirmed[1] else (view.best(), False)


def _or_why(read: Callable[[], T | str]) -> T | str:
    try:
        return read()
    except HpsearchError as error:
        return str(error)
