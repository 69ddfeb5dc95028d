"""Where everything of a study lies on disk; only this file builds these paths.

runs/<study>/                           StudyDir
runs/<study>/jobs/<job>/                JobDir; also the executor's log files
runs/<study>/matches/<number>/          MatchDir
runs/<study>/trials/<number>/           TrialDir
runs/<study>/trials/<number>/attempt-<k>/  AttemptDir

A run without a study, runs/<name>/, is laid out as a trial.
"""

import hashlib
import io
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from hpsearch.cluster import records
from hpsearch.cluster.record_files import CurveFile, Folder, Place, Record, RecordFile, line_of
from hpsearch.errors import CorruptError, unwritten
from hpsearch.files import flush, forget_after, open_file, unreadable, write_bytes, write_files
from hpsearch.printable import printable
from hpsearch.trainers.checkpoint_name import PREFIX, name_of

COMPILING = "compiling kernels (first run only)"
"""what is said while the file `JobDir.compiles` is there"""

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MAX_KIND, MAX_MESSAGE = 64, 4000
"""characters of what an attempt may say of its failure, which becomes an event"""
TEXTFILE = "hpsearch.prom"
MAX_ARRAY = 2**31  # bytes of an array: 32 times 32 players in 500,000 games each


class StudyDir(Folder):
    spec = Place("study.json")  # what the study was started from
    study_file = Place("study.yaml")  # its study file, where a command made it of another study
    given_total = Place("given-total.json")  # the number of trials that `run --trials` gave
    log = Place("driver.log")  # what the driver did, a line each
    output = Place("driver.out")  # what a driver without a terminal printed
    notices = Place("notices.log")  # which notices were sent, or why not
    tracking_log = Place("tracking.log")  # why trials were not sent to a tracker
    tracking_lock = Place("tracking.lock")  # held by the process that sends them
    driver = Place("driver.json")  # where the driver runs, its last round, its scheduler calls
    driver_start = Place("driver-start.json")  # the driver last started without a terminal
    driver_start_lock = Place("driver-start.lock")  # held by the command that starts one
    driver_retry = Record(records.DriverRetry, "driver-retry.json")  # why it is tried again
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

    def tracker(self, name: str) -> Path:
        """Return the folder of a tracker's own files."""
        return self.root / (name if name == "wandb" else f"tracker-{name}")

    def tracked(self, tracker: str) -> Path:
        """Return the file of what a tracker has been sent."""
        return self.root / f"tracked-{tracker}.json"

    def replay(self, trial: int) -> Path:
        return self.root / f"replay-{trial}.json"

    def base(self, algorithm: str) -> Path:
        return self.root / f"base-{algorithm}.yaml"

    def pin(self, dependent_study: str) -> RecordFile[records.Pin]:
        """Return the file of what another study, by its key, needs of this one."""
        return RecordFile(records.Pin, self._pins / f"{dependent_study}.json")

    @property
    def pins(self) -> list[RecordFile[records.Pin]]:
        return [RecordFile(records.Pin, path) for path in sorted(self._pins.glob("*.json"))]

    def trial(self, number: int) -> "TrialDir":
        return TrialDir(self.trials / str(number))

    def job(self, name: str) -> "JobDir":
        return JobDir(self.jobs / name)

    def match(self, number: int) -> "MatchDir":
        return MatchDir(self._matches / str(number))

    def checkpoint(self, place: str) -> Path:
        """Return the checkpoint that a lineage or a match names: from this folder, or absolute."""
        return self.root / place

    def heartbeat(self, trial: int, attempt: int) -> records.Heartbeat | None:
        """Return an attempt's last heartbeat; reads the files of all jobs, the newest first."""
        for folder in sorted(self.jobs.glob("*"), reverse=True):
            last = JobDir(folder).heartbeat.try_read()
            beat = None if last is None else last.of(trial, attempt)
            if beat is not None:
                return beat
        return self.trial(trial).attempt(attempt).heartbeat.try_read()


def owner_of(checkpoint: Path) -> tuple[str, int] | None:
    """Return the study and the trial whose checkpoint this is, None if it is no trial's."""
    match checkpoint.parts:
        case [*_, study, "trials", number, "checkpoints", _] if number.isdecimal():
            return study, int(number)
    return None


def final_checkpoint(trial: int, steps: int) -> str:
    """Return where the checkpoint of a trial's last step lies, from the study's folder."""
    return str(StudyDir(Path()).trial(trial).checkpoints / name_of(steps))


