"""Keeps the runs of a tracker as the trials are: parameters, learning curves, losses, ends.

A record in the study's folder says what has been sent. It is written every few seconds, so that a
process that was killed leaves little that is sent again.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from hpsearch.cluster.record_files import CurveFile, RecordFile
from hpsearch.cluster.study_dir import TrialDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import open_file
from hpsearch.schema import NonNegative
from hpsearch.study.records import Trial
from hpsearch.study.tracker_runs import RunStart, SentPoint, TrackerRuns
from hpsearch.study.view import StudyView

RECORD_SECONDS = 5.0  # between two writes of the record, while there is much to send
MAX_FAILURES = 3  # trials in a row that a tracker may fail to take
TRAINING = "train/"  # begins the names of losses and rates, beside those of evaluations


@dataclass(frozen=True)
class SentRun:
    trial: NonNegative
    run: str  # what the tracker calls it
    evaluated: NonNegative = 0  # step of the last evaluation that was sent
    trained: NonNegative = 0  # the same of losses
    has_ended: bool = False


@dataclass(frozen=True)
class SentRuns:
    runs: tuple[SentRun, ...] = ()


class Mirror:
    def __init__(self, tracker: TrackerRuns, record: RecordFile[SentRuns]) -> None:
        """Take a tracker and the record of what it has; CorruptError if that is damaged."""
        self._tracker = tracker
        self._record = record
        known = record.read() or SentRuns()
        self._sent = {sent.trial: sent for sent in known.runs}
        self._begun: set[int] = set()  # the trials whose runs this process has begun
        self._seen: dict[int, tuple[object, ...]] = {}  # what each trial was like
        self._is_new = False  # whether the record lacks something
        self._next_write = 0.0

    def send(self, view: StudyView) -> int:
        """Send what is new of all trials; return of how many there was something.

        A trial that the tracker refuses holds no other up, but where several fail in a row the rest
        waits for the next call. The first error is raised at the end.
        """
        num_sent, in_a_row, first = 0, 0, None
        for trial in view.state.trials.values():
            try:
                num_sent += self._send(view, trial)
                in_a_row = 0
            except Exception as error:  # whatever a library or a network raises
                self._begun.discard(trial.number)
                first, in_a_row = first or error, in_a_row + 1
                if in_a_row == MAX_FAILURES:
                    break
        self._write()
        if first is not None:
            raise first
        return num_sent

    def close(self) -> None:
        self._tracker.close()

    def _send(self, view: StudyView, trial: Trial) -> bool:
        number, files = trial.number, view.folder.trial(trial.number)
        sent = self._sent.get(number)
        has_begun = trial.attempts > 0 or trial.told is not None
        if not has_begun or (sent is not None and sent.has_ended):
            return False
        seen = (trial.told, _stamp(files.metrics), _stamp(files.training_log))
        if self._seen.get(number) == seen:
            return False
        if number not in self._begun:
            key = f"{view.folder.key}-{trial.asked_at:.0f}-{number}"
            start = RunStart(view.name, number, key, view.settings(trial), trial.asked_at)
            run = self._tracker.begin(start, None if sent is None else sent.run)
            sent = SentRun(number, run) if sent is None else replace(sent, run=run)
            self._begun.add(number)
            self._keep(sent)
        assert sent is not None, "it has begun"
        self._keep(self._add(sent, files))
        if trial.told is not None:
            values = {name: own["value"] for name, own in trial.metrics.items()}
            self._tracker.end(sent.run, trial.told, values)
            self._keep(replace(self._sent[number], has_ended=True))
        self._seen[number] = seen
        return True

    def _add(self, sent: SentRun, files: TrialDir) -> SentRun:
        """Send what is new in a trial's files; return what has been sent then."""
        evaluated = [own for own in _evaluations(files) if own.step > sent.evaluated]
        trained = [own for own in _training(files) if own.step > sent.trained]
        points = sorted([*evaluated, *trained], key=lambda point: point.step)
        if points:
            self._tracker.log(sent.run, points)
        return replace(
            sent,
            evaluated=max([sent.evaluated, *(own.step for own in evaluated)]),
            trained=max([sent.trained, *(own.step for own in trained)]),
        )

    def _keep(self, sent: SentRun) -> None:
        if self._sent.get(sent.trial) != sent:
            self._sent[sent.trial], self._is_new = sent, True
            if time.monotonic() >= self._next_write:
                self._write()

    def _write(self) -> None:
        if self._is_new:
            self._record.write(SentRuns(tuple(self._sent.values())))
            self._is_new, self._next_write = False, time.monotonic() + RECORD_SECONDS


def _evaluations(files: TrialDir) -> Iterator[SentPoint]:
    for row in _rows(files.metrics):
        metrics = row.get("metrics")
        if isinstance(metrics, dict):
            measured = {n: own["value"] for n, own in metrics.items() if _is_measured(own)}
            yield SentPoint(row["step"], _moment(row), _numbers(measured))


def _training(files: TrialDir) -> Iterator[SentPoint]:
    for row in _rows(files.training_log):
        scalars = row.get("scalars")
        if isinstance(scalars, dict):
            named = {f"{TRAINING}{name}": value for name, value in scalars.items()}
            yield SentPoint(row["step"], _moment(row), _numbers(named))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with suppress(CorruptError, DiskError):  # it may be readable at the next look
        yield from CurveFile(path).read()


def _is_measured(value: Any) -> bool:
    return isinstance(value, dict) and "value" in value


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return what is a finite number; trackers refuse, or misread, all else."""
    numbers = {n: v for n, v in values.items() if isinstance(v, int | float) and v is not True}
    return {name: float(v) for name, v in numbers.items() if abs(v) < 2**63 and isfinite(v)}


def _moment(row: Mapping[str, Any]) -> float:
    at = row.get("at")
    return float(at) if isinstance(at, int | float) else 0.0


def _stamp(path: Path) -> tuple[int, int, int] | None:
    # Opened, for a curve that cannot be read now is sent when it can be.
    with suppress(CorruptError, OSError), open_file(path) as file:
        status = os.fstat(file.fileno())
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None
