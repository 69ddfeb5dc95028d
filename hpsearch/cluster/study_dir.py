"""Where everything of a study lies on disk: here, in `trial_dir` and `match_dir` names are joined.

runs/<study>/
    study.json                   what the study was started from
    given-total.json             the number of trials that `run --trials` gave
    driver.log                   what the driver did, a line each
    driver.out                   what a driver without a terminal printed
    driver-start.json            the driver that was last started without a terminal
    driver-start.lock            held by the command that starts one
    driver-retry.json            why the driver tries again, there as long as it cannot get on
    driver.json                  where the driver runs, its last round, its calls to the scheduler
    tensorboard/                 what `tensorboard` shows of the trials, which may be removed
    requests/                    what users ask of the driver, a file each, gone once it is heard;
                                 *.damaged: what lay there and was no request
    code/<hash>/                 the code that jobs on a cluster run
    best/                        the exported bundle of the best
    top/, front/                 bundles of the best few, of those that no other one beats
    report.html                  the page that `report` writes by default
    confirmation.json            what `confirm` found out about the best configurations
    replay-<trial>.json          what `replay` found out about the schedule of a trial
    pins/<study>.json            checkpoints of this study that another one needs
    study.yaml, base-<algorithm>.yaml
                                 what the study was started from, where a command wrote it
    jobs/<job>/                  job.json (the trials it trains), next-<k>.json (those it trains
                                 beside or after them, or a match), heartbeat.json (its last sign
                                 of life, with the step of each trial), the executor's log files,
                                 traces/, hpsearch.prom (gauges for Prometheus), waits-for-gpus
                                 (there while it does), devices.json (what `doctor` asked for)
    matches/<number>/            see `match_dir`
    trials/<number>/
        config.yaml              the complete trainer configuration
        lineage.json             parents, operator, seed
        birth.json               whether the operator's child was adopted
        island.json              how the trial breeds with those beside it in its job
        exchanges.json           whose copy took its place, and which copies of it were taken
        control.json             written by the driver: the valid token, whether to stop
        save                     there while a user asks for a checkpoint
        metrics.jsonl            the learning curve, a line an evaluation
        games.jsonl              lengths and actions of the games behind it
        training.jsonl           losses and rates, a line a look of the monitor
        tensorboard/             the same for TensorBoard
        checkpoints/             step-<n>/, and best.json: which one is the best
        result.json              written by the driver when the trial is told
        attempt-<k>/             start.json (the step from which it goes on), result.json: written
                                 by the job

A run of its own, runs/<name>/, is laid out as a trial, with heartbeat.json, traces/ and
hpsearch.prom, lock (held by the process that trains it) and fault.log beside.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hpsearch.cluster.heartbeats import HeartbeatFile
from hpsearch.cluster.match_dir import MatchDir
from hpsearch.cluster.records import (
    Assignment,
    DeviceReport,
    Given,
    Heartbeat,
    JobPlan,
    read_record,
    required_record,
)
from hpsearch.cluster.trial_dir import TEXTFILE, TRACES, TrialDir
from hpsearch.files import write_json
from hpsearch.trainers.checkpoint_name import name_of


@dataclass(frozen=True)
class StudyDir:
    """The folder of one study."""

    root: Path

    @property
    def spec(self) -> Path:
        """Return the file that holds what the study was started from."""
        return self.root / "study.json"

    @property
    def given_total(self) -> Path:
        """Return the file that says which number of trials a command gave."""
        return self.root / "given-total.json"

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
    def tensorboard(self) -> Path:
        """Return the folder that `tensorboard` writes by default."""
        return self.root / "tensorboard"

    @property
    def driver_start(self) -> Path:
        """Return the file that says which driver was last started without a terminal."""
        return self.root / "driver-start.json"

    @property
    def driver_start_lock(self) -> Path:
        """Return the file that a command holds while it starts a driver."""
        return self.root / "driver-start.lock"

    @property
    def driver_retry(self) -> Path:
        """Return the file that says why the driver tries again."""
        return self.root / "driver-retry.json"

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
    def report(self) -> Path:
        """Return the page that `report` writes by default."""
        return self.root / "report.html"

    @property
    def measured(self) -> Path:
        """Return the file that keeps what was measured for the last page."""
        return self.root / "measured.json"

    @property
    def top(self) -> Path:
        """Return the folder that `export --top` writes by default."""
        return self.root / "top"

    @property
    def front(self) -> Path:
        """Return the folder that `export --pareto` writes by default."""
        return self.root / "front"

    @property
    def confirmation(self) -> Path:
        """Return the file of what `confirm` found out."""
        return self.root / "confirmation.json"

    def replay(self, trial: int) -> Path:
        """Return the file of what `replay` found out about the schedule of a trial."""
        return self.root / f"replay-{trial}.json"

    def pin(self, heir: str) -> Path:
        """Return the file of what another study, by its key, needs of this one."""
        return self.root / "pins" / f"{heir}.json"

    @property
    def pin_files(self) -> list[Path]:
        """Return all files of that kind."""
        return sorted((self.root / "pins").glob("*.json"))

    @property
    def study_file(self) -> Path:
        """Return the study file of a study that a command made of another one."""
        return self.root / "study.yaml"

    def base(self, algorithm: str) -> Path:
        """Return the base configuration beside such a study file."""
        return self.root / f"base-{algorithm}.yaml"

    @property
    def trials(self) -> Path:
        """Return the folder of the trials' folders."""
        return self.root / "trials"

    def trial(self, number: int) -> TrialDir:
        """Return the folder of one trial."""
        return TrialDir(self.trials / str(number))

    def checkpoint(self, place: str) -> Path:
        """Return the checkpoint that a lineage or a match names: from this folder, or absolute."""
        return self.root / place

    def match(self, number: int) -> MatchDir:
        """Return the folder of one match."""
        return MatchDir(self.root / "matches" / str(number))

    @property
    def jobs(self) -> Path:
        """Return the folder of the jobs' folders."""
        return self.root / "jobs"

    def job(self, name: str) -> "JobDir":
        """Return the folder of one job."""
        return JobDir(self.jobs / name)

    def heartbeat(self, trial: int, attempt: int) -> Heartbeat | None:
        """Return the last sign of life of an attempt whose job is not known, None if there is none.

        It reads the files of all jobs, the newest first, until one names the attempt.
        """
        for folder in sorted(self.jobs.glob("*"), reverse=True):
            heard = JobDir(folder).heartbeat.read()
            beat = None if heard is None else heard.of(trial, attempt)
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
    def heartbeat(self) -> HeartbeatFile:
        """Return the file of the job's last sign of life."""
        return HeartbeatFile(self.root / "heartbeat.json")

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
        """Return what the job is for.

        Raises:
            CorruptError, DiskError: as `required_record`.
        """
        return required_record(JobPlan, self.root / "job.json")

    @property
    def waits(self) -> Path:
        """Return the file that is there while the job waits for GPUs of this machine."""
        return self.root / "waits-for-gpus"

    def write_report(self, report: DeviceReport) -> None:
        """Say what the job sees of devices."""
        write_json(self.root / "devices.json", asdict(report))

    def read_report(self) -> DeviceReport | None:
        """Return what the job sees of devices, None if it has not said so.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        return read_record(DeviceReport, self.root / "devices.json")

    def write_next(self, number: int, assignments: Sequence[Assignment]) -> None:
        """Give the job more trials, for beside or after its first ones; none let it leave.

        ``number`` counts what it was given so, from 1.
        """
        write_json(
            self._next(number), {"assignments": [asdict(assignment) for assignment in assignments]}
        )

    def read_next(self, number: int) -> tuple[Assignment, ...] | None:
        """Return what the job is given beside or after that, None while it has not been said.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        given = read_record(Given, self._next(number))
        return None if given is None else given.assignments

    def write_next_match(self, number: int, match: int) -> None:
        """Give the job a match to play when it has trained what it has; counted like trials."""
        write_json(self._next(number), {"assignments": [], "match": match})

    def read_next_match(self, number: int) -> int | None:
        """Return the match that the job is given at this count, None if there is none.

        Raises:
            CorruptError, DiskError: as `read_record`.
        """
        given = read_record(Given, self._next(number))
        return None if given is None else given.match

    def _next(self, number: int) -> Path:
        return self.root / f"next-{number}.json"
