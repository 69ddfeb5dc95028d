"""Where everything of a study lies on disk: here and in `match_dir` alone names are joined.

runs/<study>/                           StudyDir
runs/<study>/jobs/<job>/                JobDir; also the executor's log files
runs/<study>/matches/<number>/          MatchDir
runs/<study>/trials/<number>/           TrialDir
runs/<study>/trials/<number>/attempt-<k>/  AttemptDir

A run without a study, runs/<name>/, is laid out as a trial.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpsearch.cluster.heartbeats import HeartbeatFile
from hpsearch.cluster.match_dir import MatchDir
from hpsearch.cluster.record_files import CurveFile, Folder, Place, Record, RecordFile
from hpsearch.cluster.records import (
    Assignment,
    AttemptResult,
    Birth,
    Control,
    DeviceReport,
    Exchanges,
    Given,
    Heartbeat,
    Island,
    JobPlan,
    Lineage,
    Start,
)
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import flush, write_json, write_text
from hpsearch.printable import printable
from hpsearch.trainers.checkpoint_name import name_of

MAX_KIND, MAX_MESSAGE = 64, 4000
"""characters of what an attempt may say of its failure, which becomes an event"""
TEXTFILE = "hpsearch.prom"


class StudyDir(Folder):
    spec = Place("study.json")  # what the study was started from
    study_file = Place("study.yaml")  # its study file, where a command made it of another study
    given_total = Place("given-total.json")  # the number of trials that `run --trials` gave
    log = Place("driver.log")  # what the driver did, a line each
    output = Place("driver.out")  # what a driver without a terminal printed
    driver = Place("driver.json")  # where the driver runs, its last round, its scheduler calls
    driver_start = Place("driver-start.json")  # the driver last started without a terminal
    driver_start_lock = Place("driver-start.lock")  # held by the command that starts one
    driver_retry = Place("driver-retry.json")  # why the driver tries again, as long as it must
    tensorboard = Place("tensorboard")  # what `tensorboard` shows of the trials; may be removed
    requests = Place("requests")  # a file for each request of a user, until the driver takes it;
    # *.damaged: a file that lay there and was no request
    code = Place("code")  # <hash>/: the code that jobs on a cluster run
    best = Place("best")  # the bundle that `export` writes by default
    top = Place("top")  # the same of `export --top`
    front = Place("front")  # the same of `export --pareto`
    report = Place("report.html")  # the page that `report` writes by default
    measured = Place("measured.json")  # what was measured for the last page
    confirmation = Place("confirmation.json")  # what `confirm` measured
    trials = Place("trials")
    jobs = Place("jobs")
    _matches = Place("matches")
    _pins = Place("pins")  # <study>.json: checkpoints of this study that another one needs

    @property
    def key(self) -> str:
        """A name that no study in another folder has, for a queue that many share."""
        digest = hashlib.sha256(str(self.root.absolute()).encode()).hexdigest()
        return f"{self.root.name}-{digest[:8]}"

    def request(self, name: str) -> Path:
        return self.requests / f"{name}.json"

    def replay(self, trial: int) -> Path:
        """Return the file of what `replay` measured of the schedule of a trial."""
        return self.root / f"replay-{trial}.json"

    def base(self, algorithm: str) -> Path:
        """Return the base configuration beside `study_file`."""
        return self.root / f"base-{algorithm}.yaml"

    def pin(self, heir: str) -> Path:
        """Return the file of what another study, by its key, needs of this one."""
        return self._pins / f"{heir}.json"

    @property
    def pin_files(self) -> list[Path]:
        return sorted(self._pins.glob("*.json"))

    def trial(self, number: int) -> "TrialDir":
        return TrialDir(self.trials / str(number))

    def job(self, name: str) -> "JobDir":
        return JobDir(self.jobs / name)

    def match(self, number: int) -> MatchDir:
        return MatchDir(self._matches / str(number))

    def checkpoint(self, place: str) -> Path:
        """Return the checkpoint that a lineage or a match names: from this folder, or absolute."""
        return self.root / place

    def heartbeat(self, trial: int, attempt: int) -> Heartbeat | None:
        """Return the last heartbeat of an attempt whose job is not known, None if there is none.

        It reads the files of all jobs, the newest first, until one names the attempt.
        """
        for folder in sorted(self.jobs.glob("*"), reverse=True):
            last = JobDir(folder).heartbeat.read()
            beat = None if last is None else last.of(trial, attempt)
            if beat is not None:
                return beat
        return self.trial(trial).attempt(attempt).read_heartbeat()


def owner_of(checkpoint: Path) -> tuple[str, int] | None:
    """Return the study and the trial whose checkpoint this is, None if it is no trial's."""
    match checkpoint.parts:
        case [*_, study, "trials", number, "checkpoints", _] if number.isdecimal():
            return study, int(number)
    return None


