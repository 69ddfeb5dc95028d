"""A study in Python: what the commands do with one, and its trials as records and tables."""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsearch import yaml_file
from hpsearch.api import background, deriving, notebook
from hpsearch.api.arguments import check_positive
from hpsearch.api.driving import failure_of, find_study, study_to_resume
from hpsearch.api.foreground import drive_here
from hpsearch.api.study_check import StudyCheck, check_study
from hpsearch.cluster.machine import let_threads_wait
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.files import write_text
from hpsearch.names import runs_option
from hpsearch.report.listing import ListedStudy, table_rows
from hpsearch.report.listing import list_studies as listed_studies
from hpsearch.report.text import status_summary
from hpsearch.report.trial_record import TrialRecord, trial_record
from hpsearch.schema import to_plain
from hpsearch.study.derived import BredSizes
from hpsearch.study.requests import Request, Verb
from hpsearch.study.spec import StudySpec, load_spec
from hpsearch.study.state import BUSY, FAILED
from hpsearch.study.view import INTERRUPTED, Followed, StudyView, best_trial, open_view
from hpsearch.terminal import Terminal, say
from hpsearch.trainers.config import TrainerConfig

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

    from hpsearch.analysis.confirmation import Confirmation
    from hpsearch.analysis.lineage import Relative
    from hpsearch.api.player import Player

RUNS = Path("runs")
GLANCE_SECONDS = 1.0  # between two looks at a study that is waited for
QUESTION_SECONDS = 10.0  # between two questions whether one without a driver is to get one


