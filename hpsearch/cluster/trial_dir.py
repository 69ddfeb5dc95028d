"""Where everything of a study lies on disk. No other module joins these names.

runs/<study>/
    study.json                   what the study was started from
    driver.log                   what the driver did, a line each
    best/                        the exported best configuration
    jobs/<job>/                  job.json (the trials it trains), log files of the executor
    trials/<number>/
        config.yaml              the complete trainer configuration
        lineage.json             parents, operator, seed
        control.json             written by the driver: the valid token, whether to stop
        metrics.jsonl            the learning curve, a line an evaluation
        checkpoints/
        result.json              written by the driver when the trial is told
        attempt-<k>/             heartbeat.json, result.json: written by the job
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpsearch.atomic import read_json, write_json, write_text
from hpsearch.errors import CorruptError


@dataclass(frozen=True)
class Assignment:
    """One trial that a job trains."""

    trial: int
    attempt: int
    token: str


@dataclass(frozen=True)
class Control:
    """What the driver tells a trial's attempts."""

    token: str
    """the attempt with this token is the trial; every other one has been fenced off"""
    stop: str | None
    """why the trial should end early, None while it should go on"""


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life of an attempt."""

    at: float
    """seconds since the epoch, by the job's clock"""
    step: int
    steps_per_second: float
    host: str
    pid: int


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended."""

    token: str
    status: str
    """finished, pruned, interrupted or failed"""
    step: int
    kind: str | None
    """of the failure, None where there was none"""
    message: str
    metrics: dict[str, dict[str, float]]
    """by name: value, low, high, capped, games"""


@dataclass(frozen=True)
class StudyDir:
    """The folder of one study."""

    root: Path

    @property
    def spec(self) -> Path:
        """Return the file that holds what the study was started from."""
        return self.root / "study.json"

    @property
    def log(self) -> Path:
        """Return the driver's log."""
        return self.root / "driver.log"

    @property
    def best(self) -> Path:
        """Return the folder that `export` writes by default."""
        return self.root / "best"

    @property
    def trials(self) -> Path:
        """Return the folder of the trials' folders."""
        return self.root / "trials"

    def trial(self, number: int) -> "TrialDir":
        """Return the folder of one trial."""
        return TrialDir(self.trials / str(number))

    def job(self, name: str) -> "JobDir":
        """Return the folder of one job."""
        return JobDir(self.root / "jobs" / name)


@dataclass(frozen=True)
class JobDir:
    """The folder of one job."""

    root: Path

    @property
    def name(self) -> str:
        """Return the job's name, unique in its study."""
        return self.root.name

    @property
    def study(self) -> StudyDir:
        """Return the folder of the study that the job belongs to."""
        return StudyDir(self.root.parent.parent)

    @property
    def logs(self) -> Path:
        """Return the pattern of the job's log files."""
        return self.root / "*_log.out"

    def write(self, assignments: tuple[Assignment, ...], num_threads: int) -> None:
        """Say what the job trains and with how many threads."""
        plan = {"num_threads": num_threads, "trials": [asdict(one) for one in assignments]}
        write_json(self.root / "job.json", plan)

    def read(self) -> tuple[tuple[Assignment, ...], int]:
        """Return what the job trains and with how many threads."""
        plan = read_json(self.root / "job.json")
        return tuple(Assignment(**one) for one in plan["trials"]), plan["num_threads"]


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
    def result(self) -> Path:
        """Return the file that says what was told to the study."""
        return self.root / "result.json"

    def attempt(self, number: int) -> "AttemptDir":
        """Return the folder of one attempt, counted from 1."""
        return AttemptDir(self.root / f"attempt-{number}")

    def create(self, config: str, lineage: dict[str, Any]) -> None:
        """Write what the trial is; doing it again changes nothing."""
        write_text(self.config, config)
        write_json(self.root / "lineage.json", lineage)

    def write_control(self, control: Control) -> None:
        """Say which attempt is the trial and whether it should stop."""
        write_json(self.root / "control.json", asdict(control))

    def read_control(self) -> Control | None:
        """Return what the driver says, None if it has said nothing."""
        path = self.root / "control.json"
        data = read_json(path)
        try:
            return None if data is None else Control(**data)
        except TypeError as error:
            raise CorruptError(f"{path} is no control file ({error})") from error

    def write_result(self, told: dict[str, Any]) -> None:
        """Write what was told to the study."""
        write_json(self.result, told)

    def append_metrics(self, row: dict[str, Any]) -> None:
        """Add one line to the learning curve."""
        self.metrics.parent.mkdir(parents=True, exist_ok=True)
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())  # a checkpoint that comes after the line must not outlive it

    def read_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the learning curve; a line cut off by a crash is left out."""
        try:
            lines = self.metrics.read_text(encoding="utf-8").splitlines(keepends=True)
        except FileNotFoundError:
            return
        for line in lines:
            if line.endswith("\n"):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue

    def forget_metrics_after(self, step: int) -> None:
        """Drop the lines of steps that an attempt going on from ``step`` will make again."""
        kept = [row for row in self.read_metrics() if row["step"] <= step]
        if self.metrics.exists():
            write_text(self.metrics, "".join(json.dumps(row) + "\n" for row in kept))


@dataclass(frozen=True)
class AttemptDir:
    """The folder of one attempt at a trial."""

    root: Path

    def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Give a sign of life."""
        write_json(self.root / "heartbeat.json", asdict(heartbeat))

    def read_heartbeat(self) -> Heartbeat | None:
        """Return the last sign of life, None if there was none or it is damaged."""
        try:
            data = read_json(self.root / "heartbeat.json")
            return None if data is None else Heartbeat(**data)
        except (CorruptError, TypeError):
            return None

    def write_result(self, result: AttemptResult) -> None:
        """Say how the attempt ended."""
        write_json(self.root / "result.json", asdict(result))

    def read_result(self) -> AttemptResult | None:
        """Return how the attempt ended, None if it has not said so.

        Raises:
            CorruptError: if the file is damaged.
        """
        data = read_json(self.root / "result.json")
        if data is None:
            return None
        try:
            return AttemptResult(**data)
        except TypeError as error:
            raise CorruptError(f"{self.root / 'result.json'} is no result: {error}") from error