def final_checkpoint(trial: int, steps: int) -> str:
    """Return where the checkpoint of a trial's last step lies, from the study's folder."""
    return str(StudyDir(Path()).trial(trial).checkpoints / name_of(steps))


class JobDir(Folder):
    plan = Record(JobPlan, "job.json")  # the trials that it trains first, or the match
    report = Record(DeviceReport, "devices.json")  # what `doctor` asked for
    waits = Place("waits-for-gpus")  # there while the job waits for GPUs of this machine
    logs = Place("*_log.out")  # pattern of the executor's log files
    textfile = Place(TEXTFILE)  # gauges for Prometheus
    traces = Place("traces")  # of the profiler

    @property
    def name(self) -> str:
        """The job's name, unique in its study."""
        return self.root.name

    @property
    def study(self) -> StudyDir:
        return StudyDir(self.root.parent.parent)

    @property
    def heartbeat(self) -> HeartbeatFile:
        return HeartbeatFile(self.root / "heartbeat.json")

    @property
    def pickles(self) -> list[Path]:
        """Submitit's files of what was called and returned, half-written ones too."""
        return sorted(self.root.glob("*.pkl*"))

    @property
    def scripts(self) -> list[Path]:
        """The scripts that sbatch took, one for each array that begins with this job."""
        return sorted(self.root.glob("*_submission.sh"))

    def write_next(
        self, number: int, assignments: Sequence[Assignment] = (), match: int | None = None
    ) -> None:
        """Give the job more trials or a match, or end it; ``number`` counts these files from 1."""
        self._next(number).write(Given(tuple(assignments), match))

    def read_next(self, number: int) -> Given | None:
        """Return what the job is given at this count, None while that has not been said."""
        return self._next(number).read()

    def _next(self, number: int) -> RecordFile[Given]:
        return RecordFile(Given, self.root / f"next-{number}.json")


