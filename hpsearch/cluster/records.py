"""What driver and jobs write for each other, as dataclasses and the files that hold them.

Where a trial comes from, as its folder says: parents, operator, seed.

An island: members that a job trains together, and what they took from each other there.

The job breeds them at the end of each local generation. Each trial's folder holds the rules and
what became of it; the driver learns of it when the trial ends.

JSON files that hold one record each.

A file with a line of JSON for every step at which something was looked at.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeVar

from hpsearch.errors import ConfigError, CorruptError
from hpsearch.files import (
    MAX_RECORD,
    flush,
    make_folder,
    parse_json,
    read_json,
    read_lines,
    write_text,
)
from hpsearch.parameters import FloatParameter, IntParameter
from hpsearch.population.operators.options import OperatorOptions
from hpsearch.population.options import Adoption, Keep, Matches, Perturb, Truncation
from hpsearch.schema import NonNegative, Positive, Range, read
from hpsearch.trainers.checkpoint_name import step_of

MAX_STEP = 2**53
"""no trial makes more steps; who says so is not believed"""

Status = Literal["finished", "pruned", "interrupted", "failed", "lost"]
"""how an attempt ended; lost is said by the driver alone, of one that left no word"""
Stop = Literal["finished", "pruned", "failed"]
"""how a trial was told, after which its attempts have nothing more to do"""
Step = Annotated[int, Range(low=0, high=MAX_STEP)]


@dataclass(frozen=True)
class Assignment:
    """One trial that a job trains."""

    trial: int
    attempt: int
    token: str


@dataclass(frozen=True)
class JobPlan:
    """What a job is for."""

    assignments: tuple[Assignment, ...]
    """the trials that it trains first"""
    num_threads: int
    """that it may use"""
    pilot_seconds: float
    """for which it waits for more trials when it has trained some; 0 where it leaves then"""
    refills: bool
    """whether it may be given more while some still train"""
    match: int | None = None
    """number of the match that it plays, instead of training"""
    probes: str | None = None
    """device that it tries, instead of training, to say what a job of this kind sees"""
    heartbeat_seconds: float = 2.0
    """between two signs of life"""


@dataclass(frozen=True)
class DeviceReport:
    """What a job sees of devices."""

    visible: str | None
    """CUDA_VISIBLE_DEVICES of its environment"""
    torch: str
    """version"""
    gpus: tuple[str, ...]
    """names of the GPUs that torch finds"""
    fault: str | None
    """why the device that was tried cannot be used, None if it can"""


@dataclass(frozen=True)
class Given:
    """What a job is given beside its first trials or after them; nothing at all lets it leave."""

    assignments: tuple[Assignment, ...]
    match: int | None = None
    """number of the match that it plays"""


@dataclass(frozen=True)
class Control:
    """What the driver tells a trial's attempts."""

    token: str
    """the attempt with this token is the trial; every other one has been fenced off"""
    stop: Stop | None
    """why the trial should end early, None while it should go on"""


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life of an attempt."""

    at: float
    """seconds since the epoch, by the job's clock"""
    step: Step
    saved: Step
    """step of the newest checkpoint, from which a next attempt would go on"""
    steps_per_second: Annotated[float, Range(low=0.0)]
    host: str
    pid: NonNegative
    is_busy: bool
    """whether it now measures or saves, which takes long and gives no sign of life between"""


@dataclass(frozen=True)
class MemberHeartbeat:
    """What a job's sign of life says of one of its trials."""

    trial: NonNegative
    attempt: NonNegative
    token: str
    step: Step
    saved: Step
    """step of the newest checkpoint, from which a next attempt would go on"""

    @classmethod
    def at(cls, assignment: Assignment, step: int, saved: int) -> "MemberHeartbeat":
        """Return what is said of the attempt of an assignment."""
        return cls(assignment.trial, assignment.attempt, assignment.token, step, saved)