class StudyHandle:
    """A study of a file, or one that was started, as it is whenever something is asked of it.

    Everything is read anew by each call, and a driver may run meanwhile, here or elsewhere. What
    goes wrong is an `HpsearchError`, whose text is the sentence that the command line prints.
    """

    def __init__(self, name_or_file: str | Path, runs: Path) -> None:
        """Take a study file or the name of a started study below ``runs``; nothing is read yet."""
        self._where = str(name_or_file)
        self.runs = Path(runs)

    def __repr__(self) -> str:
        return f"StudyHandle({self._where!r}, runs={str(self.runs)!r})"

    def _repr_html_(self) -> str:
        return notebook.status_html(self.view)

    @property
    def is_file(self) -> bool:
        return Path(self._where).suffix in (".yaml", ".yml")

    @property
    def name(self) -> str:
        return load_spec(Path(self._where)).spec.name if self.is_file else self._where

    @property
    def folder(self) -> Path:
        """The folder of all that the study writes but its database."""
        return (self.runs / self.name).absolute()

    def view(self) -> StudyView:
        """Return the read model that hpsearch itself uses, which may change between versions."""
        return open_view(self._where, self.runs)

    # Before it runs.

    def validate(self) -> StudyCheck:
        """Return what the study's file would do; ConfigError lists every fault of it."""
        path = Path(self._where) if self.is_file else self.view().study.path
        return check_study(path, self.runs)

    # Letting it run.

    def run(self, *, trials: int | None = None) -> "StudyHandle":
        """Run it in this process to its end, or go on with it, and show how far it is.

        ``trials`` replaces the file's budget. Raises StudyFailedError if too many trials fail, and
        KeyboardInterrupt once running trials are saved after Ctrl-C, or "interrupt" in a notebook.
        """
        _check_thread("run")
        let_threads_wait()
        study, _ = find_study(self._where, self.runs, trials=trials)
        go_on = f"hpsearch run {study.path}{runs_option(self.runs)}"
        view = drive_here(study, self.runs, Terminal(), command_to_go_on=go_on)
        if view is None:
            raise KeyboardInterrupt
        if view.state.status == FAILED:
            raise failure_of(view)
        return self

    def submit(self) -> bool:
        """Leave it to a driver that outlives this process; return whether anything is to be done.

        Raises UsageError if the scheduler would not take its jobs.
        """
        let_threads_wait()
        study, _ = find_study(self._where, self.runs)
        return background.leave_to_driver(study, self.runs)

    def wait(self, seconds: float | None = None) -> str:
        """Wait until it ends, pauses or lacks a driver, at most so long; return its state then."""
        deadline = time.monotonic() + (inf if seconds is None else seconds)
        next_question = time.monotonic()  # whether a driver is to come may be a SLURM's to say
        with closing(Followed(self._where, self.runs)) as followed:
            while followed.view.state.status in BUSY and time.monotonic() < deadline:
                if not followed.view.is_driven and time.monotonic() >= next_question:
                    if followed.view.status == INTERRUPTED:
                        break
                    next_question = time.monotonic() + QUESTION_SECONDS
                time.sleep(min(GLANCE_SECONDS, max(0.0, deadline - time.monotonic())))
                followed.look()
            return followed.view.status

    def pause(self) -> None:
        """Start nothing new until `resume`."""
        self.request("pause")

    def resume(self) -> None:
        """Go on, by a driver of its own, if it was paused, stopped, cancelled or interrupted."""
        self.request("resume")

    def stop(self) -> None:
        """End it when what has begun has finished."""
        self.request("stop")

    def cancel(self) -> None:
        """End all its jobs at once."""
        self.request("cancel")

    def request(self, verb: Verb) -> None:
        """Ask for what the methods above are called, or do it where there is no driver."""
        view = self.view()
        if verb == "resume":
            study = study_to_resume(view)
        else:  # a driver that is there is only asked
            study = view.study if view.is_driven else view.whole_study()
        background.refuse_what_changes_nothing(view, study, verb)
        background.ask(view, study, self.runs, Request(verb))

    def retry(self, *, kinds: Collection[str] = (), trials: Collection[int] = ()) -> None:
        """Try failed trials again as new ones, those of some kinds of failure or numbers, or all.

        Raises UsageError for an unknown kind or number, and where nothing is left to try again.
        """
        background.retry(self.view(), self.runs, kinds, trials)

    def enqueue(self, params: Mapping[str, Any]) -> None:
        """Let the next trial have these values, by dotted path; others are suggested as ever.

        It counts against the budget. Raises UsageError for values that the space does not hold, and
        for a population, which plans its trials itself.
        """
        background.enqueue(self.view(), self.runs, params)

    # Looking at it.

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

    # What comes of it.

    def confirm(
        self,
        *,
        top: int | None = None,
        seeds: int | None = None,
        games: int = deriving.CONFIRMED_GAMES,
        best_response: int | None = None,
    ) -> "Confirmation":
        """Train the best again on held-out seeds, shown as `run` does; return which is the best.

        ``top`` is how many of the best, ``seeds`` the trainings of each, ``games`` those that each
        plays, ``best_response`` the steps for which an opponent trains against each. Raises
        KeyboardInterrupt as `run` does; the same call goes on.
        """
        _check_thread("confirm")
        check_positive(top=top, seeds=seeds, games=games, best_response=best_response)
        let_threads_wait()
        confirmed = deriving.confirm(
            self.view(),
            self.runs,
            top=top,
            seeds=seeds,
            games=games,
            best_response=best_response,
            submit=False,
            as_json=False,
        )
        if isinstance(confirmed, int):
            raise KeyboardInterrupt
        return confirmed

    def export(
        self,
        folder: str | Path | None = None,
        *,
        trial: int | None = None,
        top: int | None = None,
        pareto: bool = False,
        games: int = 10_000,
        sign: str | Path | None = None,
    ) -> list[Path]:
        """Write the best trial, or others, as folders that stand alone; return these.

        ``trial`` is a number, ``top`` how many of the best; with ``pareto`` all that no other beats
        in every objective. The certificate is of so many ``games``; ``sign`` is an SSH key.
        """
        from hpsearch.api.exporting import choose_trials, conditions, export_chosen  # loads torch

        check_positive(top=top, games=games)
        if sum((trial is not None, top is not None, pareto)) > 1:
            raise UsageError("trial, top and pareto exclude each other; give one of them")
        view = self.view()
        chosen = choose_trials(view, self.runs, trial=trial, top=top, pareto=pareto)
        place = chosen.folder if folder is None else Path(folder).absolute()
        how = conditions(games, None if sign is None else Path(sign), "StudyHandle.export")
        if chosen.warning is not None:
            say(chosen.warning)
        return [bundle.folder for bundle in export_chosen(view, chosen, place, how)]

    def player(self, trial: int | None = None) -> "Player":
        """Return the players of a trial's newest checkpoint, of the best trial by default."""
        from hpsearch.api.player import load_player  # it loads torch

        view = self.view()
        view.require_players()
        number = best_trial(view).number if trial is None else trial
        if number not in view.state.trials:
            raise UsageError(f"the study {view.name} has no trial {number}")
        return load_player(view.folder.trial(number).root)


