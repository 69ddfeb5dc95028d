"""A study as its files and database show it: its trials as records and tables, its figures.

Loads no more than the commands do that only look at studies; what runs one is in study_handle.py.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpsearch.api import notebook
from hpsearch.api.arguments import checked
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import StorageUnavailableError, UsageError
from hpsearch.report.listing import ListedStudy, table_rows
from hpsearch.report.listing import list_studies as listed_studies
from hpsearch.report.text import awaited_text, status_summary
from hpsearch.report.trial_record import TrialRecord, trial_record
from hpsearch.study.view import StudyView, best_trial, find_awaited, open_view, study_of_file

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from hpsearch.analysis.lineage import Relative
    from hpsearch.api.player import Player

RUNS = Path("runs")


class StudyReader:
    """What a `StudyHandle` tells of its study without changing it."""

    def __init__(self, name_or_file: str | Path, runs: Path) -> None:
        """Take a study file or the name of a started study below ``runs``; nothing is read yet."""
        self._where = str(name_or_file)
        self.runs = Path(runs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._where!r}, runs={str(self.runs)!r})"

    def _repr_html_(self) -> str:
        return notebook.status_html(self.view)

    @property
    def is_file(self) -> bool:
        return Path(self._where).suffix in (".yaml", ".yml")

    @property
    def name(self) -> str:
        return study_of_file(Path(self._where), self.runs)[0] if self.is_file else self._where

    @property
    def folder(self) -> Path:
        """The folder of all that the study writes but its database."""
        return (self.runs / self.name).absolute()

    def view(self) -> StudyView:
        """Return the read model that hpsearch itself uses, which may change between versions."""
        try:
            return open_view(self._where, self.runs)
        except StorageUnavailableError as error:
            raise StorageUnavailableError(f"{error}; {self._known_of_driver()}") from error

    def _known_of_driver(self) -> str:
        """Return what can be known of the driver while the database is away."""
        folder = StudyDir(self.folder)
        start = find_awaited(folder)
        return "no driver is there" if start is None else f"driver: {awaited_text(folder, start)}"

    def status(self) -> dict[str, Any]:
        """Return how far it is and what it has cost; the keys are published and stay."""
        return status_summary(self.view())

    def trials(self) -> list[TrialRecord]:
        """Return all trials by their numbers."""
        view = self.view()
        return [trial_record(view, trial) for trial in view.state.trials.values()]

    def frame(self) -> "DataFrame":
        """Return a row for each trial: state, objectives with their intervals, parameters.

        Raises UsageError without pandas.
        """
        columns, *rows = table_rows(self.view())
        return notebook.data_frame(rows, columns).set_index(columns[0])

    def best(self) -> TrialRecord:
        """Return the best finished trial, or a population's champion; HpsearchError if none is."""
        view = self.view()
        return trial_record(view, best_trial(view))

    @checked
    def lineage(self, trial: int | None = None) -> "list[Relative]":
        """Return the line of first parents to a trial of a population, the champion's by default.

        Raises UsageError if it is no population, or no such trial has finished.
        """
        from hpsearch.analysis.lineage import read_lineage

        ancestry = read_lineage(self.view())
        return ancestry.champions_line() if trial is None else ancestry.line(trial)

    def plot_history(self) -> "Figure":
        """Return the value of each finished trial, with the best so far; needs plotly."""
        return notebook.history_figure(self.view())

    def plot_learning(self) -> "Figure":
        """Return the learning curves, the best in colour; needs plotly."""
        return notebook.learning_figure(self.view())

    @checked
    def player(self, trial: int | None = None) -> "Player":
        """Return the players of a trial's newest checkpoint, of the best trial by default."""
        from hpsearch.api.player import load_player  # it loads torch

        view = self.view()
        view.require_players()
        number = best_trial(view).number if trial is None else trial
        if number not in view.state.trials:
            raise UsageError(f"the study {view.name} has no trial {number}")
        return load_player(view.folder.trial(number).root)


@checked
def list_studies(runs: str | Path = RUNS) -> list[ListedStudy]:
    """Return every study that was started below a folder, whatever has become of it."""
    return list(listed_studies(Path(runs)))
