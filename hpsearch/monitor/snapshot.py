"""What was observed of a population, as plain numbers on the host, and where it is written.

The paths come from outside, where file names are decided. No torch here.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar


@dataclass(frozen=True)
class MemberPlace:
    """Where the observations of one trial of the job go."""

    trial: str  # its name in gauges
    step: int
    """the step from which it continues; what an earlier attempt wrote of later steps is dropped"""
    training_log: Path  # a file
    tensorboard: Path  # a folder


@dataclass(frozen=True)
class JobPlace:
    """Where the observations of a job go; ``study`` and ``job`` are its labels in gauges."""

    study: str
    job: str
    textfile: Path  # a file, ending in .prom as node_exporter's textfile collector wants it
    traces: Path  # a folder


@dataclass(frozen=True)
class Timing:
    """How long a section of the training loop took, in all, and how often it was passed."""

    milliseconds: float
    count: int

    @property
    def mean(self) -> float:
        return self.milliseconds / self.count


@dataclass(frozen=True)
class MemberSnapshot:
    place: MemberPlace
    step: int
    scalars: Mapping[str, float]  # by name: ``loss`` of the role ``host`` is ``host/loss``
    layers: Mapping[str, float]  # by name: ``host/0.weight/gradient_std``; empty while switched off


@dataclass(frozen=True)
class MonitorSnapshot:
    at: float  # seconds since the epoch
    members: tuple[MemberSnapshot, ...]
    timings: Mapping[str, Timing]  # by section, since the snapshot before; empty while switched off
    job: Mapping[str, float]  # steps_per_second and, while switched on, the use of resources


@dataclass(frozen=True)
class MemberTexts:
    """What is to be read of one member at one step, in Markdown, by name."""

    place: MemberPlace
    step: int
    texts: Mapping[str, str]


class File(Protocol):
    def flush(self) -> None: ...

    def close(self) -> None: ...


FileT = TypeVar("FileT", bound=File)


class MemberFiles(ABC, Generic[FileT]):
    """A sink with an open file of each member that the last snapshot showed."""

    def __init__(self) -> None:
        self._files: dict[MemberPlace, FileT] = {}

    @abstractmethod
    def begin(self, place: MemberPlace) -> FileT: ...

    @abstractmethod
    def add(self, file: FileT, snapshot: MonitorSnapshot, member: MemberSnapshot) -> None: ...

    def write(self, snapshot: MonitorSnapshot) -> None:
        # Thousands may come and go while a job runs.
        for place in self._files.keys() - {member.place for member in snapshot.members}:
            self._files.pop(place).close()
        for member in snapshot.members:
            file = self.file(member.place)
            self.add(file, snapshot, member)
            file.flush()

    def file(self, place: MemberPlace) -> FileT:
        if place not in self._files:
            self._files[place] = self.begin(place)
        return self._files[place]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
