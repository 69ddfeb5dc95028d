"""Sends a study's trials to its trackers: once, or again and again while it is driven."""

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hpsearch.cluster.failures import StopFlag, message_of
from hpsearch.cluster.record_files import RecordFile
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.report.tracking.mirror import Mirror, SentRuns, TrackerRuns
from hpsearch.report.tracking.mlflow_runs import MlflowRuns
from hpsearch.report.tracking.wandb_runs import WandbRuns
from hpsearch.study import options
from hpsearch.study.state import BUSY, PAUSED
from hpsearch.study.view import StudyView, open_view

LOOK_SECONDS: Final = 20.0  # between two looks at the study


def track_once(view: StudyView) -> int:
    """Send what is new of all trials to each tracker; return of how many there was something.

    Raises UsageError without a tracker, HpsearchError if one does not take them.
    """
    with _mirrors(view) as mirrors:
        return max(_send(name, mirror, view) for name, mirror in mirrors.items())


def track_on(study: str, runs: Path, flag: StopFlag, tell: Callable[[str], None]) -> None:
    """Send what is new until the study ends, or no driver is there, or the flag is set.

    A tracker that does not answer is tried again at the next look; ``tell`` hears of it.
    """
    view = open_view(study, runs)
    with _mirrors(view) as mirrors:
        silent: dict[str, str] = {}
        while True:
            is_over = flag.is_set or not (view.is_driven and view.state.status in (*BUSY, PAUSED))
            for name, mirror in mirrors.items():
                try:
                    _send(name, mirror, view)
                    silent.pop(name, None)
                except HpsearchError as error:
                    if silent.get(name) != str(error):
                        tell(str(error))
                    silent[name] = str(error)
            if is_over:
                return
            flag.rest(LOOK_SECONDS)
            view = open_view(study, runs)


def _send(name: str, mirror: Mirror, view: StudyView) -> int:
    try:
        return mirror.send(view)
    except HpsearchError:
        raise
    except Exception as error:
        # Whatever a library or a network raises is what has to be told.
        why = message_of(error)
        raise HpsearchError(f"{name} did not take the trials of {view.name}: {why}") from error


@contextmanager
def _mirrors(view: StudyView) -> Iterator[dict[str, Mirror]]:
    """Give a mirror for each tracker, by its name; no other process has them meanwhile."""
    trackers = view.study.spec.track
    if not trackers:
        raise UsageError(f"{view.study.path} names no tracker; see its key track")
    mirrors: dict[str, Mirror] = {}
    with view.folder.tracking_lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another process sends the trials of {view.name} to its trackers by now"
            ) from error
        try:
            for tracker in trackers:
                try:
                    built = _build(tracker, view)
                except HpsearchError:
                    raise
                except Exception as error:
                    why = message_of(error)
                    raise HpsearchError(f"{tracker.name} does not answer: {why}") from error
                record = RecordFile(SentRuns, view.folder.tracked(tracker.name))
                mirrors[tracker.name] = Mirror(built, record)
            yield mirrors
        finally:
            for mirror in mirrors.values():
                mirror.close()


def _build(tracker: options.Tracker, view: StudyView) -> TrackerRuns:
    match tracker:
        case options.MlflowTracker():
            return MlflowRuns(tracker, view.name)
        case options.WandbTracker():
            return WandbRuns(tracker, view.folder.wandb)
