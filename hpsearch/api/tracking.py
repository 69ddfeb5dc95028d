"""Sends a study's trials to its trackers: once, or again and again while it is driven."""

import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hpsearch.cluster.failures import StopFlag, message_of
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.report.tracking.mirror import Mirror, SentRuns
from hpsearch.report.tracking.mlflow_runs import MlflowRuns
from hpsearch.report.tracking.wandb_runs import WandbRuns
from hpsearch.schema import to_plain
from hpsearch.study import options
from hpsearch.study.state import BUSY, PAUSED
from hpsearch.study.tracker_runs import TrackerRuns
from hpsearch.study.view import StudyView, open_view

LOOK_SECONDS: Final = 20.0  # between two looks at the study


def track_once(view: StudyView) -> int:
    """Send what is new of all trials to each tracker; return of how many there was something.

    Raises UsageError without a tracker, or where another process sends them; HpsearchError if a
    tracker does not take them, once all others have.
    """
    trackers = view.whole_study("track").spec.track
    if not trackers:
        raise UsageError(f"{view.study.path} names no tracker; see its key track")
    with _held(view.folder) as is_held:
        if not is_held:
            raise UsageError(f"another process sends the trials of {view.name} to its trackers")
        senders = [_Sender(tracker) for tracker in trackers]
        try:
            num_trials = max(sender.send(view) for sender in senders)
        finally:
            _close(senders)
        _raise_first(senders)
        return num_trials


def track_on(study: str, runs: Path, flag: StopFlag, tell: Callable[[str], None]) -> None:
    """Send what is new until the study ends, or no driver is there, or the flag is set.

    Ends at once where another process does so. A tracker that does not answer is tried again at the
    next look; ``tell`` hears of it. Raises HpsearchError if one did not take the last of it.
    """
    view = open_view(study, runs)
    trackers = view.whole_study("track").spec.track
    with _held(view.folder) as is_held:
        if not is_held:
            return
        senders = [_Sender(tracker) for tracker in trackers]
        try:
            while True:
                lives = view.is_driven and view.state.status in (*BUSY, PAUSED)
                is_over = flag.is_set or not lives
                for sender in senders:
                    before = sender.fault
                    sender.send(view)
                    if sender.fault is not None and sender.fault != before:
                        tell(sender.fault)
                # A resumed study may name others, of which the driver starts another process.
                if is_over or view.study.spec.track != trackers:
                    break
                flag.rest(LOOK_SECONDS)
                view = open_view(study, runs)
        finally:
            _close(senders)
        _raise_first(senders)


@contextmanager
def _held(folder: StudyDir) -> Iterator[bool]:
    """Give whether no other process sends this study's trials, which none does meanwhile."""
    with folder.tracking_lock.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


class _Sender:
    """Sends trials to one tracker, once it answers."""

    def __init__(self, tracker: options.Tracker) -> None:
        self._tracker = tracker
        self._mirror: Mirror | None = None
        self.fault: str | None = None  # why the tracker did not take all at the last look

    def send(self, view: StudyView) -> int:
        """Send what is new; return of how many trials there was something."""
        self.fault = None
        try:
            if self._mirror is None:
                record = RecordFile(SentRuns, view.folder.tracked(_key(self._tracker)))
                self._mirror = Mirror(_build(self._tracker, view), record)
            return self._mirror.send(view)
        except Exception as error:  # whatever a library or a network raises is what is to be told
            self.fault = f"{self._tracker.name} did not take all: {message_of(error)}"
            return 0

    def close(self) -> None:
        try:
            if self._mirror is not None:
                self._mirror.close()
        except Exception as error:  # as above
            self.fault = f"{self._tracker.name} did not take all: {message_of(error)}"


def _close(senders: Sequence[_Sender]) -> None:
    for sender in senders:
        sender.close()


def _raise_first(senders: Sequence[_Sender]) -> None:
    faults = [sender.fault for sender in senders if sender.fault is not None]
    if faults:
        raise HpsearchError("; ".join(faults))


def _key(tracker: options.Tracker) -> str:
    """Return a name that no tracker has of another address or project."""
    whole = json.dumps(to_plain(tracker), sort_keys=True)
    return f"{tracker.name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _build(tracker: options.Tracker, view: StudyView) -> TrackerRuns:
    match tracker:
        case options.MlflowTracker():
            return MlflowRuns(tracker, view.name)
        case options.WandbTracker():
            return WandbRuns(tracker, view.folder.tracker(tracker.name))
        case options.TrackerExtension():
            return tracker.open(view.name, view.folder.tracker(tracker.name))
