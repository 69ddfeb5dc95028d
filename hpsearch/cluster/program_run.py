"""One attempt of a trial that is a program: its process, what that measures, and how it ended.

A program may be in any language and need not know of hpsearch: it reads its parameters from a file,
appends what it measures to metrics.jsonl, and goes on from what an earlier attempt left in its
folder. No torch here.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpsearch import yaml_file
from hpsearch.cluster.failures import CODE, HUNG, LOST, NAN, OOM_HOST
from hpsearch.cluster.job_trials import JobTrial
from hpsearch.cluster.records import Assignment, Birth, Lineage, MemberHeartbeat, Start
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, CorruptError
from hpsearch.extensions import packages
from hpsearch.files import last_lines
from hpsearch.package import FOLDER as FOLDER_OF_CODE
from hpsearch.population.operators.options import Clone
from hpsearch.programs.config import (
    CONFIG,
    FOLDER,
    STEPS,
    ProgramConfig,
    read_trial_config,
    shape_of,
)
from hpsearch.programs.folder import (
    METRICS,
    PARAMETERS,
    MetricsRow,
    Tail,
    fault_of,
    finite,
    keep,
    prepare,
    row_of,
)
from hpsearch.schema import to_plain
from hpsearch.trainers.checkpoint_name import PROGRAM_FILES, manifest_sha256, name_of, verify

DIES_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
FROM_OUTSIDE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""signals by which a program is ended without a fault of its own"""


@dataclass(frozen=True)
class ProgramTrial(JobTrial):
    config: ProgramConfig
    lineage: Lineage
    parent: Path | None  # the checkpoint that it begins with

    @classmethod
    def open(cls, study: StudyDir, assignment: Assignment, descends: bool = True) -> "ProgramTrial":
        """Read a trial; ConfigError for a wrong configuration, CorruptError for other bad files.

        Without a lineage it begins anew, unless it ``descends``.
        """
        trial = study.trial(assignment.trial)
        config = read_trial_config(yaml_file.load(trial.config), source=str(trial.config))
        if not isinstance(config, ProgramConfig):
            raise ConflictError(f"{trial.config} is a trainer's, but its job runs programs")
        lineage = trial.read_lineage(config.seed, descends)
        parents = [study.checkpoint(parent.checkpoint) for parent in lineage.parents]
        own = trial.attempt(assignment.attempt)
        return cls(assignment, trial, own, config, lineage, parents[0] if parents else None)

    @property
    def shape(self) -> str:
        return shape_of(self.config)

    @property
    def kept(self) -> Path:
        """Where its folder lies once it has ended."""
        return self.trial.checkpoints / name_of(self.config.steps)