class TrialDir(Folder):
    """The folder of one trial, or of a run without a study."""

    config = Place("config.yaml")  # the complete trainer configuration
    lineage = Record(Lineage, "lineage.json")  # parents, operator, seed
    birth = Record(Birth, "birth.json")  # whether the operator's child was adopted
    island = Record(Island, "island.json")  # how the trial breeds with those beside it in its job
    exchanges = Record(Exchanges, "exchanges.json")  # which copies took its place or were taken
    control = Record(Control, "control.json")  # by the driver: the valid token, whether to stop
    checkpoints = Place("checkpoints")  # step-<n>/, and best.json: which one is the best
    metrics = Place("metrics.jsonl")  # the learning curve, a line for each evaluation
    games = Place("games.jsonl")  # lengths and actions of the games behind it
    training_log = Place("training.jsonl")  # losses and rates, a line for each snapshot
    tensorboard = Place("tensorboard")  # the same for TensorBoard
    result = Place("result.json")  # by the driver, when the trial is told
    _save_request = Place("save")  # there while a user asks for a checkpoint

    # Of a run without a study alone:
    lock = Place("lock")  # held by the process that trains it
    textfile = Place(TEXTFILE)
    traces = Place("traces")
    fault = Place("fault.log")  # tells a fault of ours in full

    @property
    def heartbeat(self) -> HeartbeatFile:
        return HeartbeatFile(self.root / "heartbeat.json")

    def attempt(self, number: int) -> "AttemptDir":
        """Return the folder of one attempt, counted from 1."""
        return AttemptDir(self.root / f"attempt-{number}")

    @property
    def attempts(self) -> list["AttemptDir"]:
        return [AttemptDir(path) for path in sorted(self.root.glob("attempt-*"))]

    def newest_attempt(self) -> int:
        """Return the number of the last attempt that began, 0 if none has."""
        numbers = (path.name.partition("-")[2] for path in self.root.glob("attempt-*"))
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def create(self, config: str, lineage: Lineage, island: Island | None = None) -> None:
        """Write what the trial is; doing it again changes nothing."""
        write_text(self.config, config)
        self.lineage.write(lineage)
        if island is not None:
            self.island.write(island)

    def read_exchanges(self) -> Exchanges:
        """Return what the trial took from those beside it and gave them."""
        return self.exchanges.read() or Exchanges()

    def write_result(self, told: dict[str, Any]) -> None:
        write_json(self.result, told)

    def request_save(self) -> None:
        """Ask the job that trains this for a checkpoint now."""
        self._save_request.touch()

    def take_save_request(self) -> bool:
        """Return whether a checkpoint was asked for, and forget it."""
        if not self._save_request.exists():
            return False
        self._save_request.unlink(missing_ok=True)
        return True

    def append_metrics(self, row: dict[str, Any]) -> None:
        CurveFile(self.metrics).append(row)

    def read_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the learning curve; a line cut off by a crash is left out."""
        return CurveFile(self.metrics).read()

    def forget_metrics_after(self, step: int) -> None:
        """Drop the lines of steps that an attempt going on from ``step`` will make again."""
        for path in (self.metrics, self.games):
            CurveFile(path).forget_after(step)


class AttemptDir(Folder):
    """The folder of one attempt at a trial, written by its job."""

    start = Record(Start, "start.json")  # the step from which it goes on
    _result = Record(AttemptResult, "result.json")  # how it ended
    own_heartbeat = Record(Heartbeat, "heartbeat.json")  # see `read_heartbeat`

    def read_heartbeat(self) -> Heartbeat | None:
        """Return the last heartbeat of an attempt of an older version, None without a whole one.

        Needed until no job runs that was submitted by a version which knew no `JobDir.heartbeat`.
        """
        return self.own_heartbeat.read_if_possible()

    def has_begun(self) -> bool:
        """Return whether the attempt has begun; DiskError if that cannot be known now."""
        try:
            return self.start.read() is not None
        except CorruptError:
            return True

    def write_result(self, result: AttemptResult) -> None:
        self._result.write(_legible(result))

    def read_result(self) -> AttemptResult | None:
        """Return how the attempt ended, None if it has not said so; raises as `read_record`.

        Whatever wrote it, its words are printable, and cut where they are too long.
        """
        result = self._result.read()
        return None if result is None else _legible(result)

    def flush(self) -> None:
        """Make this survive a loss of power before others point to it, or raise DiskError.

        A job may have died after it gave its result a name, but before it could flush that.
        """
        try:
            for folder in (self.root, self.root.parent):
                flush(folder)
        except OSError as error:
            raise DiskError(
                f"{self.root} cannot be flushed ({error.strerror}); check the file system"
            ) from error


def _legible(result: AttemptResult) -> AttemptResult:
    """Return a result with words that any terminal shows, of a length that people read."""
    kind = None if result.kind is None else printable(result.kind)[:MAX_KIND]
    return replace(result, kind=kind, message=printable(result.message)[:MAX_MESSAGE])
