"""A study in Python: what the commands do with one; studies that are new or bred."""

import shlex
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from math import inf
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hpsearch import yaml_file
from hpsearch.api import background, deriving
from hpsearch.api.arguments import as_list, check_positive, checked
from hpsearch.api.driving import failure_of, find_study
from hpsearch.api.foreground import drive_here
from hpsearch.api.study_check import StudyCheck, check_study
from hpsearch.api.study_reader import RUNS, StudyReader
from hpsearch.cluster.threads import let_threads_wait
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.files import write_text
from hpsearch.names import runs_option
from hpsearch.schema import to_plain
from hpsearch.study.derived import BredSizes
from hpsearch.study.requests import Verb
from hpsearch.study.spec import StudySpec
from hpsearch.study.state import BUSY, FAILED
from hpsearch.study.view import INTERRUPTED, Followed, study_of_file
from hpsearch.terminal import Terminal, say
from hpsearch.trainers.config import TrainerConfig

if TYPE_CHECKING:
    from hpsearch.analysis.confirmation import Confirmation

GLANCE_SECONDS = 1.0  # between two looks at a study that is waited for
QUESTION_SECONDS = 10.0  # between two questions whether one without a driver is to get one


class StudyHandle(StudyReader):
    """A study of a file, or one that was started: looked at, run, and asked for something.

    Everything is read anew by each call, and a driver may run meanwhile, here or elsewhere. What
    goes wrong is an `HpsearchError`, whose text is the sentence that the command line prints.
    """

    # Before it runs.

    def validate(self) -> StudyCheck:
        """Return what the study's file would do; ConfigError lists every fault of it."""
        path = Path(self._where) if self.is_file else self.view().study.path
        return check_study(path, self.runs)

    # Letting it run.

    @checked
    def run(self, *, trials: int | None = None) -> "StudyHandle":
        """Run it in this process to its end, or go on with it, and show how far it is.

        ``trials`` replaces the file's budget. Raises StudyFailedError if too many trials fail, and
        KeyboardInterrupt once running trials are saved after Ctrl-C, or "interrupt" in a notebook.
        """
        _check_thread("run")
        let_threads_wait()
        study, _ = find_study(self._where, self.runs, trials=trials)
        go_on = f"hpsearch run {shlex.quote(str(self._where))}{runs_option(self.runs)}"
        view = drive_here(study, self.runs, Terminal(outlives_reader=True), command_to_go_on=go_on)
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

    @checked
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
        background.request(self.view(), self.runs, verb)

    def retry(
        self, *, kinds: Collection[str] | str = (), trials: Collection[int] | int = ()
    ) -> None:
        """Try failed trials again as new ones, those of some kinds of failure or numbers, or all.

        Raises UsageError for an unknown kind or number, and where nothing is left to try again.
        """
        kinds = as_list("kinds", kinds, (str,), "a kind of failure")
        trials = as_list("trials", trials, (Integral,), "the number of a trial")
        background.retry(self.view(), self.runs, kinds, trials)

    def enqueue(self, params: Mapping[str, Any]) -> None:
        """Let the next trial have these values, by dotted path; others are suggested as ever.

        It counts against the budget. Raises UsageError for values that the space does not hold, and
        for a population, which plans its trials itself.
        """
        if not isinstance(params, Mapping):
            raise UsageError(f"values are a dict by dotted path, but are {params!r}")
        background.enqueue(self.view(), self.runs, _without_numpy(dict(params)))

    # What comes of it.

    @checked
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

    @checked
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


def _check_thread(what: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            f"{what} takes Ctrl-C, which the main thread alone can; call it there, or leave the "
            "study to a driver by submit()"
        )


@checked
def open_study(name_or_file: str | Path, runs: str | Path = RUNS) -> StudyHandle:
    """Return the study of a file, or a started one by its name.

    Raises ConfigError with every fault of the file, UsageError if no such study was started.
    """
    study = StudyHandle(name_or_file, Path(runs))
    if study.is_file:
        study_of_file(Path(name_or_file), study.runs)
    else:
        study.view()
    return study


@checked
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


@checked
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
    known = (StudyHandle, str, Path)
    given = as_list("studies", studies, known, "a study, its file or its name")
    if not given:
        raise UsageError("name at least one study, whose best a population begins with")
    check_positive(members=members, interval=interval, trials=trials)
    views = [
        (study if isinstance(study, StudyHandle) else StudyReader(study, runs)).view()
        for study in given
    ]
    sizes = BredSizes(members, interval, trials, seed)
    return StudyHandle(deriving.begin_bred(views, name, runs, sizes).path, runs)
