"""What PSI/J reports of schedulers that take no jobs, by programs that stand for theirs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpsearch.cluster.child_processes import same_code

SCRIPT = """
import os
from pathlib import Path
from hpsearch.cluster.executor import SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.psij import check_answers
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import UsageError
from hpsearch.study.options import JobNeeds, PsijOptions

needs = JobNeeds(0, pilot_seconds=0.0, withheld=frozenset())
job = StudyDir(Path("runs/tiny")).job("00001")
job.root.mkdir(parents=True)

def build(scheduler):
    return PsijOptions("psij", scheduler=scheduler, queue="nosuch").build(Path(), Path(), needs)

def program(name, text):
    Path(name).write_text("#!/bin/sh\\n" + text)
    Path(name).chmod(0o755)

for scheduler in ("pbs", "slurm", "flux"):
    try:
        build(scheduler)
    except UsageError as error:
        print(f"{scheduler}: {error}")
for scheduler, name, listing in (("slurm", "sbatch", "squeue"), ("lsf", "bsub", "bjobs")):
    program(name, "")
    try:
        build(scheduler)
    except UsageError as error:
        print(f"{listing}: {error}")
    program(listing, "echo 'Unable to contact it' >&2; exit 1")
    try:
        check_answers(scheduler)
    except UsageError as error:
        print(f"{listing}: {error}")
    program(listing, "")
    check_answers(scheduler)
for name, scheduler in (("qsub", "pbs"), ("sbatch", "slurm"), ("bsub", "lsf")):
    program(name, "")
    executor = build(scheduler)
    for words in (
        "echo 'error: invalid queue: nosuch' >&2; echo 'error: failed' >&2; exit 1",
        "echo 'Connection refused' >&2; exit 1",
        *(["echo odd words"] if scheduler == "lsf" else []),
        None,
    ):
        program(name, words) if words else Path(name).unlink()
        try:
            executor.submit([job])
        except (SubmissionRefusedError, SchedulerSilentError) as error:
            print(f"{name}: {type(error).__name__}: {error}")
os._exit(0)  # its threads wait for queues
"""
SILENT = "the scheduler {} does not answer ({} failed: Unable to contact it); try again later"
ABSENT = "the scheduler {} needs the program {}, which is not here; run this on a login node"


def test_a_submission_that_failed_is_refused_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("psij", reason="PSI/J is not installed, see Makefile")
    done = subprocess.run(  # PSI/J listens to the ends of a process's children
        [sys.executable, "-u", "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | same_code() | {"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    printed = done.stdout.splitlines()
    assert len(printed) == 3 + 3 * 3 + 1 + 2 * 2, done.stdout + done.stderr
    for line, said in zip(
        printed,
        [
            f"pbs: {ABSENT.format('pbs', 'qsub')}",
            f"slurm: {ABSENT.format('slurm', 'sbatch')}",
            "flux: the scheduler flux needs Flux's Python bindings, and this Python cannot import",
            f"squeue: {ABSENT.format('slurm', 'squeue')}",
            f"squeue: {SILENT.format('slurm', 'squeue')}",
            f"bjobs: {ABSENT.format('lsf', 'bjobs')}",
            f"bjobs: {SILENT.format('lsf', 'bjobs')}",
            *refusals("qsub", "pbs"),
            *refusals("sbatch", "slurm"),
            *refusals("bsub", "lsf", "bsub: SchedulerSilentError: odd words"),
        ],
        strict=True,
    ):
        assert line.startswith(said), done.stdout


def refusals(program: str, scheduler: str, *others: str) -> list[str]:
    refused = f"{program}: SubmissionRefusedError: "
    return [
        f"{refused}error: invalid queue: nosuch error: failed",
        f"{program}: SchedulerSilentError: Connection refused",
        *others,
        f"{refused}{ABSENT.format(scheduler, program)}",
    ]
