"""The folders of a trial and of its attempts, see `study_dir` for what lies in them."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hpsearch.cluster.heartbeats import HeartbeatFile
from hpsearch.cluster.records import (
    AttemptResult,
    Birth,
    Control,
    CurveFile,
    Exchanges,
    Heartbeat,
    Island,
    Lineage,
    Start,
    read_record,
    required_record,
)
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import flush, write_json, write_text
from hpsearch.printable import printable

TEXTFILE, TRACES = "hpsearch.prom", "traces"
MAX_KIND, MAX_MESSAGE = 64, 4000
"""characters of what an attempt may say of its failure, which becomes an event"""


@dataclass(frozen=True)
class TrialDir:
    """The folder of one trial."""

    root: Path

    @property
    def config(self) -> Path:
        """Return the file of the complete trainer configuration."""
        return self.root / "config.yaml"

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the checkpoints."""
        return self.root / "checkpoints"

    @property
    def metrics(self) -> Path:
        """Return the learning curve's file."""
        return self.root / "metrics.jsonl"

    @property
    def games(self) -> Path:
        """Return the file of the games behind the learning curve."""
        return self.root / "games.jsonl"

    @property
    def training_log(self) -> Path:
        """Return the file of losses and rates."""
        return self.root / "training.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Return the folder that TensorBoard reads."""
        return self.root / "tensorboard"

    @property
    def result(self) -> Path:
        """Return the file that says what was told to the study."""
        return self.root / "result.json"

    def attempt(self, number: int) -> "AttemptDir":
        """Return the folder of one attempt, counted from 1."""
        return AttemptDir(self.root / f"attempt-{number}")

    def create(self, config: str, lineage: Lineage, island: Island | None = None) -> None:
        """Write what the trial is; doing it again changes nothing."""
        write_text(self.config, config)
        write_json(self._lineage, asdict(lineage))
        if island is not None:
            write_json(self._island, asdict(island))

    def read_lineage(self) -> Lineage:
        """Return where the trial comes from.

        Raises:
            CorruptError, DiskError: as `required_record`.
        """
        return required_record(Lineage, self._lineage)

    @property
    def _lineage(self) -> Path:
        return self.root / "lineage.json"

    def write_birth(self, birth: Birth) -> None:
        """Say what became of the trial's operator."""
        write_json(self._birth, asdict(birth))

    def read_birth(self) -> Birth | None:
        """Return what became of the trial's operator, None if it has not been applied.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        return read_record(Birth, self._birth)

    @property
    def _birth(self) -> Path:
        return self.root / "birth.json"

    @property
    def _island(self) -> Path:
        return self.root / "island.json"

    def read_island(self) -> Island | None:
        """Return how the trial breeds with those beside it, None if it does not.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        return read_record(Island, self._island)

    @property
    def _exchanges(self) -> Path:
        return self.root / "exchanges.json"

    def read_exchanges(self) -> Exchanges:
        """Return what the trial took from those beside it and gave them.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        return read_record(Exchanges, self._exchanges) or Exchanges()

    def write_exchanges(self, exchanges: Exchanges) -> None:
        """Say what the trial took from those beside it and gave them."""
        write_json(self._exchanges, asdict(exchanges))

    def write_control(self, control: Control) -> None:
        """Say which attempt is the trial and whether it should stop."""
        write_json(self._control, asdict(control))

    def read_control(self) -> Control | None:
        """Return what the driver says, None if it has said nothing.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        return read_record(Control, self._control)

    @property
    def _control(self) -> Path:
        return self.root / "control.json"

    def write_result(self, told: dict[str, Any]) -> None:
        """Write what was told to the study."""
        write_json(self.result, told)

    @property
    def attempts(self) -> list["AttemptDir"]:
        """Return the folders of the attempts that were begun."""
        return [AttemptDir(path) for path in sorted(self.root.glob("attempt-*"))]

    def newest_attempt(self) -> int:
        """Return the number of the last attempt that began, 0 if none has."""
        numbers = (path.name.partition("-")[2] for path in self.root.glob("attempt-*"))
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    @property
    def lock(self) -> Path:
        """Return the file that the process which trains a run of its own holds locked."""
        return self.root / "lock"

    @property
    def heartbeat(self) -> HeartbeatFile:
        """Return the file of the last sign of life of a run of its own."""
        return HeartbeatFile(self.root / "heartbeat.json")

    @property
    def textfile(self) -> Path:
        """Return the file of a single run's gauges for Prometheus."""
        return self.root / TEXTFILE

    @property
    def traces(self) -> Path:
        """Return the folder of a single run's profiler traces."""
        return self.root / TRACES

    @property
    def fault(self) -> Path:
        """Return the file that tells a fault of ours in full."""
        return self.root / "fault.log"

    def request_save(self) -> None:
        """Ask the job that trains this for a checkpoint now."""
        self._save_request.touch()

    def take_save_request(self) -> bool:
        """Return whether a checkpoint was asked for, and forget it."""
        if not self._save_request.exists():
            return False
        self._save_request.unlink(missing_ok=True)
        return True

    @property
    def _save_request(self) -> Path:
        return self.root / "save"

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Add one line to the learning curve."""
        CurveFile(self.metrics).append(row)

    def append_games(self, row: dict[str, Any]) -> None:
        """Add one line on the games behind the learning curve."""
        CurveFile(self.games).append(row)

    def read_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the learning curve; a line cut off by a crash is left out."""
        return CurveFile(self.metrics).read()

    def forget_metrics_after(self, step: int) -> None:
        """Drop the lines of steps that an attempt going on from ``step`` will make again."""
        for path in (self.metrics, self.games):
            CurveFile(path).forget_after(step)


