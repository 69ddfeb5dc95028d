"""Where everything of a study lies on disk. No other module joins these names.

runs/<study>/
    study.json                   what the study was started from
    driver.log                   what the driver did, a line each
    driver.out                   what a driver without a terminal printed
    driver.json                  where the driver runs, its last round, its calls to the scheduler
    requests/                    what users ask of the driver, a file each, gone once it is heard
    code/<hash>/                 the code that jobs on a cluster run
    best/                        the exported best configuration
    jobs/<job>/                  job.json (the trials it trains), next-<k>.json (those it trains
                                 after them), the executor's log files,
                                 traces/, hpsearch.prom (gauges for Prometheus)
    trials/<number>/
        config.yaml              the complete trainer configuration
        lineage.json             parents, operator, seed
        control.json             written by the driver: the valid token, whether to stop
        save                     there while somebody asks for a checkpoint
        metrics.jsonl            the learning curve, a line an evaluation
        games.jsonl              lengths and actions of the games behind it
        training.jsonl           losses and rates, a line a look of the monitor
        tensorboard/             the same for TensorBoard
        checkpoints/             step-<n>/, and best.json: which one is the best
        result.json              written by the driver when the trial is told
        attempt-<k>/             heartbeat.json, result.json: written by the job

A run of its own, runs/<name>/, is laid out as a trial, with traces/ and hpsearch.prom, lock (held
by the process that trains it) and fault.log beside.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hpsearch.atomic import read_json, write_json, write_text
from hpsearch.cluster.curve import Curve
from hpsearch.cluster.messages import Assignment, AttemptResult, Control, Heartbeat, JobPlan
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.schema import read

TEXTFILE, TRACES = "hpsearch.prom", "traces"


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
    def output(self) -> Path:
        """Return the file of what a driver without a terminal printed."""
        return self.root / "driver.out"

    @property
    def driver(self) -> Path:
        """Return the file that says how the driver is."""
        return self.root / "driver.json"

    @property
    def key(self) -> str:
        """Return a name that no study in another folder has, for a queue that many share."""
        digest = hashlib.sha256(str(self.root.absolute()).encode()).hexdigest()
        return f"{self.root.name}-{digest[:8]}"

    @property
    def requests(self) -> Path:
        """Return the folder of what users ask of the driver."""
        return self.root / "requests"

    def request(self, name: str) -> Path:
        """Return the file of one request."""
        return self.requests / f"{name}.json"

    @property
    def code(self) -> Path:
        """Return the folder of the code that jobs run, by its hash."""
        return self.root / "code"

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

    @property
    def jobs(self) -> Path:
        """Return the folder of the jobs' folders."""
        return self.root / "jobs"

    def job(self, name: str) -> "JobDir":
        """Return the folder of one job."""
        return JobDir(self.jobs / name)


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

    @property
    def pickles(self) -> list[Path]:
        """Return submitit's files of what was called and returned, half-written ones too."""
        return sorted(self.root.glob("*.pkl*"))

    @property
    def scripts(self) -> list[Path]:
        """Return the scripts that sbatch took, one for each array that begins with this job."""
        return sorted(self.root.glob("*_submission.sh"))

    @property
    def textfile(self) -> Path:
        """Return the file of the job's gauges for Prometheus."""
        return self.root / TEXTFILE

    @property
    def traces(self) -> Path:
        """Return the folder of the profiler's traces."""
        return self.root / TRACES

    def write(self, plan: JobPlan) -> None:
        """Say what the job is for."""
        write_json(self.root / "job.json", asdict(plan))

    def read(self) -> JobPlan:
        """Return what the job is for."""
        plan = read_json(self.root / "job.json")
        return JobPlan(_assignments(plan), plan["num_threads"], plan["pilot_seconds"])

    def write_next(self, number: int, assignments: Sequence[Assignment]) -> None:
        """Give the job more trials to train after its first ones; none let it leave.

        ``number`` counts what it was given so, from 1.
        """
        write_json(self._next(number), {"assignments": [asdict(one) for one in assignments]})

    def read_next(self, number: int) -> tuple[Assignment, ...] | None:
        """Return what the job trains next, None while that has not been said."""
        given = read_json(self._next(number))
        return None if given is None else _assignments(given)

    def _next(self, number: int) -> Path:
        return self.root / f"next-{number}.json"


def _assignments(plan: Any) -> tuple[Assignment, ...]:
    return tuple(Assignment(**one) for one in plan["assignments"])


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
            return None if data is None else read(Control, data, source=str(path))
        except ConfigError as error:
            raise CorruptError(
                f"{path} is no control file ({'; '.join(error.problems)})"
            ) from error

    def write_result(self, told: dict[str, Any]) -> None:
        """Write what was told to the study."""
        write_json(self.result, told)

    @property
    def attempts(self) -> list["AttemptDir"]:
        """Return the folders of the attempts that were begun."""
        return [AttemptDir(path) for path in sorted(self.root.glob("attempt-*"))]

    def num_attempts(self) -> int:
        """Return how many attempts there have been."""
        return sum(1 for _ in self.root.glob("attempt-*"))

    @property
    def lock(self) -> Path:
        """Return the file that the process which trains a run of its own holds locked."""
        return self.root / "lock"

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
        """Ask whoever trains this for a checkpoint now."""
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
        Curve(self.metrics).append(row)

    def append_games(self, row: dict[str, Any]) -> None:
        """Add one line on the games behind the learning curve."""
        Curve(self.games).append(row)

    def read_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the learning curve; a line cut off by a crash is left out."""
        return Curve(self.metrics).read()

    def forget_metrics_after(self, step: int) -> None:
        """Drop the lines of steps that an attempt going on from ``step`` will make again."""
        for path in (self.metrics, self.games):
            Curve(path).forget_after(step)


@dataclass(frozen=True)
class AttemptDir:
    """The folder of one attempt at a trial."""

    root: Path

    def write_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Give a sign of life."""
        write_json(self.heartbeat, asdict(heartbeat))

    def read_heartbeat(self) -> Heartbeat | None:
        """Return the last sign of life, None if there was none or it is damaged."""
        try:
            data = read_json(self.heartbeat)
            return None if data is None else read(Heartbeat, data, source="")
        except (CorruptError, DiskError, ConfigError):
            return None

    def seconds_since_heartbeat(self, now: float) -> float | None:
        """Return the age of the last sign of life, None if there was none.

        By the file system's clock: what a job says of its own is not believed.
        """
        try:
            return max(0.0, now - self.heartbeat.stat().st_mtime)
        except OSError:
            return None

    @property
    def heartbeat(self) -> Path:
        """Return the file of the last sign of life."""
        return self.root / "heartbeat.json"

    def write_result(self, result: AttemptResult) -> None:
        """Say how the attempt ended."""
        write_json(self.root / "result.json", asdict(result))

    def read_result(self) -> AttemptResult | None:
        """Return how the attempt ended, None if it has not said so.

        Raises:
            CorruptError: if the file is damaged.
        """
        path = self.root / "result.json"
        data = read_json(path)
        try:
            return None if data is None else read(AttemptResult, data, source=str(path))
        except ConfigError as error:
            raise CorruptError(f"{path} is no result ({'; '.join(error.problems)})") from error
