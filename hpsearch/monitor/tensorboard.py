"""Looks for TensorBoard: one folder a member, one event file an attempt.

The files are written by tensorboard's own record writer rather than by torch's SummaryWriter: that
one makes an event of every scalar and has a thread a member, which costs ten times as much, and a
full disk is noticed only in its thread.
"""

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpsearch.monitor.look import Look, MemberLook
from hpsearch.monitor.packages import needed


class TensorBoard:
    """Writes every look as one event for each member."""

    def __init__(self) -> None:
        """Import what writes events.

        Raises:
            UsageError: if tensorboard is not installed.
        """
        with needed("tensorboard"):
            import tensorboard.summary.writer.record_writer  # noqa: F401
        self._files: dict[Path, _EventFile] = {}

    def write(self, look: Look) -> None:
        """Append an event to the file of each member."""
        for member in look.members:
            place = member.place
            if place.tensorboard not in self._files:
                self._files[place.tensorboard] = _EventFile(place.tensorboard, place.step)
            self._files[place.tensorboard].write(look.at, member.step, _values(look, member))
        # Thousands may come and go while a job runs.
        for path in self._files.keys() - {member.place.tensorboard for member in look.members}:
            self._files.pop(path).close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()


def _values(look: Look, member: MemberLook) -> dict[str, float]:
    """Return the values by tag; TensorBoard groups what shares the text before the first slash."""
    values = dict(member.scalars)
    values |= {f"layers/{name}": value for name, value in member.layers.items()}
    values |= {f"milliseconds/{name}": timing.mean for name, timing in look.timings.items()}
    values |= {f"job/{name}": value for name, value in look.job.items()}
    return values


class _EventFile:
    """The event file of one member and attempt."""

    def __init__(self, folder: Path, step: int) -> None:
        """Begin a file whose readers discard what older ones in ``folder`` say of later steps."""
        from tensorboard.compat.proto.event_pb2 import SessionLog
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        # Readers take the files of a folder in the order of their names, so the time leads.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._records: Any = RecordWriter((folder / name).open("xb"))
        now = time.time()
        self._add(wall_time=now, file_version="brain.Event:2")
        start = SessionLog(status=SessionLog.START)
        self._add(wall_time=now, step=step + 1, session_log=start)

    def write(self, at: float, step: int, values: Mapping[str, float]) -> None:
        """Append one event that holds all the values."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(
            value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        )
        self._add(wall_time=at, step=step, summary=summary)
        self._records.flush()

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _add(self, **fields: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(**fields).SerializeToString())