# Checkpoints that other studies need, to begin or to compare with: a study must keep them. A study
# that needs some writes a file into the folder of their study. It counts while the folder of the
# study that wrote it exists.


def pin(owner: StudyDir, dependent_study: StudyDir, checkpoints: Iterable[Path]) -> None:
    """Note that a study needs checkpoints of ``owner``; DiskError if that cannot be written."""
    places = sorted(str(path.relative_to(owner.root)) for path in checkpoints)
    owner.pin(dependent_study.key).write(records.Pin(str(dependent_study.root), tuple(places)))


def pin_founders(dependent_study: StudyDir, founders: Iterable[Path]) -> None:
    """Note that ``dependent_study`` needs checkpoints, in whichever study each lies, if in any."""
    by_owner: dict[Path, list[Path]] = {}
    for path in founders:
        whole = path.resolve()
        owner = next((folder for folder in whole.parents if StudyDir(folder).spec.exists()), None)
        if owner is not None:
            by_owner.setdefault(owner, []).append(whole)
    for root, checkpoints in by_owner.items():
        pin(StudyDir(root), dependent_study, checkpoints)


def pinned(owner: StudyDir) -> Mapping[str, frozenset[Path]]:
    """Return the checkpoints that others need, by study; CorruptError if a file is damaged."""
    checkpoints: dict[str, frozenset[Path]] = {}
    for file in owner.pins:
        pins = file.read()
        if pins is not None and os.path.isdir(pins.study):
            places = frozenset(owner.checkpoint(place) for place in pins.checkpoints)
            name = Path(pins.study).name
            checkpoints[name] = checkpoints.get(name, frozenset()) | places
    return checkpoints


class JobDir(Folder):
    plan = Record(records.JobPlan, "job.json")  # the trials that it trains first, or the match
    heartbeat = Record(records.JobHeartbeat, "heartbeat.json")
    report = Record(records.DeviceReport, "devices.json")  # what `doctor` asked for
    address = Record(records.RankAddress, "address.json")  # where its ranks meet
    waits = Place("waits-for-gpus")  # there while the job waits for GPUs of this machine
    held = Record(records.HeldGpus, "gpus.json")  # the GPUs that it then got
    compiles = Place("compiles-kernels")  # there while kernels are compiled for the job
    submitted = Record(records.SubmittedJob, "submitted.json")  # its id, by schedulers of PSI/J
    started = Place("started")  # there once such a job has begun
    is_to_leave = Place("is-to-leave")  # there once it is asked to leave
    setup = Place("setup.sh")  # what such a job does first
    log = Place("0_log.out")  # what it printed
    logs = Place("*_log.out")  # pattern of the executor's log files
    textfile = Place(TEXTFILE)  # gauges for Prometheus
    traces = Place("traces")  # of the profiler
    timeline = Record(records.Timeline, "timeline.json")  # what learner and actors did of late
    weights = Place("weights")  # for actors that read them from files, while the job runs

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def study(self) -> StudyDir:
        return StudyDir(self.root.parent.parent)

    @property
    def pickles(self) -> list[Path]:
        """Submitit's files of what was called and returned, half-written ones too."""
        return sorted(self.root.glob("*.pkl*"))

    @property
    def scripts(self) -> list[Path]:
        """The scripts that sbatch took, one for each array that begins with this job."""
        return sorted(self.root.glob("*_submission.sh"))

    def write_next(
        self, number: int, assignments: Sequence[records.Assignment] = (), match: int | None = None
    ) -> None:
        """Give the job more trials or a match, or end it; ``number`` counts these files from 1."""
        self._next(number).write(records.JobWork(tuple(assignments), match))

    def read_next(self, number: int) -> records.JobWork | None:
        """Return what the job is given at this count, None while that has not been said."""
        return self._next(number).read()

    def _next(self, number: int) -> RecordFile[records.JobWork]:
        return RecordFile(records.JobWork, self.root / f"next-{number}.json")