@dataclass(frozen=True)
class JobHeartbeat:
    """A sign of life of a job."""

    at: float
    """seconds since the epoch, by the job's clock"""
    host: str
    pid: NonNegative
    is_busy: bool
    """whether it may now measure or save, which takes long and gives no sign of life between"""
    steps_per_second: Annotated[float, Range(low=0.0)]
    """of each member"""
    members: tuple[MemberHeartbeat, ...]
    """the trials that train, or are about to"""

    def of(self, trial: int, attempt: int) -> Heartbeat | None:
        """Return what it says of an attempt, None if that does not train, or not any more."""
        for member in self.members:
            if (member.trial, member.attempt) == (trial, attempt):
                return Heartbeat(
                    self.at,
                    member.step,
                    member.saved,
                    self.steps_per_second,
                    self.host,
                    self.pid,
                    self.is_busy,
                )
        return None


@dataclass(frozen=True)
class Start:
    """How an attempt began."""

    step: Step
    """that of the checkpoint from which it goes on, 0 where there is none"""


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended."""

    token: str
    status: Status
    step: Step
    kind: str | None
    """of the failure, None where there was none"""
    message: str
    metrics: dict[str, dict[str, float]]
    """by name: value, low, high, capped, games"""

    def check(self) -> Iterator[str]:
        """Yield which metrics are not whole."""
        for name, measured in self.metrics.items():
            if not {"value", "low", "high"} <= measured.keys():
                yield f"metrics must hold value, low and high, but {name} holds {measured!r}"


@dataclass(frozen=True)
class Fresh:
    """No parents: a trial that begins with new networks."""

    name: Literal["fresh"] = "fresh"


@dataclass(frozen=True)
class Parent:
    """What a trial inherits from."""

    trial: int | None
    """of the same study, None where it comes from elsewhere"""
    checkpoint: str
    """folder, from the study's or absolute"""

    @property
    def step(self) -> int:
        """Return the step of the checkpoint, which is in its name.

        Raises:
            ValueError: if it is not.
        """
        return step_of(self.checkpoint)


@dataclass(frozen=True)
class Lineage:
    """Where a trial comes from."""

    operator: Fresh | OperatorOptions
    seed: NonNegative
    """of what the operator draws; also the trial's own"""
    parents: tuple[Parent, ...] = ()
    """as many as the operator takes; the first gives all that the operator does not make"""
    generation: NonNegative = 0
    """matches that decided over the trial's ancestors"""
    member: NonNegative = 0
    """place in the population"""
    trying: Adoption | None = None
    """how the child is tried before it is adopted; None adopts it untried"""

    @property
    def first_step(self) -> int:
        """Return the step at which the trial begins: that of its first parent's checkpoint.

        Raises:
            ValueError: if the name of that checkpoint does not tell.
        """
        return self.parents[0].step if self.parents else 0


@dataclass(frozen=True)
class Birth:
    """What became of a child, as its job found."""

    operator: str
    adopted: bool
    """else a copy of the first parent took its place"""
    chance: float | None
    """that the copy is stronger, None where it was not tried"""


RangeParameter = FloatParameter | IntParameter


@dataclass(frozen=True)
class Island:
    """How the members of a job breed before their interval ends."""

    name: str
    """of what chance decides, which no other interval of an island shares"""
    steps: Positive
    """of a local generation"""
    matches: Matches
    selection: Truncation
    explore: Perturb | Keep
    parameters: dict[str, RangeParameter]
    """that copies may change, by dotted path"""


@dataclass(frozen=True)
class Exploit:
    """A copy of another member took a trial's place."""

    step: NonNegative
    """of the trial, which goes on counting"""
    source: NonNegative
    """trial that was copied"""
    source_step: NonNegative
    sha256: str
    """of the source's checkpoint at that moment"""
    changes: dict[str, tuple[Any, ...]]
    """values of the parameters that the copy does not share with its source: before and after"""
    params: dict[str, Any]
    """values of all parameters from then on"""


