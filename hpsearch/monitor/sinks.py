"""Where looks go. A sink that fails is switched off with a sentence; training goes on.

A line a look and member, as JSON: what notebooks and the report read.

Which sinks a configuration switches on; the module of one that is off is not imported.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TextIO

from hpsearch.files import parse_json, read_lines, write_bytes
from hpsearch.monitor.config import MonitorConfig
from hpsearch.monitor.snapshot import (
    JobPlace,
    MemberPlace,
    MemberSnapshot,
    MonitorSnapshot,
    finite_or_none,
)


class Sink(Protocol):
    """One place that looks are written to."""

    def write(self, look: MonitorSnapshot) -> None:
        """Write a look; may raise whatever a disk or a network raises."""
        ...

    def close(self) -> None:
        """Finish what was written."""
        ...


class Sinks:
    """The sinks that are switched on and work."""

    def __init__(self, makers: Mapping[str, Callable[[], Sink]]) -> None:
        """Make the sinks, by the name that a sentence about one gives it."""
        self._sinks: dict[str, Sink] = {}
        for name, make in makers.items():
            try:
                self._sinks[name] = make()
            except Exception as error:
                print(switched_off(name, error), flush=True)

    def write(self, look: MonitorSnapshot) -> None:
        """Write a look to every sink; one that fails gets no further one."""
        for name, sink in list(self._sinks.items()):
            try:
                sink.write(look)
            except Exception as error:
                print(switched_off(name, error), flush=True)
                self._close(name)

    def __len__(self) -> int:
        return len(self._sinks)

    def close(self) -> None:
        """Close every sink."""
        for name in list(self._sinks):
            self._close(name)

    def _close(self, name: str) -> None:
        with suppress(Exception):  # it may be closed because its disk is full
            self._sinks.pop(name).close()


def switched_off(name: str, error: Exception) -> str:
    """Return the sentence for a part that failed."""
    reason = str(error) or type(error).__name__
    return f"{name} is switched off and training goes on without it: {reason}"


class TrainingLog:
    """Appends to one file a member; a line is whole, and is there when a look is over."""

    def __init__(self) -> None:
        """Begin without a member."""
        self._files: dict[Path, TextIO] = {}

    def write(self, look: MonitorSnapshot) -> None:
        """Append a line for each member; infinite values and NaN become null."""
        for member in look.members:
            file = self._file(member.place)
            file.write(json.dumps(_line(look, member)) + "\n")
            file.flush()
        # Thousands may come and go while a job runs.
        for path in self._files.keys() - {member.place.training_log for member in look.members}:
            self._files.pop(path).close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _file(self, place: MemberPlace) -> TextIO:
        """Open a member's file, without what earlier attempts wrote of steps made again now."""
        path = place.training_log
        if path not in self._files:
            forget_after(path, place.step)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[path] = path.open("a", encoding="utf-8")
        return self._files[path]


def _line(look: MonitorSnapshot, member: MemberSnapshot) -> dict[str, Any]:
    line: dict[str, Any] = {
        "step": member.step,
        "at": look.at,
        "scalars": finite_or_none(member.scalars),
        "job": finite_or_none(look.job),
    }
    if member.layers:
        line["layers"] = finite_or_none(member.layers)
    if look.timings:
        line["timings"] = {name: asdict(timing) for name, timing in look.timings.items()}
    return line


def forget_after(path: Path, step: int) -> None:
    """Drop the lines of later steps than ``step``, and a last one that was cut off."""
    if not path.exists():
        return
    kept = [line for line in read_lines(path) if (at := _step(line)) is not None and at <= step]
    if sum(len(line) + 1 for line in kept) != path.stat().st_size:
        write_bytes(path, b"".join(line + b"\n" for line in kept))


def _step(line: bytes) -> int | None:
    """Return the step of a line, None if it is damaged."""
    try:
        step = parse_json(line)["step"]
    except (ValueError, TypeError, KeyError):
        return None
    return step if isinstance(step, int) else None


def sink_makers(config: MonitorConfig, job: JobPlace) -> dict[str, Callable[[], Sink]]:
    """Return what makes each sink that is switched on, by the name that a sentence gives it."""
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
