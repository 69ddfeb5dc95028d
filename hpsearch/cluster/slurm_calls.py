"""Calls SLURM's programs, no more often than the site allows, and reads their answers.

sbatch through submitit takes its turn here too. A job is found by its name, whatever became of the
answer to its submission: an array is named after the study's folder, its first job, its tasks a job
and, where a study has several profiles, the one by which it was submitted. It holds jobs numbered
one after another.
"""

import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from hpsearch.cluster.executor import (
    JobStatus,
    Phase,
    SchedulerSilentError,
    SchedulerUnreachableError,
    SubmissionRefusedError,
    shared_part,
)
from hpsearch.cluster.failures import CANCELLED, NODE_FAIL, OOM_HOST, PREEMPTED, TIMEOUT
from hpsearch.cluster.study_dir import JobDir, StudyDir

CALL_SECONDS = 60.0  # after which a program of the scheduler is given up
MINUTE = 60.0
IDS_PER_CALL = 500  # on one command line


OVERRULING = ("SBATCH_", "SQUEUE_", "SACCT_", "SCANCEL_", "SINFO_", "SLURM_TIME_FORMAT")
"""begin the names of variables by which users give SLURM's programs options: sbatch would take them
instead of those of a script, and squeue would leave jobs out"""
DEFAULTS = {
    **{f"SBATCH_{key.upper()}": key for key in ("account", "partition", "qos", "constraint")},
    "SBATCH_RESERVATION": "reservation",
}
"""of these variables, those that count where a profile leaves an option open, by name"""


def overruling(given: Collection[str] = ()) -> list[str]:
    """Return the variables without which SLURM's programs run; ``given`` options say more."""
    kept = {name for name, option in DEFAULTS.items() if option not in given}
    return [name for name in os.environ if name.startswith(OVERRULING) and name not in kept]


class SchedulerCalls:
    """Runs programs, at most ``max_per_minute`` in any minute, and counts them."""

    def __init__(self, max_per_minute: int) -> None:
        self._max_per_minute = max_per_minute
        self._recent: deque[float] = deque()
        self.num_calls = 0

    def take_turn(self) -> None:
        while len(self._recent) == self._max_per_minute:
            wait = self._recent[0] + MINUTE - time.monotonic()
            if wait <= 0:
                self._recent.popleft()
            else:
                time.sleep(wait)
        self._recent.append(time.monotonic())
        self.num_calls += 1

    def run(self, command: Sequence[str], script: str | None = None) -> str:
        """Return what a program prints; ``script`` is what it reads.

        Raises SchedulerSilentError if it fails, SchedulerUnreachableError if there is no answer.
        """
        self.take_turn()
        left_out = {*overruling()}
        try:
            done = subprocess.run(
                command,
                env={name: value for name, value in os.environ.items() if name not in left_out},
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=True,
                timeout=CALL_SECONDS,
                input=script,
            )
        except subprocess.CalledProcessError as error:
            message = (error.stderr or "").strip() or error.returncode
            raise SchedulerSilentError(f"{command[0]} failed: {message}") from error
        except (subprocess.TimeoutExpired, OSError) as error:
            raise SchedulerUnreachableError(f"{command[0]} gave no answer ({error})") from error
        return done.stdout

    def run_for(self, command: Sequence[str], ids: Collection[str], option: str = "") -> str:
        """Return what a program prints of some jobs, of as many at once as a command line takes.

        The ids follow the command, or stand behind ``option`` with commas between them. If it fails
        for some, it is run for all, and then a SchedulerSilentError raised.
        """
        every, printed, silent = sorted(ids), "", None
        for start in range(0, len(every), IDS_PER_CALL):
            some = every[start : start + IDS_PER_CALL]
            try:
                printed += self.run([*command, *([option + ",".join(some)] if option else some)])
            except SchedulerSilentError as error:
                silent = error
        if silent is not None:
            raise silent
        return printed


NO_ANSWER = (
    *("timed out", "unable to contact", "connection refused", "communication", "try again"),
    "configuration source",
)
"""words of sbatch after which it is unknown whether it submitted"""
FULL = ("submit limit", "maxsubmit", "job limit", "too many", "accounting/qos policy")
"""words of sbatch after which it may take the same job later"""


def try_submission(calls: SchedulerCalls, options: Sequence[str]) -> None:
    """Ask sbatch whether it would take a job; nothing is submitted.

    Raises SubmissionRefusedError if it would not, SchedulerSilentError if it gave no answer.
    """
    try:
        calls.run(["sbatch", "--test-only", *options, "--wrap=true"])
    except SchedulerUnreachableError:
        raise
    except SchedulerSilentError as error:
        raise refusal(str(error)) from error


def refusal(answer: str) -> SubmissionRefusedError | SchedulerSilentError:
    unknown = any(words in answer.lower() for words in NO_ANSWER)
    words = " ".join(answer.split())
    return SchedulerSilentError(words) if unknown else SubmissionRefusedError(words)


def may_pass(refused: SubmissionRefusedError) -> bool:
    """Return whether sbatch refused a job for what is in the queue, and not for what it asks."""
    return any(words in str(refused).lower() for words in FULL)


def read_config(calls: SchedulerCalls) -> dict[str, str]:
    printed = calls.run(["scontrol", "show", "config"])
    pairs = (line.partition("=") for line in printed.splitlines())
    return {key.strip(): value.strip() for key, separator, value in pairs if separator}


# The queue.