def _check_thread(what: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            f"{what} takes Ctrl-C, which the main thread alone can; call it there, or leave the "
            "study to a driver by submit()"
        )


def open_study(name_or_file: str | Path, runs: str | Path = RUNS) -> StudyHandle:
    """Return the study of a file, or a started one by its name.

    Raises ConfigError with every fault of the file, UsageError if no such study was started.
    """
    study = StudyHandle(name_or_file, Path(runs))
    if study.is_file:
        load_spec(Path(name_or_file))
    else:
        study.view()
    return study


def create_study(
    spec: StudySpec | Mapping[str, Any],
    path: str | Path,
    *,
    base: TrainerConfig | Mapping[str, Any] | None = None,
    runs: str | Path = RUNS,
) -> StudyHandle:
    """Write a study file, and return its study.

    A ``base`` configuration is written beside it, as NAME_trainer.yaml, and takes the place of the
    one that ``spec`` names. Raises UsageError if a file exists, ConfigError with every fault of
    the study; then nothing is written.
    """
    path = Path(path)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(f"a study is a .yaml file, got {str(path)!r}; change its ending")
    plain = _without_numpy(to_plain(spec))
    texts: dict[Path, str] = {}
    if base is not None:
        trainer = path.with_name(f"{path.stem}_trainer.yaml")
        plain = {**plain, "base": trainer.name}
        texts[trainer] = yaml_file.dump(_without_numpy(to_plain(base)))
    texts[path] = yaml_file.dump(plain)
    for file in texts:
        if file.exists():
            raise UsageError(f"{file} exists and is not overwritten; name another file")
    try:
        for file, text in texts.items():
            write_text(file, text)
        return open_study(path, runs)
    except HpsearchError:
        for file in texts:
            file.unlink(missing_ok=True)
        raise


def _without_numpy(data: Any) -> Any:
    """Return plain data with Python's numbers for numpy's, which YAML does not know."""
    match data:
        case dict():
            return {key: _without_numpy(own) for key, own in data.items()}
        case list():
            return [_without_numpy(own) for own in data]
        case np.generic():
            return data.item()
    return data


def list_studies(runs: str | Path = RUNS) -> list[ListedStudy]:
    """Return every study that was started below a folder, whatever has become of it."""
    return list(listed_studies(Path(runs)))


def breed(
    studies: Sequence[StudyHandle | str | Path] | StudyHandle | str | Path,
    *,
    name: str | None = None,
    members: int | None = None,
    interval: int | None = None,
    trials: int | None = None,
    seed: int | None = None,
    runs: str | Path = RUNS,
) -> StudyHandle:
    """Return the study of a population that begins with the best of finished ones; `run` it.

    ``studies`` are handles, files and names. Other arguments as the options of `hpsearch breed`,
    and so are their defaults and errors.
    """
    runs = Path(runs)
    studies = [studies] if isinstance(studies, StudyHandle | str | Path) else studies
    if not studies:
        raise UsageError("name at least one study, whose best a population begins with")
    check_positive(members=members, interval=interval, trials=trials)
    views = [
        study.view() if isinstance(study, StudyHandle) else open_view(str(study), runs)
        for study in studies
    ]
    sizes = BredSizes(members, interval, trials, seed)
    return StudyHandle(deriving.begin_bred(views, name, runs, sizes).path, runs)
