"""Which trials of a study are exported, and their bundles."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hpsearch.analysis.candidates import the_front, the_top
from hpsearch.analysis.confirmation import the_best, unconfirmed
from hpsearch.errors import UsageError
from hpsearch.export.writing import How, Measures, bundle_names, export_bundle, export_bundles
from hpsearch.names import runs_option
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView
from hpsearch.terminal import say


@dataclass(frozen=True)
class ChosenTrials:
    trials: Sequence[Trial]  # the best first
    is_one: bool  # whether one was asked for, whose bundle is the folder itself
    folder: Path  # where they are exported unless another place is asked for
    warning: str | None  # why another trial may be better


def choose_trials(
    view: StudyView, runs: Path, *, trial: int | None, top: int | None, pareto: bool
) -> ChosenTrials:
    """Return the best, a trial by its number, the ``top`` best, or those of the Pareto front.

    Raises UsageError if there is no such trial, HpsearchError if none has finished.
    """
    view.require_players()
    confirm = f"hpsearch confirm {view.name}{runs_option(runs)}"
    if pareto:
        return ChosenTrials(the_front(view), is_one=False, folder=view.folder.front, warning=None)
    if trial is not None:
        if trial not in view.state.trials:
            numbers = f"only 0 to {len(view.state.trials) - 1}" if view.state.trials else "none yet"
            raise UsageError(f"the study {view.name} has no trial {trial}, {numbers}")
        return _one(view, view.state.trials[trial], unconfirmed(view, confirm))
    best, warning = the_best(view, confirm)
    if top is None:
        return _one(view, best, warning)
    trials = the_top(view, top, best)
    if len(trials) < top:
        say(f"{view.name} has only {len(trials)} to export")
    return ChosenTrials(trials, is_one=False, folder=view.folder.top, warning=warning)


def _one(view: StudyView, trial: Trial, warning: str | None) -> ChosenTrials:
    return ChosenTrials([trial], is_one=True, folder=view.folder.best, warning=warning)


@dataclass(frozen=True)
class ExportedBundle:
    folder: Path
    trial: Trial
    measures: Measures


def export_chosen(
    view: StudyView, chosen: ChosenTrials, folder: Path, how: How
) -> list[ExportedBundle]:
    """Write the bundle of one trial as the folder, or one for each below it, or none."""
    if chosen.is_one:
        (trial,) = chosen.trials
        return [ExportedBundle(folder, trial, export_bundle(view, trial, folder, how))]
    measures = export_bundles(view, chosen.trials, folder, how)
    places = [folder / name for name in bundle_names(chosen.trials)]
    return [ExportedBundle(*bundle) for bundle in zip(places, chosen.trials, measures, strict=True)]


def conditions(num_games: int, key: Path | None, command: str) -> How:
    """Return how bundles are made now, by a ``command`` that their provenance names."""
    return How(num_games, command, datetime.now(UTC), key)