@dataclass(frozen=True)
class AttemptDir:
    """The folder of one attempt at a trial."""

    root: Path

    def read_heartbeat(self) -> Heartbeat | None:
        """Return the last sign of life that an attempt of an older version gave here.

        None if there was none or it is damaged. Needed until no job runs that was submitted by a
        version which knew no `JobDir.heartbeat`.
        """
        try:
            return read_record(Heartbeat, self.own_heartbeat.path)
        except (CorruptError, DiskError):
            return None

    @property
    def own_heartbeat(self) -> HeartbeatFile:
        """Return the file of these signs of life."""
        return HeartbeatFile(self.root / "heartbeat.json")

    def write_start(self, step: int) -> None:
        """Say from which step the attempt goes on, 0 where it begins."""
        write_json(self._start, asdict(Start(step)))

    def has_begun(self) -> bool:
        """Return whether the attempt has said from which step it goes on.

        Raises:
            DiskError: if that cannot be known now.
        """
        try:
            return self.read_start() is not None
        except CorruptError:
            return True

    def read_start(self) -> Start | None:
        """Return from which step the attempt went on, None if it has not come so far.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        return read_record(Start, self._start)

    @property
    def _start(self) -> Path:
        return self.root / "start.json"

    def write_result(self, result: AttemptResult) -> None:
        """Say how the attempt ended; its words are written as they will be read."""
        write_json(self._result, asdict(_legible(result)))

    def read_result(self) -> AttemptResult | None:
        """Return how the attempt ended, None if it has not said so.

        Whatever wrote it, its words are printable, and cut where they are too long.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        result = read_record(AttemptResult, self._result)
        return None if result is None else _legible(result)

    def flush(self) -> None:
        """Make sure that what lies here survives a loss of power, before others point to it.

        A job may have died after it gave its result a name, but before it could flush that.

        Raises:
            DiskError: if that is not possible now.
        """
        try:
            for folder in (self.root, self.root.parent):
                flush(folder)
        except OSError as error:
            raise DiskError(
                f"{self.root} cannot be flushed ({error.strerror}); check the file system"
            ) from error

    @property
    def _result(self) -> Path:
        return self.root / "result.json"


def _legible(result: AttemptResult) -> AttemptResult:
    """Return a result with words that any terminal shows, of a length that people read."""
    kind = None if result.kind is None else printable(result.kind)[:MAX_KIND]
    return replace(result, kind=kind, message=printable(result.message)[:MAX_MESSAGE])
