"""The parts of the SLURM executor that need no cluster: states, names, shares, snapshots."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from submitit.core.utils import DelayedSubmission

from hpsearch.cluster import code_snapshot
from hpsearch.cluster.code_snapshot import code_commit, take_snapshot
from hpsearch.cluster.executor import (
    SchedulerSilentError,
    SchedulerUnreachableError,
    SubmissionRefusedError,
)
from hpsearch.cluster.failures import CANCELLED, NODE_FAIL, OOM_HOST, PREEMPTED, TIMEOUT
from hpsearch.cluster.machine import share
from hpsearch.cluster.slurm import REST_SECONDS, Allowance, SlurmExecutor
from hpsearch.cluster.slurm_calls import (
    ACCOUNT_SECONDS,
    SchedulerCalls,
    SlurmQueue,
    may_pass,
    meaning,
    refusal,
    task_id,
    try_submission,
)
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import DiskError


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("PENDING", ("queued", None)),
        ("REQUEUED", ("queued", None)),
        ("CONFIGURING", ("queued", None)),
        ("SUSPENDED", ("queued", None)),
        ("RUNNING", ("running", None)),
        ("COMPLETING", ("running", None)),
        ("COMPLETED", ("ended", None)),
        ("FAILED", ("ended", None)),
        ("CANCELLED", ("ended", CANCELLED)),
        ("CANCELLED by 1000", ("ended", CANCELLED)),
        ("CANCELLED+", ("ended", CANCELLED)),
        ("PREEMPTED", ("ended", PREEMPTED)),
        ("TIMEOUT", ("ended", TIMEOUT)),
        ("DEADLINE", ("ended", TIMEOUT)),
        ("NODE_FAIL", ("ended", NODE_FAIL)),
        ("BOOT_FAIL", ("ended", NODE_FAIL)),
        ("OUT_OF_MEMORY", ("ended", OOM_HOST)),
        ("A_STATE_OF_THE_FUTURE", ("running", None)),
        ("", ("running", None)),
    ],
)
def test_what_a_state_means(state: str, expected: tuple[str, str | None]) -> None:
    assert meaning(state) == expected


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("sbatch: error: Batch job submission failed: Invalid partition name", "refused"),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit", "refused"),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv", "silent"),
        ("sbatch: error: Unable to contact slurm controller (connect failure)", "silent"),
    ],
)
def test_what_sbatch_says(said: str, kind: str) -> None:
    """After some of its errors it is unknown whether the jobs were taken."""
    expected = {"refused": SubmissionRefusedError, "silent": SchedulerSilentError}[kind]
    assert isinstance(refusal(said), expected)


def slurm(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    queue: str,
    accounts: str = "",
    num_nodes: int = 1,
) -> SlurmExecutor:
    """Return an executor whose squeue prints ``queue``, NAME standing for the study's prefix."""
    study = StudyDir(tmp_path / "runs" / "tiny")

    def run(self: SchedulerCalls, command: list[str]) -> str:
        printed = {"scontrol": "MaxArraySize = 1001", "squeue": queue, "sacct": accounts}
        return printed[command[0]].replace("NAME", f"hps-{study.key}")

    for array, index, first in re.findall(r"^(\d+)\|(\S+?)\|.*\|NAME-(\d+)x", queue, re.MULTILINE):
        slurm_id = f"{array}_{index}" if index.isdigit() else array
        files = study.job(first).root
        files.mkdir(parents=True, exist_ok=True)
        (files / f"{slurm_id}_submitted.pkl").touch()  # as submitit does after each submission
    monkeypatch.setattr(SchedulerCalls, "run", run)
    profile = load_profile(Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml")
    return SlurmExecutor([Allowance(replace(profile, nodes=num_nodes))], study)


def asked(*numbers: int) -> list[tuple[JobDir, None]]:
    return [(JobDir(Path(f"jobs/{number:05d}")), None) for number in numbers]


def test_the_last_job_of_an_array_has_no_more_jobs_than_there_are(tmp_path, monkeypatch) -> None:
    """Six jobs by fours, then two more: the idle tasks of the second are not the next array's."""
    queue = "100|0|RUNNING|2026-01-31T12:00:00|1|NAME-00001x4n6\n"
    queue += "100|1|COMPLETED|2026-01-31T12:00:00|1|NAME-00001x4n6\n"
    queue += "200|0|RUNNING|2026-01-31T12:00:00|1|NAME-00007x4n2\n"
    seen = slurm(tmp_path, monkeypatch, queue).look(asked(*range(1, 9)))
    assert {name: (job.id, job.phase) for name, job in seen.items()} == {
        "00001": ("100_0", "running"),
        "00002": ("100_0:1", "running"),
        "00003": ("100_0:2", "running"),
        "00004": ("100_0:3", "running"),
        "00005": ("100_1", "ended"),
        "00006": ("100_1:1", "ended"),
        "00007": ("200_0", "running"),
        "00008": ("200_0:1", "running"),
    }


def test_a_job_with_fewer_nodes_than_asked_for_has_less_of_the_gpus(tmp_path, monkeypatch) -> None:
    """Of a job that waits squeue may name the fewest nodes with which it would begin."""
    queue = "100|N/A|RUNNING|2026-01-31T12:00:00|4|NAME-00001x1n1\n"
    queue += "200|N/A|RUNNING|2026-01-31T12:00:00|3|NAME-00002x1n1\n"
    queue += "300|N/A|PENDING|N/A|1|NAME-00003x1n1\n"
    seen = slurm(tmp_path, monkeypatch, queue, num_nodes=4).look(asked(1, 2, 3))
    assert [status.share for status in seen.values()] == [1.0, 0.75, 1.0]


def test_jobs_that_left_the_queue_are_looked_up_in_the_accounts(tmp_path, monkeypatch) -> None:
    """One that is in the queue is as that says, and of one without an id nothing is known."""
    queue = "100|N/A|RUNNING|2026-01-31T12:00:00|1|NAME-00001x1n1\n"
    accounts = "100|FAILED|2026-01-31T12:00:00\n200|TIMEOUT|2026-01-31T12:00:00\n"
    executor = slurm(tmp_path, monkeypatch, queue, accounts)
    jobs = zip(asked(1, 2, 3), ("100", "200", None), strict=True)
    seen = executor.look([(job, job_id) for (job, _), job_id in jobs])
    assert {name: (status.phase, status.failure) for name, status in seen.items()} == {
        "00001": ("running", None),
        "00002": ("ended", TIMEOUT),
    }


def test_other_peoples_names_are_left_alone(tmp_path, monkeypatch) -> None:
    queue = "7|N/A|RUNNING|N/A|1|a|b|c\n8|N/A|PENDING|N/A|1|\n"
    queue += "9|N/A|RUNNING|2026-01-31T12:00:00|1|NAME-00001x1n1\n"
    seen = slurm(tmp_path, monkeypatch, queue).look(asked(1))
    assert {name: job.id for name, job in seen.items()} == {"00001": "9"}


@pytest.mark.parametrize(
    ("sacct", "seen"),
    [
        ("100|COMPLETED|2026-01-31T12:00:00\n", ["ended", "ended"]),
        ("100|RUNNING|Unknown\n", ["running", None]),  # accounts lag behind
        ("", ["running", None]),
        (SchedulerSilentError("sacct failed: Connection refused"), ["running", None]),
        (SchedulerSilentError("sacct failed: Slurm accounting storage is disabled"), [None, None]),
    ],
)
def test_a_job_that_left_the_queue_is_not_lost_before_its_account_comes(
    tmp_path, monkeypatch, sacct, seen
) -> None:
    now = [0.0]

    def run(self: SchedulerCalls, command: list[str]) -> str:
        if isinstance(sacct, SchedulerSilentError):
            raise sacct
        return sacct

    monkeypatch.setattr(SchedulerCalls, "run", run)
    queue = SlurmQueue(SchedulerCalls(60), StudyDir(tmp_path), 1)
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("hpsearch.cluster.slurm_calls.time", clock)
    phases = []
    for now[0] in (0.0, ACCOUNT_SECONDS):
        ends = queue.ends([(JobDir(Path("jobs/00001")), "100")])
        phases.append(ends["00001"].phase if ends else None)
    assert phases == seen


def test_jobs_that_wait_are_taken_out_and_running_ones_are_asked_to_leave(
    tmp_path, monkeypatch
) -> None:
    """Four jobs by twos in an array, of which the second SLURM job waits, and one that runs."""
    queue = "100|0|RUNNING|2026-01-31T12:00:00|1|NAME-00001x2n4\n"
    queue += "100|1|PENDING|N/A|1|NAME-00001x2n4\n"
    queue += "200|N/A|RUNNING|2026-01-31T12:00:00|1|NAME-00005x1n1\n"
    executor, commands = slurm(tmp_path, monkeypatch, queue), []
    seen = executor.look(asked(*range(1, 6)))
    monkeypatch.setattr(SchedulerCalls, "run", lambda self, command: commands.append(command) or "")
    executor.interrupt([(job, seen[job.name].id) for job, _ in asked(*range(1, 6))])
    assert commands == [
        ["scancel", "100_1"],
        ["scancel", "--signal=TERM", "100_0.0", "200.0"],
    ]


def test_strays_are_this_studys_jobs_that_the_driver_does_not_know(tmp_path, monkeypatch) -> None:
    queue = "100|0|RUNNING|2026-01-31T12:00:00|1|NAME-00001x2n4\n"
    queue += "100|1|PENDING|N/A|1|NAME-00001x2n4\n"
    queue += "200|N/A|RUNNING|2026-01-31T12:00:00|1|NAME-00007x1n1\n"
    queue += "300|N/A|COMPLETED|2026-01-31T12:00:00|1|NAME-00008x1n1\n"
    queue += "400|N/A|RUNNING|2026-01-31T12:00:00|1|hps-other-00009x1n1\n"
    executor, commands = slurm(tmp_path, monkeypatch, queue), []
    seen = executor.look(asked(2, 6))
    assert {name: status.id for name, status in seen.items()} == {"00002": "100_0:1"}
    monkeypatch.setattr(SchedulerCalls, "run", lambda self, command: commands.append(command) or "")
    executor.cancel_strays()
    executor.cancel_strays()  # which are none any more
    executor.cancel([(asked(2)[0][0], "100_0:1"), (asked(1)[0][0], "100_0")])
    assert commands == [["scancel", "100_1", "200"], ["scancel", "100_0"]]


def test_jobs_whose_submission_died_before_it_was_whole_are_strays(tmp_path, monkeypatch) -> None:
    """They would wait for their pickles for a minute, and fail; those whose ids are known run."""
    queue = "100|0|RUNNING|2026-01-31T12:00:00|1|NAME-00001x1n2\n"
    queue += "100|1|RUNNING|2026-01-31T12:00:00|1|NAME-00001x1n2\n"
    queue += "200|N/A|FAILED|2026-01-31T12:00:00|1|NAME-00003x1n1\n"
    executor, commands = slurm(tmp_path, monkeypatch, queue), []
    for pickle in (tmp_path / "runs").rglob("*.pkl"):
        if pickle.name != "100_0_submitted.pkl":
            pickle.unlink()
    assert [*executor.look(asked(1, 2, 3))] == ["00001"]
    monkeypatch.setattr(SchedulerCalls, "run", lambda self, command: commands.append(command) or "")
    executor.cancel_strays()
    assert commands == [["scancel", "100_1"]]


def test_what_sbatch_is_given_and_what_jobs_are_called_then(tmp_path, monkeypatch) -> None:
    """Three jobs, two a task. The driver may itself be a SLURM job; its task counts must not reach
    sbatch."""
    programs = {
        "srun": "exit 1",
        "scontrol": "echo MaxArraySize=1001",
        "sbatch": 'cat "$1" > "$0.script"; env > "$0.env"; echo Submitted batch job 7',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("SLURM_NTASKS", "SLURM_NPROCS"):
        monkeypatch.setenv(name, "9")
    profile = load_profile(Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml")
    study = StudyDir(tmp_path / "runs" / "tiny")
    own = replace(profile, tasks_per_job=2, setup=("module load x",))
    executor = SlurmExecutor([Allowance(own)], study)
    jobs = [study.job(f"{number:05d}") for number in (4, 5, 6)]
    for job in jobs:
        job.root.mkdir(parents=True)
    assert executor.submit(jobs) == {"00004": "7_0", "00005": "7_0:1", "00006": "7_1"}
    assert executor.num_calls == 2  # of scontrol and of sbatch
    given = [DelayedSubmission.load(path).args for path in jobs[0].pickles]
    first, second, third = (str(job.root) for job in jobs)
    assert given == [((first, second),), ((third,),)]
    script = (tmp_path / "sbatch.script").read_text()
    (copy,) = study.code.iterdir()
    for line in (
        f"#SBATCH --job-name=hps-{study.key}-00004x2n3",
        "#SBATCH --array=0-1%2",
        "module load x",
        f"export PYTHONPATH={copy}${{PYTHONPATH:+:$PYTHONPATH}}",
    ):
        assert f"{line}\n" in script
    assert "SLURM_N" not in (tmp_path / "sbatch.env").read_text()
    assert os.environ["SLURM_NTASKS"] == "9"


@pytest.mark.parametrize(
    ("max_array_size", "expected"), [("1001", 1001), ("2", 2), ("1", 1), ("0", 1)]
)
def test_no_more_jobs_are_submitted_at_once_than_an_array_may_have(
    tmp_path, monkeypatch, max_array_size, expected
) -> None:
    """With 0 a site has no arrays, but one job may always be submitted."""
    printed = f"MaxArraySize            = {max_array_size}\n"
    monkeypatch.setattr(SchedulerCalls, "run", lambda self, command: printed)
    profile = load_profile(Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml")
    for tasks in (1, 4):
        shared = replace(profile, tasks_per_job=tasks)
        executor = SlurmExecutor([Allowance(shared)], StudyDir(tmp_path / "runs" / "tiny"))
        assert executor.max_batch == expected * tasks


@pytest.mark.parametrize("tasks", [1, 3])
def test_what_a_job_printed_lies_with_the_first_job_of_its_array(
    tmp_path, monkeypatch, tasks
) -> None:
    """An array of seven jobs, the first of which is job 5."""
    monkeypatch.setattr(SchedulerCalls, "run", lambda self, command: "MaxArraySize = 1001")
    profile = load_profile(Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml")
    study = StudyDir(tmp_path / "runs" / "tiny")
    executor = SlurmExecutor([Allowance(replace(profile, tasks_per_job=tasks))], study)
    for place in range(7):
        index, task = divmod(place, tasks)
        job = study.job(f"{5 + place:05d}")
        log = executor.log(job, task_id(f"100_{index}", task))
        assert log == study.job("00005").root / f"100_{index}_{task}_log.out"
    alone = study.job("00012")
    assert executor.log(alone, "200") == alone.root / "200_0_log.out"
    both = SlurmExecutor([Allowance(replace(profile, tasks_per_job=n)) for n in (5, tasks)], study)
    study.job("00005").root.mkdir(parents=True)
    (study.job("00005").root / "100_1_0_log.out").touch()
    log = both.log(study.job(f"{5 + tasks:05d}"), "100_1")
    assert log == study.job("00005").root / "100_1_0_log.out"


# Several profiles.


@pytest.fixture
def by_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SlurmExecutor, list[JobDir]]:
    """Return an executor of two profiles, 2 and 3 jobs, and jobs; `refuses` names partitions."""
    programs = {
        "srun": "exit 1",
        "scontrol": "echo MaxArraySize=1001",
        "squeue": 'cat "$0.queue"',
        "sbatch": """
            for name in $(cat "$0.refuses"); do
                grep -q -e "--partition=$name" "$1" && echo "QOSMaxSubmitJobLimit" >&2 && exit 1
            done
            grep -h -e "--job-name" "$1" >> "$0.asked"
            echo Submitted batch job 7
            """,
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o700)
    (tmp_path / "sbatch.refuses").touch()
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    profile = load_profile(Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml")
    big = replace(profile, partition="big", cpus_per_task=8, gpus_per_task=4)
    small = replace(profile, partition="small", cpus_per_task=2, max_calls_per_minute=600)
    study = StudyDir(tmp_path / "runs" / "tiny")
    jobs = [study.job(f"{number:05d}") for number in range(1, 7)]
    for job in jobs:
        job.root.mkdir(parents=True)
    return SlurmExecutor([Allowance(big, 2), Allowance(small, 3)], study), jobs


def next_jobs(executor: SlurmExecutor) -> tuple[int, int, float]:
    return executor.max_batch, executor.num_threads, executor.gpus_per_job


def test_a_job_goes_by_the_first_profile_with_room(by_two, tmp_path: Path) -> None:
    executor, jobs = by_two
    assert next_jobs(executor) == (2, 8, 4.0)
    executor.submit(jobs[:2])
    assert next_jobs(executor) == (3, 2, 1.0)
    executor.submit(jobs[2:5])
    asked_names = (tmp_path / "sbatch.asked").read_text().split()
    prefix = f"--job-name=hps-{jobs[0].study.key}"
    assert asked_names[1::2] == [f"{prefix}-00001x1n2p0m1", f"{prefix}-00003x1n3p1m1"]
    queue = "7|0|COMPLETED|2026-01-31T12:00:00|1|NAME-00001x1n2p0m1\n"
    queue += "7|1|PENDING|N/A|1|NAME-00001x1n2p0m1\n"
    queue += "".join(f"8|{n}|RUNNING|N/A|1|NAME-00003x1n3p1m1\n" for n in range(3))
    named = queue.replace("NAME", f"hps-{jobs[0].study.key}")
    (tmp_path / "squeue.queue").write_text(named)
    known = [(job, "7_0") for job, _ in asked(*range(1, 6))]
    phases = {name: status.phase for name, status in executor.look(known).items()}
    assert list(phases.values()) == ["ended", "queued", "running", "running", "running"]
    assert next_jobs(executor) == (1, 8, 4.0), "one of two has ended"


def test_a_profile_that_refuses_jobs_rests(by_two, tmp_path: Path, monkeypatch) -> None:
    executor, jobs = by_two
    (tmp_path / "sbatch.refuses").write_text("big")
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("hpsearch.cluster.slurm.time", clock)
    assert executor.max_jobs == 5
    with pytest.raises(SubmissionRefusedError, match="QOSMaxSubmitJobLimit"):
        executor.submit(jobs[:2])
    assert next_jobs(executor) == (3, 2, 1.0)
    executor.submit(jobs[:3])
    assert executor.max_jobs == 3, "the driver is to submit no more"
    (tmp_path / "squeue.queue").write_text("")
    executor.look(asked(1))
    assert next_jobs(executor) == (3, 2, 1.0)
    now[0] += REST_SECONDS
    assert executor.num_threads == 2, "unchanged until the next look, for jobs announced"
    executor.look(asked(1))
    assert next_jobs(executor) == (1, 8, 4.0), "half as many as it refused"
    (tmp_path / "sbatch.refuses").write_text("")
    executor.submit(jobs[3:4])
    assert next_jobs(executor) == (1, 8, 4.0)
    executor.submit(jobs[4:5])
    assert executor.max_jobs == 5
    assert executor.num_threads == 2, "the big one is full"


def test_where_all_profiles_rest_they_are_asked_in_turn(by_two, tmp_path, monkeypatch) -> None:
    executor, jobs = by_two
    now = [1000.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("hpsearch.cluster.slurm.time", clock)
    (tmp_path / "sbatch.refuses").write_text("big small")
    asked_for = []
    for _ in range(4):
        threads = executor.num_threads
        with pytest.raises(SubmissionRefusedError) as refused:
            executor.submit(jobs[:1])
        asked_for.append((threads, refused.value.has_alternative))
        now[0] += 1.0
    assert asked_for == [(8, True), (2, False)] * 2
    (tmp_path / "sbatch.refuses").write_text("small")
    executor.submit(jobs[:1])
    (tmp_path / "squeue.queue").write_text("")
    executor.look(asked(1))
    assert executor.max_jobs == 2, "the big one rests no more, the small one does"


def test_jobs_of_which_sbatch_said_nothing_take_room(by_two, tmp_path: Path) -> None:
    executor, jobs = by_two
    (tmp_path / "sbatch").write_text(
        "#!/bin/sh\necho Unable to contact slurm controller >&2; exit 1"
    )
    with pytest.raises(SchedulerSilentError):
        executor.submit(jobs[:2])
    assert executor.num_threads == 2


def test_shares_are_of_the_nodes_of_a_job_s_own_profile(tmp_path, monkeypatch) -> None:
    """Also where the profiles stood in another order, or were more, when it was submitted."""
    queue = "1|N/A|RUNNING|N/A|1|NAME-00001x1n1p0m1\n"
    queue += "2|N/A|RUNNING|N/A|1|NAME-00002x1n1p1m2\n"
    queue += "3|N/A|RUNNING|N/A|1|NAME-00003x1n1\n"
    seen = slurm(tmp_path, monkeypatch, queue, num_nodes=4).look(asked(1, 2, 3))
    assert [status.share for status in seen.values()] == [1.0, 0.5, 0.25]


def test_when_a_job_ended(tmp_path, monkeypatch) -> None:
    """By squeue or by sacct; of a running job squeue tells when it will have to end."""
    noon = datetime(2026, 1, 31, 12).timestamp()
    queue = "1|N/A|COMPLETED|2026-01-31T12:00:00|1|NAME-00001x1n1\n"
    queue += "2|N/A|RUNNING|2026-01-31T12:00:00|1|NAME-00002x1n1\n"
    seen = slurm(tmp_path, monkeypatch, queue).look(asked(1, 2))
    assert [end.ended_at for end in seen.values()] == [noon, None]
    monkeypatch.setattr(SchedulerCalls, "run", lambda self, c: "3|FAILED|2026-01-31T12:00:00\n")
    ends = SlurmQueue(SchedulerCalls(60), StudyDir(tmp_path), 1).ends([(JobDir(Path("j")), "3")])
    assert ends["j"].ended_at == noon


@pytest.mark.parametrize(
    ("said", "may"),
    [
        ("Job violates accounting/QOS policy (job submit limit, user's size and/or time)", True),
        ("QOSMaxSubmitJobPerUserLimit", True),
        ("Requested time limit is invalid (missing or exceeds some limit)", False),
        ("invalid partition specified: no_such", False),
    ],
)
def test_which_refusals_may_pass(said: str, may: bool) -> None:
    assert may_pass(SubmissionRefusedError(said)) == may


def test_without_sbatch_nothing_was_refused(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SchedulerUnreachableError):
        try_submission(SchedulerCalls(60), [])


def test_every_task_has_devices_of_its_own() -> None:
    devices = [str(number) for number in range(8)]
    shares = [share(devices, task, 4) for task in range(4)]
    assert shares == [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"]]
    assert share(["0", "1", "2"], 1, 3) == ["1"]


def test_the_code_is_copied_once_and_runs(tmp_path: Path) -> None:
    first, second = take_snapshot(tmp_path / "code"), take_snapshot(tmp_path / "code")
    assert first == second
    assert [path.name for path in (tmp_path / "code").iterdir()] == [first.name]
    about = json.loads((first / "code.json").read_text())
    assert about == {"hash": first.name, "commit": str(code_commit())}
    script = "import hpsearch, hpsearch.cluster.study_dir; print(hpsearch.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(first), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert Path(done.stdout.strip()) == first / "hpsearch" / "__init__.py"
    package = code_snapshot.FOLDER
    ours = {path.relative_to(package) for path in package.rglob("*.py")}
    copied = first / "hpsearch"
    assert {path.relative_to(copied) for path in copied.rglob("*.py")} == ours


def test_a_copy_that_cannot_be_made_the_newest_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = take_snapshot(tmp_path / "code")

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "utime", refuse)
    assert take_snapshot(tmp_path / "code") == first


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        shutil.Error([("x", "y", "No space left on device"), ("z", "w", "another")]),
    ],
)
def test_a_copy_that_cannot_be_written_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    """shutil tells of each file by itself."""

    def fill(source: Path, target: Path, **options) -> None:
        target.mkdir(parents=True)
        raise error

    monkeypatch.setattr(shutil, "copytree", fill)
    with pytest.raises(DiskError, match=r"cannot be written .*No space left on device") as caught:
        take_snapshot(tmp_path / "code")
    assert "another" not in str(caught.value)
    assert list((tmp_path / "code").iterdir()) == []


def test_a_copy_is_for_its_user_alone_and_holds_what_runs(tmp_path: Path) -> None:
    copy = take_snapshot(tmp_path / "code")
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in copy.rglob("*")}
    assert modes == {True: 0o700, False: 0o600}


def test_what_is_compiled_comes_along_and_is_no_part_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it is not about to be written."""
    caches = tmp_path / "hpsearch" / "__pycache__"
    caches.mkdir(parents=True)
    (caches.parent / "loops.py").write_text("")
    os.utime(caches.parent / "loops.py", (1000, 1000))
    monkeypatch.setattr(code_snapshot, "FOLDER", caches.parent)
    before = code_snapshot.code_hash()
    times = {"loops.1.nbc": 2000, "loops.nbi": 2000, "new.nbi": time.time()}
    for name in ("loops.pyc", "loops.pyc.140", "tmp8ab", "compiled-7", "compiled-7.lock"):
        times[name] = 2000
    for name, seconds in times.items():
        (caches / name).write_text("")
        os.utime(caches / name, (seconds, seconds))
    copy = take_snapshot(tmp_path / "code")
    assert copy.name == before
    copied = copy / "hpsearch" / "__pycache__"
    assert {path.name for path in copied.iterdir()} == {"loops.1.nbc", "loops.nbi", "loops.pyc"}
    # By it Python tells whether what it compiled is of this file.
    assert (copied.parent / "loops.py").stat().st_mtime == (
        caches.parent / "loops.py"
    ).stat().st_mtime


def test_edited_code_is_another_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "hpsearch"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(code_snapshot, "FOLDER", package)
    first = take_snapshot(tmp_path / "code")
    (package / "__init__.py").write_text("edited = True")
    second = take_snapshot(tmp_path / "code")
    assert first.name != second.name
    assert (first / "hpsearch" / "__init__.py").read_text() == ""
    assert code_commit() is None  # no repository
