"""An event file of TensorBoard, of its own kinds of messages.

It is not written by torch's SummaryWriter: that one makes an event of every scalar and has a
thread a file, which costs ten times as much, and a full disk is noticed only in its thread.
"""

import os
import socket
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from hpsearch.monitor.packages import needed
from hpsearch.monitor.records import RecordWriter


def check_tensorboard() -> None:
    """Import what events are made of.

    Raises:
        UsageError: if tensorboard is not installed.
    """
    with needed("tensorboard"):
        import tensorboard.compat.proto.event_pb2  # noqa: F401


def event_file_name() -> str:
    """Return a name that no other event file has, and that follows those of earlier ones.

    Readers take the files of a folder in the order of their names, so the time leads.
    """
    return f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"


class EventFile:
    """One event file."""

    def __init__(self, file: BinaryIO, *, keeps: int) -> None:
        """Begin a file whose readers discard what older ones in its folder say of later steps.

        Args:
            file: an empty one, which is closed with this.
            keeps: the last step of which older files say what counts; -1 for none.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._records = RecordWriter(file)
        now = time.time()
        self._add(Event(wall_time=now, file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._add(Event(wall_time=now, step=keeps + 1, session_log=start))

    def write(self, at: float, step: int, values: Mapping[str, float]) -> None:
        """Append one event that holds all the values by their tags."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(
            value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        )
        self.write_summary(at, step, summary)

    def write_summary(self, at: float, step: int, summary: Any) -> None:
        """Append one event that holds a summary."""
        from tensorboard.compat.proto.event_pb2 import Event

        self._add(Event(wall_time=at, step=step, summary=summary))

    def flush(self) -> None:
        """Let readers see what was written."""
        self._records.flush()

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _add(self, event: Any) -> None:
        self._records.write(event.SerializeToString())
