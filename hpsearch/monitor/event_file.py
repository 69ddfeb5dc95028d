"""An event file of TensorBoard, of its own kinds of messages.

It is not written by torch's SummaryWriter: that one makes an event of every scalar and has a
thread a file, which costs ten times as much, and a full disk is noticed only in its thread.

The records of an event file: each with its length, and with checksums of both.

tensorboard's own writer goes through every byte in Python, which takes most of the time of a file.
CRC-32C is linear over XOR, so here a table holds what each byte adds by its distance from the end.

Source: https://www.tensorflow.org/tutorials/load_data/tfrecord, on the format.
"""

import os
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from hpsearch.monitor.config import needed

POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, bits reversed"""
ALL_ONES: Final = 0xFFFFFFFF


class RecordWriter:
    """Writes records into a file."""

    def __init__(self, file: BinaryIO) -> None:
        """Write into an empty file, which is closed with this."""
        self._file = file

    def write(self, data: bytes) -> None:
        """Append one record."""
        length = struct.pack("<Q", len(data))
        self._file.write(length + self._masked(length) + data + self._masked(data))

    def flush(self) -> None:
        """Let readers see what was written."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _masked(self, data: bytes) -> bytes:
        """Return the checksum as files hold it."""
        crc = _CHECKSUMS.of(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & ALL_ONES)


class _Checksums:
    """CRC-32C of any bytes; what is computed once serves for all records of a length."""

    def __init__(self) -> None:
        self._added = [_TABLE]
        """what a byte of each value adds, by its distance from the end"""
        self._begun = [ALL_ONES]
        """what the register holds after so many zeros"""
        self._rows = np.stack(self._added)

    def of(self, data: bytes) -> int:
        """Return the checksum of bytes."""
        size = len(data)
        if size > len(self._rows) or size >= len(self._begun):
            self._grow(size)
        added = self._rows[np.arange(size)[::-1], np.frombuffer(data, np.uint8)]
        return int(np.bitwise_xor.reduce(added)) ^ self._begun[size] ^ ALL_ONES

    def _grow(self, size: int) -> None:
        """Make the tables long enough for so many bytes, and some more."""
        for _ in range(size - len(self._added) + size):
            last = self._added[-1]
            self._added.append(_TABLE[last & 0xFF] ^ (last >> 8))
        for _ in range(size + 1 - len(self._begun) + size):
            register = self._begun[-1]
            self._begun.append(int(_TABLE[register & 0xFF]) ^ (register >> 8))
        self._rows = np.stack(self._added)


def _table() -> NDArray[np.uint32]:
    """Return what the register becomes of each of its last bytes."""
    register = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = np.where(register & 1, (register >> 1) ^ np.uint32(POLYNOMIAL), register >> 1)
    return register


_TABLE: Final = _table()
_CHECKSUMS: Final = _Checksums()
"""what it has computed holds for all files"""


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