class TrialDir(Folder):
    config = Place("config.yaml")  # the complete trainer configuration
    lineage = Record(records.Lineage, "lineage.json")  # parents, operator, seed, in a population
    birth = Record(records.Birth, "birth.json")  # whether the operator's child was adopted
    island = Record(records.Island, "island.json")  # how the trial breeds within its job
    exchanges = Record(records.Exchanges, "exchanges.json")  # copies that it took and gave
    control = Record(records.Control, "control.json")  # by the driver: the valid token, a stop
    checkpoints = Place("checkpoints")  # step-<n>/, and best.json: which one is the best
    metrics = Place("metrics.jsonl")  # the learning curve and its games, a line for each evaluation
    training_log = Place("training.jsonl")  # losses and rates, a line for each snapshot
    tensorboard = Place("tensorboard")  # the same for TensorBoard
    result = Place("result.json")  # by the driver, when the trial is told
    program = Place("program")  # of a program: what it keeps, until it becomes a checkpoint
    output = Place("output.log")  # what a program printed, of all attempts
    _save_request = Place("save")  # there while a user asks for a checkpoint

    # Of a run without a study alone:
    lock = Place("lock")  # held by the process that trains it
    textfile = Place(TEXTFILE)
    traces = Place("traces")
    timeline = Record(records.Timeline, "timeline.json")
    weights = Place("weights")
    fault = Place("fault.log")  # tells a fault of ours in full
    heartbeat = Record(records.JobHeartbeat, "heartbeat.json")

    def attempt(self, number: int) -> "AttemptDir":
        return AttemptDir(self.root / f"attempt-{number}")

    @property
    def attempts(self) -> list["AttemptDir"]:
        return [AttemptDir(path) for path in sorted(self.root.glob("attempt-*"))]

    def newest_attempt(self) -> int:
        """Return the number of the last attempt that began, 0 if none has."""
        numbers = (path.name.partition("-")[2] for path in self.root.glob("attempt-*"))
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def create(
        self,
        config: str,
        lineage: records.Lineage | None = None,
        island: records.Island | None = None,
        control: records.Control | None = None,
    ) -> None:
        """Write what the trial is, and last who may train it; doing it again changes nothing."""
        made = {self.config.name: config.encode()}
        if lineage is not None:
            made[self.lineage.path.name] = line_of(lineage)
        if island is not None:
            made[self.island.path.name] = line_of(island)
        if control is not None:
            made[self.control.path.name] = line_of(control)
        write_files(self.root, made)

    def read_lineage(self, seed: int, descends: bool) -> records.Lineage:
        """Return the lineage, where none is written that of new networks drawn by ``seed``.

        Raises CorruptError if it is damaged, or missing although the trial ``descends``.
        """
        if descends:
            return self.lineage.required()
        return self.lineage.read() or records.Lineage(records.Fresh(), seed)

    def read_exchanges(self) -> records.Exchanges:
        return self.exchanges.read() or records.Exchanges()

    def end(self, told: dict[str, Any], control: records.Control | None) -> None:
        """Write how the trial ended, and what its valid attempt, if one runs, is to obey."""
        ended = {self.result.name: json.dumps(told).encode() + b"\n"}
        if control is not None:
            ended[self.control.path.name] = line_of(control)
        write_files(self.root, ended)

    def request_save(self) -> None:
        self._save_request.touch()

    def take_save_request(self) -> bool:
        if not self._save_request.exists():
            return False
        self._save_request.unlink(missing_ok=True)
        return True

    def append_metrics(self, row: dict[str, Any]) -> None:
        CurveFile(self.metrics).append(row)

    def read_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the learning curve, as `CurveFile.read` does."""
        return CurveFile(self.metrics).read()

    def forget_metrics_after(self, step: int) -> None:
        """Drop the lines of steps that an attempt going on from ``step`` will make again."""
        forget_after(self.metrics, step)


class AttemptDir(Folder):
    start = Record(records.Start, "start.json")  # the step from which it goes on
    _result = Record(records.AttemptResult, "result.json")  # how it ended
    heartbeat = Record(records.Heartbeat, "heartbeat.json")
    """written only by jobs of versions without `JobDir.heartbeat`; can go when none of them runs"""

    def has_begun(self) -> bool:
        try:
            return self.start.read() is not None
        except CorruptError:
            return True

    def write_result(self, result: records.AttemptResult) -> None:
        self._result.write(_legible(result))

    def read_result(self) -> records.AttemptResult | None:
        """Return how the attempt ended, None if it has not said so; raises as `read_record`."""
        result = self._result.read()
        return None if result is None else _legible(result)

    def flush(self) -> None:
        """Flush the folder to disk, as its job may have died before; DiskError if that fails."""
        try:
            flush(self.root)
            flush(self.root.parent)
        except OSError as error:
            raise unwritten(self.root, error) from error


def _legible(result: records.AttemptResult) -> records.AttemptResult:
    """Return a result with words that any terminal shows, cut where they are too long."""
    kind = None if result.kind is None else printable(result.kind)[:MAX_KIND]
    return replace(result, kind=kind, message=printable(result.message)[:MAX_MESSAGE])


@dataclass(frozen=True)
class MatchGames:
    """How long the games of every pair took. Axes: S sets of starts, P hosts, Q agents, G games."""

    moves: "npt.NDArray[np.int64]"
    """(S, P, Q, G), the cap where a game did not finish; game g of every pair has the same start"""
    finished: "npt.NDArray[np.bool_]"  # (S, P, Q, G)


class MatchDir(Folder):
    plan = Record(records.MatchPlan, "plan.json")  # who plays, by the driver
    answers = Record(records.Answers, "answers.json")  # how responses fared; before the games
    sign = Record(records.MatchSign, "alive.json")  # the job's last heartbeat
    _games = Place("games.npz")  # lengths of all games, written by the job last

    def write_games(self, games: MatchGames) -> None:
        """Say how the games went: the last thing that a match writes."""
        import numpy as np

        file = io.BytesIO()
        np.savez_compressed(file, moves=games.moves.astype(np.int32), finished=games.finished)
        write_bytes(self._games, file.getvalue())

    def read_games(self) -> MatchGames | None:
        """Return how the games went, None if they have not been played; raises as `read_record`."""
        if (stored := self.stored_games()) is None:
            return None
        moves, finished = stored
        return MatchGames(moves.astype("int64", copy=False), finished.astype("bool", copy=False))

    def stored_games(self) -> "tuple[npt.NDArray[Any], npt.NDArray[Any]] | None":
        """Return moves and finished as `read_games` does, in the types that they are stored in."""
        try:
            # Opened here, since numpy leaves a file open in which it finds no archive.
            with open_file(self._games) as file, ZipFile(file) as archive:
                moves, finished = (_array(archive, f"{name}.npy") for name in ("moves", "finished"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(self._games, error) from error
        except CorruptError:
            raise
        # Neither zipfile nor numpy says what it raises for a damaged file.
        except Exception as error:
            raise CorruptError(f"{self._games} holds no games ({error})") from error
        if moves.dtype.kind != "i" or moves.min(initial=0) < 0 or moves.shape != finished.shape:
            raise CorruptError(f"{self._games} holds no games, but {moves.dtype} {moves.shape}")
        return moves, finished

    def give_sign(self, pairs_played: int = 0) -> None:
        self.sign.replace(records.MatchSign(time.time(), pairs_played))

    def progress(self) -> tuple[int, int] | None:
        """Return how many pairs have played, of how many; None while that is not known."""
        if (plan := self.plan.try_read()) is None:
            return None
        sign, total = self.sign.try_read(), prod(plan.shape[:3])
        return (0 if sign is None or sign.pairs > total else sign.pairs), total

    def last_sign(self) -> float:
        """Return when the job last gave a heartbeat by its machine's clock, 0 if not known."""
        sign = self.sign.try_read()
        return 0.0 if sign is None else sign.at

    @property
    def responses(self) -> list[Path]:
        """The checkpoints of the responses that were trained for this match."""
        return sorted(self.root.glob(f"response-*/{PREFIX}*"))

    def response(self, role: str) -> Path:
        return self.root / f"response-{role}"


def _array(archive: ZipFile, name: str) -> "npt.NDArray[Any]":
    """Return an array of an archive, which is all that its file holds, at most MAX_ARRAY bytes."""
    # numpy by itself would make room for whatever a header claims before it reads a value.
    import numpy as np

    size = archive.getinfo(name).file_size
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"an array of version {version}")
        shape, in_columns, kind = np.lib.format.read_array_header_1_0(file)
        needed = kind.itemsize * prod(shape)
        if kind.hasobject or needed > min(size, MAX_ARRAY):
            raise ValueError(f"an array of {kind} and shape {shape} in {size} bytes")
        values = np.frombuffer(file.read(needed), kind)
        if file.read(1):
            raise ValueError(f"more than an array of {kind} and shape {shape}")
        return values.reshape(shape, order="F" if in_columns else "C")