class ProgramRun:
    """One attempt: its process, and what that has measured."""

    def __init__(self, own: ProgramTrial) -> None:
        self.own = own
        self.first = own.lineage.first_step
        self.step = self.first  # the last one that was measured
        self.told = 0  # step of the last line of the learning curve
        self._began = self._heard = self._asked = time.monotonic()
        self._step_then = self.first  # when it began
        self._last: MetricsRow | None = None
        self._has_all_steps = False  # whether this process has measured its last step
        self._beyond: int | None = None  # a step that it measured after that
        self._process: subprocess.Popen[bytes] | None = None
        self._tail: Tail
        self._refused: bytes | None = None  # the first line that is no row
        self._steps_told: set[int] = set()

    def begin(self, folder: Path, num_threads: int) -> None:
        """Start the program in a folder; what it measured before is known from its own files.

        Raises CorruptError where the parent is damaged, OSError where it cannot be started.
        """
        own, files = self.own, self.own.trial
        self._steps_told = {row["step"] for row in files.read_metrics()}
        has_ended = self._has_ended()
        if not has_ended:
            prepare(files.program, own.config, own.parent, files.checkpoints)
        if own.parent is not None:
            files.birth.write(Birth(Clone().name, adopted=True, chance=None))
        place = own.kept / PROGRAM_FILES if has_ended else files.program
        self._tail = Tail(place / METRICS, skipped=_size_of_metrics(own.parent))
        self._read()
        self._has_all_steps = False  # an attempt before, killed since, may have come further
        self._step_then = self.step
        own.attempt.start.write(Start(self.step, packages()))
        how = f"goes on from step {self.step}" if self.step else "begins at step 0"
        print(f"trial {own.number} {how}", flush=True)
        if not has_ended:
            self._start(folder, num_threads)

    def _has_ended(self) -> bool:
        """Return whether an attempt before was killed when it had all but told how it ended."""
        with suppress(CorruptError):
            verify(self.own.kept)
            return True
        return False

    def _start(self, folder: Path, num_threads: int) -> None:
        work = self.own.trial.program.absolute()
        paths = {CONFIG: str(work / PARAMETERS), FOLDER: str(work)}
        command = [_filled(word, paths) for word in self.own.config.command]
        with self.own.trial.output.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=folder,
                    env=_environment(num_threads),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # so that it can be ended with all that it starts
                    preexec_fn=partial(_die_with_parent, os.getpid()),
                )
            except OSError as error:
                raise ConflictError(
                    f"the program {command[0]!r} cannot be started ({error.strerror}: "
                    f"{error.filename}); it is looked for as from the study file's folder"
                ) from error
        self._heard = time.monotonic()

    def look(self, *, is_leaving: bool) -> bool:
        """Take in what has been measured; return whether the program has ended, which is told.

        ``is_leaving`` says that its job was asked to stop, which a scheduler may also have told the
        program itself: then an end before its last step is none.
        """
        code = 0 if self._process is None else self._process.poll()
        if code is not None:
            self._signal(signal.SIGKILL)  # what it has started
        self._read(is_over=code is not None)
        if self._beyond is not None:
            self._end_beyond(self._beyond)
            return True
        if code is None:
            return self._has_hung()
        if is_leaving and (code != 0 or self.step < self.own.config.steps):
            self.own.end("interrupted", self.step)
        elif code == 0:
            self._finish()
        else:
            self._end_failed(code)
        return True

    def _has_hung(self) -> bool:
        """Return whether the program was silent for too long, which ends it and is told."""
        limit, silent = self.own.config.hang_timeout, time.monotonic() - self._heard
        if limit is None or silent < limit:
            return False
        self.ask_to_stop()
        self.stop()
        how = f"no new line of {METRICS} for {silent:.0f} s; hang_timeout is {limit:g}"
        self._fail(HUNG, how + self._refused_note)
        return True

    def _end_beyond(self, step: int) -> None:
        """End a program that goes on after its last step: other trials had fewer steps."""
        self.kill()  # there is no state to save for another attempt
        self.stop()
        last = self.own.config.steps
        before = f"the last line must be of step {last}, or the first beyond it"
        mend = f"let the program end at {STEPS} of its parameters, or raise {STEPS} of base"
        self._fail(CODE, f"{before}, but after step {self.step} came step {step}; {mend}")

    def ask_to_stop(self) -> None:
        self._asked = time.monotonic()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Wait for the program to end once it was asked to, and end it if it takes too long."""
        if self._process is not None:
            until = self._asked + self.own.config.stop_seconds
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(max(0.0, until - time.monotonic()))
            self._signal(signal.SIGKILL)  # also what it has started
            self._process.wait()

    def interrupt(self) -> None:
        """Say that it was interrupted, once it has stopped."""
        self._read(is_over=True)
        self.own.end("interrupted", self.step)

    @property
    def steps_per_second(self) -> float:
        return (self.step - self._step_then) / max(1e-9, time.monotonic() - self._began)

    @property
    def heartbeat(self) -> MemberHeartbeat:
        return MemberHeartbeat.at(self.own.assignment, self.step, self.step, self.told)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _read(self, *, is_over: bool = False) -> None:
        """Add new rows to the learning curve, those at multiples of the interval and the last."""
        for line in self._tail.read(is_over=is_over):
            row = row_of(line)
            if row is None:
                self._refused = self._refused or line.strip() or None
                continue
            self._heard = time.monotonic()
            if row.step <= self.step:  # it makes steps again
                continue
            if self._has_all_steps:
                self._beyond = row.step
                return
            self._has_all_steps = row.step >= self.own.config.steps
            self.step, self._last = row.step, row
            if row.step % self.own.config.interval == 0:
                self._tell(row)

    def _tell(self, row: MetricsRow) -> None:
        self.told = row.step
        if row.step not in self._steps_told:
            self._steps_told.add(row.step)
            attempt, metrics = self.own.assignment.attempt, _metrics(finite(row.values))
            line = {"step": row.step, "attempt": attempt, "at": time.time(), "metrics": metrics}
            self.own.trial.append_metrics(line)

    def _finish(self) -> None:
        last, own = self._last, self.own
        if own.obey(self.step):  # before the folder moves: it may be another attempt's by now
            return
        if last is None:
            how = f"the program ended without a line in {METRICS}, such as {EXAMPLE}"
            self._fail(CODE, how + self._refused_note)
            return
        early = self._process is not None and self.step < own.config.steps
        if early and not own.config.may_end_early:
            how = f"with exit code 0 at step {self.step} of {own.config.steps}"
            mend = f"let its lines count to {STEPS}, or set may_end_early: true"
            self._fail(CODE, f"the program ended {how}; {mend}{self._refused_note}")
            return
        self._tell(last)
        wrong = sorted(last.values.keys() - finite(last.values).keys())
        if wrong:
            self._fail(NAN, f"the last values of {', '.join(wrong)} are no finite numbers")
            return
        if self._process is not None:
            parents = () if own.parent is None else (manifest_sha256(own.parent) or "",)
            files, steps = own.trial, own.config.steps
            keep(files.program, files.checkpoints, steps, to_plain(own.config), parents)
        # One that has ended well has made all its steps, or all that it needs.
        own.end("finished", own.config.steps, metrics=_metrics(last.values))

    def _end_failed(self, code: int) -> None:
        how, kind = f"exit code {code}", CODE
        if code < 0:
            names = {number.value: number.name for number in signal.Signals}
            how = f"signal {names.get(-code, -code)}"
            kind = OOM_HOST if -code == signal.SIGKILL else LOST if -code in FROM_OUTSIDE else CODE
        words = [line for line in last_lines(self.own.trial.output, 3) if line.strip()]
        said = f": {words[-1].strip()}" if words else ""
        self._fail(kind, f"the program ended with {how}{said}; see {self.own.trial.output}")

    @property
    def _refused_note(self) -> str:
        """Return what a message adds where a line could not be taken."""
        return "" if self._refused is None else f"; its line {fault_of(self._refused)}"

    def _fail(self, kind: str, message: str) -> None:
        self.own.end("failed", self.step, kind=kind, message=message)


EXAMPLE = '{"step": 1, "loss": 0.5}'


def _metrics(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return values as trainers tell them: with an interval, here of no width."""
    return {name: {"value": own, "low": own, "high": own} for name, own in values.items()}