@dataclass(frozen=True)
class DonatedCheckpoint:
    """A checkpoint of a trial whose copy took another's place."""

    step: NonNegative
    sha256: str


@dataclass(frozen=True)
class Exchanges:
    """What a trial took and gave on its island, the oldest first."""

    takeovers: tuple[Exploit, ...] = ()
    loans: tuple[DonatedCheckpoint, ...] = ()

    def before(self, step: int) -> "Exchanges":
        """Return those before a step, from which an attempt goes on that makes it again."""
        return Exchanges(
            tuple(takeover for takeover in self.takeovers if takeover.step < step),
            tuple(loan for loan in self.loans if loan.step < step),
        )

    def with_takeover(self, takeover: Exploit) -> "Exchanges":
        """Return these and one more, or another of its step.

        An attempt that has been replaced and does not know it may say once more what the next one
        has said already.
        """
        others = {takeover.step: takeover for takeover in self.takeovers} | {
            takeover.step: takeover
        }
        return replace(self, takeovers=tuple(others[step] for step in sorted(others)))

    def with_loan(self, loan: DonatedCheckpoint) -> "Exchanges":
        """Return these and one more, or another of its step, as above."""
        others = {loan.step: loan for loan in self.loans} | {loan.step: loan}
        return replace(self, loans=tuple(others[step] for step in sorted(others)))


T = TypeVar("T")


def read_record(kind: type[T], path: Path) -> T | None:
    """Return the record that a file holds, a dataclass of ``kind``; None if there is no file.

    Raises:
        CorruptError: if the file holds something else.
        DiskError: if it cannot be read.
    """
    data = read_json(path, MAX_RECORD)
    try:
        return None if data is None else read(kind, data, source=str(path))
    except ConfigError as error:
        problems = "; ".join(error.problems)
        raise CorruptError(
            f"{path} is damaged ({problems}); only hpsearch writes it, so restore it from a copy"
        ) from error


def required_record(kind: type[T], path: Path) -> T:
    """Return the record that a file holds.

    Raises:
        CorruptError: if the file holds something else, or is missing.
        DiskError: if it cannot be read.
    """
    record = read_record(kind, path)
    if record is None:
        raise CorruptError(
            f"{path} is missing or empty; only hpsearch writes it, so restore it from a copy"
        )
    return record


@dataclass(frozen=True)
class CurveFile:
    """Rows that each have a ``step``, in the order in which they were made."""

    path: Path

    def append(self, row: dict[str, Any]) -> None:
        """Add one line; what a crash left of the one before it stays a line of its own."""
        make_folder(self.path.parent)
        is_new = not self.path.exists()
        line = json.dumps(row).encode() + b"\n"
        with self.path.open("ab+") as file:
            file.write(line if _ends_whole(file) else b"\n" + line)
            file.flush()
            os.fsync(file.fileno())  # a checkpoint that comes after the line must not outlive it
        if is_new:
            flush(self.path.parent)  # nor outlive the file's name

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the rows; a line cut off by a crash, or damaged, is left out.

        Raises:
            CorruptError: if it is no regular file.
            DiskError: if the file cannot be read.
        """
        with suppress(FileNotFoundError):
            yield from (row for line in read_lines(self.path) if (row := _row(line)) is not None)

    def forget_after(self, step: int) -> None:
        """Drop the rows of later steps, which an attempt going on from ``step`` makes again."""
        kept = [row for row in self.read() if row["step"] <= step]
        if self.path.exists():
            write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))


def _ends_whole(file: BinaryIO) -> bool:
    """Return whether a file is empty or ends with a whole line."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _row(line: bytes) -> dict[str, Any] | None:
    """Return a row that says of which step it is, None for any other line."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    step = row.get("step") if isinstance(row, dict) else None
    return row if type(step) is int and 0 <= step <= MAX_STEP else None
