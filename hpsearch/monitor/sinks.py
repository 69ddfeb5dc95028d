"""Where snapshots go. A sink that fails is switched off with a sentence; training continues."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Any, Protocol, TextIO, runtime_checkable

from hpsearch.files import forget_after
from hpsearch.monitor.config import MonitorConfig
from hpsearch.monitor.snapshot import (
    JobPlace,
    MemberFiles,
    MemberPlace,
    MemberSnapshot,
    MemberTexts,
    MonitorSnapshot,
)


class Sink(Protocol):
    """One place that snapshots are written to; may raise whatever a disk or a network raises."""

    def write(self, snapshot: MonitorSnapshot) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class TextSink(Sink, Protocol):
    """One that also shows texts."""

    def write_texts(self, at: float, texts: Sequence[MemberTexts]) -> None:
        """Write texts of members; ``at`` is when, in seconds since the epoch."""


class Sinks:
    def __init__(self, makers: Mapping[str, Callable[[], Sink]]) -> None:
        """Make the sinks; warnings call each by its key in ``makers``."""
        self._sinks: dict[str, Sink] = {}
        for name, make in makers.items():
            with switching_off(name):
                self._sinks[name] = make()

    def write(self, snapshot: MonitorSnapshot) -> None:
        self._write(lambda sink: sink.write(snapshot))

    @property
    def has_readers(self) -> bool:
        """Whether one of them shows texts."""
        return any(isinstance(sink, TextSink) for sink in self._sinks.values())

    def write_texts(self, at: float, texts: Sequence[MemberTexts]) -> None:
        """Write to the sinks that show texts."""

        def write(sink: Sink) -> None:
            if isinstance(sink, TextSink):
                sink.write_texts(at, texts)

        self._write(write)

    def _write(self, write: Callable[[Sink], None]) -> None:
        for name, sink in list(self._sinks.items()):
            with switching_off(name):
                write(sink)
                continue
            self._close(name)  # it failed

    def __len__(self) -> int:
        return len(self._sinks)

    def close(self) -> None:
        for name in list(self._sinks):
            self._close(name)

    def _close(self, name: str) -> None:
        with suppress(Exception):  # it may be closed because its disk is full
            self._sinks.pop(name).close()


@contextmanager
def switching_off(name: str) -> Iterator[None]:
    """Let an observer work in the block; if it fails, say so, and go on behind the block."""
    try:
        yield
    except Exception as error:
        reason = str(error) or type(error).__name__
        with suppress(OSError):  # the job's output may lie on the same full disk
            print(f"{name} is switched off and training goes on without it: {reason}", flush=True)


def sink_makers(config: MonitorConfig, job: JobPlace) -> dict[str, Callable[[], Sink]]:
    """Return what makes each sink that is switched on; modules of the others are not imported."""
    makers: dict[str, Callable[[], Sink]] = {}
    if config.training_log:
        makers["the training log"] = TrainingLog
    if config.tensorboard:
        from hpsearch.monitor.tensorboard import TensorBoard

        makers["TensorBoard"] = TensorBoard
    if config.prometheus is not None:
        from hpsearch.monitor.prometheus import MetricsServer, Textfile

        port = config.prometheus.port
        if config.prometheus.textfile:
            makers["the textfile for Prometheus"] = lambda: Textfile(job)
        if port is not None:
            makers["the HTTP server for Prometheus"] = lambda: MetricsServer(job, port)
    return makers


class TrainingLog(MemberFiles[TextIO]):
    """Appends a line of JSON a snapshot to each member's file, which notebooks and reports read.

    A line is whole, and is on disk when `write` returns.
    """

    def begin(self, place: MemberPlace) -> TextIO:
        path = place.training_log
        forget_after(path, place.step)  # those steps are made again now
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a", encoding="utf-8")

    def add(self, file: TextIO, snapshot: MonitorSnapshot, member: MemberSnapshot) -> None:
        line: dict[str, Any] = {
            "step": member.step,
            "at": snapshot.at,
            "scalars": _finite_or_none(member.scalars),
            "job": _finite_or_none(snapshot.job),
        }
        if member.layers:
            line["layers"] = _finite_or_none(member.layers)
        if snapshot.timings:
            line["timings"] = {name: asdict(timing) for name, timing in snapshot.timings.items()}
        file.write(json.dumps(line) + "\n")


def _finite_or_none(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return the values as JSON can hold them, which knows neither infinity nor NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