_WAITING = (
    *("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
    *("CONFIGURING", "SUSPENDED", "STOPPED"),
)
"""states in which a job does not compute and may still do so"""
_FAILURES = {
    "PREEMPTED": PREEMPTED,
    "TIMEOUT": TIMEOUT,
    "DEADLINE": TIMEOUT,
    "NODE_FAIL": NODE_FAIL,
    "BOOT_FAIL": NODE_FAIL,
    "OUT_OF_MEMORY": OOM_HOST,
    "CANCELLED": CANCELLED,
    "REVOKED": CANCELLED,
}
"""why a job ended; COMPLETED and FAILED are told by what the job itself wrote"""


def meaning(state: str) -> tuple[Phase, str | None]:
    """Return the phase of a job and why it ended, by a state such as ``CANCELLED by 1000``.

    None where it has not, or by what the job itself wrote. A state that we don't know is taken for
    running: to wait longer than needed loses nothing.
    """
    word = state.split()[0].rstrip("+") if state.split() else ""
    if word in _WAITING:
        return "queued", None
    if word in _FAILURES or word in ("COMPLETED", "FAILED"):
        return "ended", _FAILURES.get(word)
    return "running", None


FIELDS = "%F|%K|%T|%e|%D|%j"
"""of squeue: array's id, index in it, state, end, nodes, name, which may be anything of others"""

ACCOUNT_SECONDS = 120.0  # for which the account of a job that has left the queue is awaited
NO_ACCOUNTS = "accounting storage is disabled"  # words of sacct where a site keeps none


class SlurmJob(NamedTuple):
    """A job of SLURM's that is a study's: an element of an array, or alone."""

    id: str
    phase: Phase
    jobs: Mapping[str, JobStatus]  # of ours in it, by name
    first: str  # the first job of its array, in whose folder submitit's files lie
    profile: int
    """index of the one by which it was submitted, in the order of preference then"""


class SlurmQueue:
    def __init__(self, calls: SchedulerCalls, study: StudyDir, num_nodes: int) -> None:
        """Look at a study's SLURM jobs, which ask for at most ``num_nodes`` if names don't say."""
        self._calls = calls
        self._num_nodes = num_nodes
        self._prefix = f"hps-{study.key}-"
        self._ended: dict[str, JobStatus] = {}  # what sacct said of jobs that had left the queue
        self._missed: dict[str, float] = {}  # when a job was first in neither answer
        self._has_accounts = True

    def array_name(
        self, first: str, tasks: int, count: int, by: tuple[int, int] | None = None
    ) -> str:
        """Return the name of an array: first job, tasks a SLURM job, number of jobs.

        And, where there are several profiles, ``by`` which: its index and its nodes.
        """
        suffix = "" if by is None else f"p{by[0]}m{by[1]}"
        return f"{self._prefix}{first}x{tasks}n{count}{suffix}"

    def jobs(self) -> list[SlurmJob]:
        """Return all SLURM jobs of this study that wait, run, or ended within some minutes."""
        options = ["--me", "--noheader", "--array", "--states=all", f"--format={FIELDS}"]
        listed = []
        for line in self._calls.run(["squeue", *options]).splitlines():
            array, index, state, end, nodes, name = line.split("|", 5)
            if not name.startswith(self._prefix):
                continue
            numbers = [int(part) for part in re.split("[xnpm]", name.removeprefix(self._prefix))]
            first, tasks, count = numbers[:3]
            profile, asked = numbers[3:] or (0, self._num_nodes)
            is_element = index.isdigit()
            slurm_id = f"{array}_{index}" if is_element else array
            before = int(index) * tasks if is_element else 0
            phase, failure = meaning(state)
            ended_at = _seconds(end) if phase == "ended" else None  # else when it will have to
            share = min(1.0, int(nodes) / asked) if phase == "running" else 1.0
            statuses = {}
            for task in range(min(tasks, count - before)):
                status = JobStatus(task_id(slurm_id, task), phase, failure, ended_at, share)
                statuses[f"{first + before + task:05d}"] = status
            listed.append(SlurmJob(slurm_id, phase, statuses, f"{first:05d}", profile))
        return listed

    def ends(self, jobs: Sequence[tuple[JobDir, str]]) -> dict[str, JobStatus]:
        """Return how jobs that left the queue ended, as far as accounts tell.

        They may come late: until then, but not for ever, a job counts as running.
        """
        accounts = self._accounted({shared_part(i) for _, i in jobs if i not in self._ended})
        now = time.monotonic()
        endings = {}
        for job, known in jobs:
            state, ended_at = accounts.get(shared_part(known), ("", None))
            phase, failure = meaning(state)
            if phase == "ended":
                self._ended[known] = JobStatus(known, "ended", failure, ended_at)
            if known in self._ended:
                endings[job.name] = self._ended[known]
            elif self._has_accounts and now - self._missed.setdefault(known, now) < ACCOUNT_SECONDS:
                endings[job.name] = JobStatus(known, "running")
        return endings

    def _accounted(self, slurm_ids: Collection[str]) -> dict[str, tuple[str, float | None]]:
        fields = ["--noheader", "--parsable2", "--allocations", "--format=JobID,State,End"]
        try:
            printed = self._calls.run_for(["sacct", *fields], slurm_ids, option="--jobs=")
        except SchedulerSilentError as error:
            self._has_accounts = NO_ACCOUNTS not in str(error).lower()
            return {}
        rows = (line.split("|") for line in printed.splitlines())
        return {slurm_id: (state, _seconds(end)) for slurm_id, state, end in rows}


def task_id(slurm_id: str, task: int) -> str:
    return f"{slurm_id}:{task}" if task else slurm_id


def _seconds(moment: str) -> float | None:
    with suppress(ValueError):
        return datetime.fromisoformat(moment).timestamp()
    return None
