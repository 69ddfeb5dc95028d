"""Event files of TensorBoard, and the sink that writes snapshots into them. No torch here.

torch's SummaryWriter makes an event of every scalar, at ten times the cost, and notices a full disk
only in its thread; tensorboard's writer computes its checksum byte by byte in Python.

Source of the format: https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from hpsearch.monitor.config import needed
from hpsearch.monitor.snapshot import (
    MemberFiles,
    MemberPlace,
    MemberSnapshot,
    MemberTexts,
    MonitorSnapshot,
)

POLYNOMIAL: Final = 0x82F63B78  # Castagnoli's, bits reversed
ALL_ONES: Final = 0xFFFFFFFF
CHUNK: Final = 1024  # bytes of which a checksum is made at once


def check_tensorboard() -> None:
    """Import what events are made of; UsageError if tensorboard is not installed."""
    with needed("tensorboard"):
        import tensorboard.compat.proto.event_pb2  # noqa: F401


def event_file_name() -> str:
    """Return a unique name of an event file, in whose order readers take the files of a folder."""
    return f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"


class EventFile:
    def __init__(self, file: BinaryIO, *, keeps: int) -> None:
        """Begin a file whose readers discard what older ones in its folder say of later steps.

        ``file`` is an empty one, which is closed with this; ``keeps`` is the last step for which
        older files count, -1 for none.
        """
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._file = file
        now = time.time()
        self._add(Event(wall_time=now, file_version="brain.Event:2"))
        start = SessionLog(status=SessionLog.START)
        self._add(Event(wall_time=now, step=keeps + 1, session_log=start))

    def write(self, at: float, step: int, values: Mapping[str, float]) -> None:
        """Append one event that holds all the values by their tags."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        tagged = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self.write_summary(at, step, Summary(value=tagged))

    def write_texts(self, at: float, step: int, texts: Mapping[str, str]) -> None:
        """Append one event that holds all the texts, in Markdown, by their tags."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.plugins.text.metadata import create_summary_metadata

        tagged = [
            Summary.Value(
                tag=tag,
                metadata=create_summary_metadata(display_name="", description=""),
                tensor=TensorProto(dtype="DT_STRING", string_val=[text.encode()]),
            )
            for tag, text in texts.items()
        ]
        self.write_summary(at, step, Summary(value=tagged))

    def write_summary(self, at: float, step: int, summary: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._add(Event(wall_time=at, step=step, summary=summary))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _add(self, event: Any) -> None:
        self._file.write(record(event.SerializeToString()))


def record(data: bytes) -> bytes:
    """Return a record of an event file: length and data, each followed by its masked checksum."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    checksum = crc32c(data)
    return struct.pack("<I", ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & ALL_ONES)


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of at least four bytes.

    It is linear over XOR: a table says what each byte of a chunk adds by its place in it.
    """
    padding = -len(data) % CHUNK  # zeros before the data add nothing
    values = np.frombuffer(bytes(padding) + data, np.uint8).copy()
    values[padding : padding + 4] ^= 0xFF  # the register begins with all ones
    effects, places, register = _effects(), np.arange(CHUNK), 0
    for chunk in values.reshape(-1, CHUNK):
        chunk[:4] ^= np.frombuffer(struct.pack("<I", register), np.uint8)
        register = int(np.bitwise_xor.reduce(effects[places, chunk]))
    return register ^ ALL_ONES


@cache
def _effects() -> NDArray[np.uint32]:
    """Return what each value of a byte of a chunk adds to the checksum, (CHUNK, 256)."""
    register = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        register = np.where(register & 1, (register >> 1) ^ np.uint32(POLYNOMIAL), register >> 1)
    effects = [register]
    while len(effects) < CHUNK:
        effects.append(effects[0][effects[-1] & 0xFF] ^ (effects[-1] >> 8))
    return np.stack(effects[::-1])


class TensorBoard(MemberFiles[EventFile]):
    """Writes a snapshot, or texts, as one event a member: a folder a member, a file an attempt."""

    def __init__(self) -> None:
        """UsageError if tensorboard is not installed."""
        check_tensorboard()
        super().__init__()

    def begin(self, place: MemberPlace) -> EventFile:
        place.tensorboard.mkdir(parents=True, exist_ok=True)
        file = (place.tensorboard / event_file_name()).open("xb")
        return EventFile(file, keeps=place.step)

    def add(self, file: EventFile, snapshot: MonitorSnapshot, member: MemberSnapshot) -> None:
        # TensorBoard groups what shares the text before the first slash.
        values = dict(member.scalars)
        values |= {f"layers/{name}": value for name, value in member.layers.items()}
        values |= {f"milliseconds/{name}": timing.mean for name, timing in snapshot.timings.items()}
        values |= {f"job/{name}": value for name, value in snapshot.job.items()}
        file.write(snapshot.at, member.step, values)

    def write_texts(self, at: float, texts: Sequence[MemberTexts]) -> None:
        for member in texts:
            file = self.file(member.place)
            file.write_texts(at, member.step, member.texts)
            file.flush()
