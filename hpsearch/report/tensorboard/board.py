"""A folder that TensorBoard reads: a run a trial, kept up to date.

A run is written wholly whenever its trial has changed. The new event file appears at once and tells
readers to discard what the one before said; that one stays until the next, for a reader whose file
vanishes may never look for another. Where a trial's job wrote event files itself
(monitor.tensorboard), they are the run ``trial-N/training``, by a link.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from hpsearch.cluster.trial_dir import TrialDir
from hpsearch.errors import CorruptError, unwritten
from hpsearch.monitor.event_file import EventFile, event_file_name
from hpsearch.report.tensorboard.curves import final_values, points
from hpsearch.report.tensorboard.hparams import end_summary, experiment_summary, start_summary
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial

TRAINING = "training"

Stamp = tuple[object, ...]


class Board:
    """Writes the folder."""

    def __init__(self, folder: Path) -> None:
        """Write into ``folder``, which may hold what was written before."""
        self._folder = folder
        self._written: dict[int, Stamp] = {}
        self._has_begun = False

    def write(self, view: StudyView) -> int:
        """Write the trials that have changed since the last time; return how many.

        Raises:
            DiskError: if a file cannot be written or read.
        """
        try:
            if not self._has_begun:
                self._replace(self._folder, lambda file: _write_experiment(file, view))
                self._has_begun = True
            return sum(self._refresh(view, trial) for trial in view.state.trials.values())
        except OSError as error:
            then = "run the same command again, or give another folder by -o"
            raise unwritten(self._folder, error, then) from error

    def _refresh(self, view: StudyView, trial: Trial) -> bool:
        files = view.folder.trial(trial.number)
        stamp = _stamp(trial, files)
        if self._written.get(trial.number) == stamp:
            return False
        run = self._folder / f"trial-{trial.number}"
        self._replace(run, lambda file: _write_trial(file, view, trial, files))
        _link(run / TRAINING, files.tensorboard)
        self._written[trial.number] = stamp
        return True

    def _replace(self, run: Path, write: Callable[[EventFile], None]) -> None:
        """Add an event file to a run that replaces those before."""
        run.mkdir(parents=True, exist_ok=True)
        before = sorted(run.glob("events.out.tfevents.*"))
        # Under another name than TensorBoard looks for, in the form that gc knows.
        temporary = self._folder / f".run-{uuid4().hex}"
        try:
            file = EventFile(temporary.open("xb"), keeps=-1)
            try:
                write(file)
            finally:
                file.close()
            temporary.rename(run / event_file_name())
        finally:
            temporary.unlink(missing_ok=True)
        for path in before[:-1]:
            path.unlink(missing_ok=True)


def _write_experiment(file: EventFile, view: StudyView) -> None:
    file.write_summary(view.state.started_at or 0.0, 0, experiment_summary(view.study))


def _write_trial(file: EventFile, view: StudyView, trial: Trial, files: TrialDir) -> None:
    file.write_summary(trial.asked_at, 0, start_summary(view.study, trial))
    step, at = 0, trial.asked_at
    with suppress(CorruptError):  # no curve, where something else lies in its place
        for point in points(trial, files.read_metrics()):
            file.write(point.at, point.step, point.values)
            step, at = max(step, point.step), point.at
    if trial.told is not None:
        file.write(at, max(step, trial.step), final_values(trial))
        file.write_summary(at, max(step, trial.step), end_summary(trial, at))


def _stamp(trial: Trial, files: TrialDir) -> Stamp:
    """Return what differs when a trial has changed."""
    try:
        found = files.metrics.stat()
        curve = (found.st_ino, found.st_size, found.st_mtime_ns)
    except FileNotFoundError:
        curve = None
    return curve, trial.told, len(trial.takeovers), files.tensorboard.is_dir()


def _link(link: Path, folder: Path) -> None:
    """Let TensorBoard find what a trial's job wrote itself."""
    is_there = folder.is_dir()
    if link.is_symlink() and (not is_there or link.readlink() != folder):
        link.unlink()
    if is_there and not link.is_symlink():
        link.symlink_to(folder, target_is_directory=True)