def _filled(word: str, paths: Mapping[str, str]) -> str:
    for placeholder, path in paths.items():
        word = word.replace(placeholder, path)
    return word


def _environment(num_threads: int) -> dict[str, str]:
    """Return what a program's environment is: this job's, without what lets it find our code."""
    left_out = {"PYTHONSAFEPATH", "PYTHONPATH"}
    environment = {name: own for name, own in os.environ.items() if name not in left_out}
    ours, before = FOLDER_OF_CODE.absolute().parent, os.environ.get("PYTHONPATH", "")
    if others := [path for path in before.split(os.pathsep) if path and Path(path) != ours]:
        environment["PYTHONPATH"] = os.pathsep.join(others)
    # The Python that runs hpsearch comes first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"PATH": path, "OMP_NUM_THREADS": str(num_threads), "PYTHONUNBUFFERED": "1"}
    return environment | own


def _size_of_metrics(parent: Path | None) -> int:
    """Return how many bytes of the lines of a child are its parent's."""
    if parent is not None:
        with suppress(OSError):
            return (parent / PROGRAM_FILES / METRICS).stat().st_size
    return 0


def _die_with_parent(parent: int) -> None:
    """Let the kernel end this process with its parent, whose next attempt starts it anew.

    And let it hear what jobs do not, and not hear what jobs do.
    """
    ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGHUP))
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # it would end the program unsaved
