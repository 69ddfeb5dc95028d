"""How ranks begin and find each other; that they then train as one stands in slow tests."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import psutil
import pytest
import torch
from gpu_tools import new_probe

import hpsearch
from hpsearch.cluster import job_entry, meeting
from hpsearch.cluster.child_processes import same_code
from hpsearch.cluster.failures import RankLostError, StopFlag
from hpsearch.cluster.machine import VISIBLE
from hpsearch.cluster.meeting import cluster_team, join, local_team
from hpsearch.cluster.rank_group import UnknownProcesses
from hpsearch.cluster.records import RankAddress
from hpsearch.cluster.served_store import serve
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import ConflictError
from hpsearch.trainers.ranks import ALONE

PROGRAM = """\
#!/bin/sh
exec > "$0.$4"
echo "$@"
echo "$CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS $NUMBA_NUM_THREADS $GLOO_SOCKET_IFNAME $PYTHONSAFEPATH"
read -r line < /proc/$$/stat
set -- ${line##*) }
echo $4
[ ! -e "$0.hangs" ] || exec sleep 60
"""
"""in the place of Python: notes how it was started, also its session (the sixth word of stat), each
rank in a file of its own"""


@dataclass
class FakeGroup:
    """What a team does with its group, which in a test does not meet."""

    store: meeting.TCPStore
    rank: int
    size: int
    others: meeting.Processes
    left: list[str] = field(default_factory=list)

    ranks = ALONE
    error: ClassVar[Exception | None] = None

    def leave(self) -> None:
        if self.error is not None:
            raise self.error
        self.left.append("left")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[FakeGroup]:
    """The groups that were to meet."""
    made = list[FakeGroup]()

    def make(*parts) -> FakeGroup:
        made.append(FakeGroup(*parts))
        return made[-1]

    monkeypatch.setattr(meeting, "RankGroup", make)
    return made


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is started as the other ranks."""
    program = tmp_path / "python"
    program.write_text(PROGRAM)
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    return program


@pytest.fixture(autouse=True)
def same_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the environment and the number of threads."""
    interfaces = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
    for name in (VISIBLE, "OMP_NUM_THREADS", "NUMBA_NUM_THREADS", *interfaces):
        monkeypatch.setenv(name, "")
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def listens_at(port: int) -> str:
    """Return the address at which this process listens."""
    (listener,) = [
        connection
        for connection in psutil.Process().net_connections()
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    ]
    return listener.laddr.ip


# Processes of one machine.


@pytest.mark.parametrize(
    ("gpus", "shares"), [("", ["", "", ""]), ("4,5,6,7,8,9", ["4,5", "6,7", "8,9"])]
)
def test_the_first_rank_starts_the_others_with_their_shares(
    program: Path, groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch, gpus: str, shares: list
) -> None:
    monkeypatch.setenv(VISIBLE, gpus)
    with local_team(3, 2, StopFlag()) as team:
        assert os.environ[VISIBLE] == shares[0]
        assert team.group is groups[0]
    (group,) = groups
    assert (group.rank, group.size, group.left) == (0, 3, ["left"])
    assert listens_at(group.store.port) == "127.0.0.1"
    for rank in (1, 2):
        words, environment, session = Path(f"{program}.{rank}").read_text().splitlines()
        entry = "-m hpsearch.cluster.job_entry"
        assert words == f"{entry} {group.store.port} {rank} 3 2"
        assert environment == f"{shares[rank]} 2 2 lo 1"
        assert int(session) != os.getsid(0)  # so that Ctrl-C is the first one's


def test_the_others_end_with_the_first_ones_block(program: Path, groups: list[FakeGroup]) -> None:
    """After an error at once."""
    Path(f"{program}.hangs").touch()
    processes = list[subprocess.Popen]()

    def fail() -> None:
        with local_team(3, 1, StopFlag()):
            others = groups[0].others
            processes.extend(others.processes)
            assert others.find_ended() is None
            processes[1].kill()
            processes[1].wait()
            assert others.find_ended() == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [process.returncode for process in processes] == [-9, -9]
    assert groups[0].left == []


def test_one_that_does_not_end_after_the_work_is_killed(
    program: Path, groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "LEAVING_SECONDS", 0.01)
    Path(f"{program}.hangs").touch()
    with local_team(2, 1, StopFlag()):
        (process,) = groups[0].others.processes
    assert process.returncode == -9


def test_actors_end_with_a_block_that_fails() -> None:
    ended = list[str]()
    pool = SimpleNamespace(end=lambda: ended.append("ended"))

    def fail() -> None:
        with local_team(1, 1, StopFlag()) as team:
            team.actors = pool
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert ended == ["ended"]


@pytest.mark.parametrize(
    "team_of",
    [lambda flag: local_team(1, 1, flag), lambda flag: cluster_team(JobDir(Path()), 1, 1, flag)],
)
def test_a_rank_alone_has_no_group(groups: list[FakeGroup], team_of: Callable) -> None:
    with team_of(StopFlag()) as team:
        assert team.group is None
    assert groups == []


# Tasks of a SLURM job.


def test_the_first_task_announces_where_it_waits(tmp_path: Path, groups: list[FakeGroup]) -> None:
    job = new_probe(StudyDir(tmp_path), "00001")
    with cluster_team(job, 2, 1, StopFlag()) as team:
        address = job.address.required()
        groups[0].store.set("greeting", "welcome")
        assert meeting._reach(address, 1).get("greeting") == b"welcome"
        assert team.group is groups[0]
    assert (groups[0].rank, groups[0].size, groups[0].left) == (0, 2, ["left"])
    assert groups[0].others == meeting._Tasks(0, 2)
    assert listens_at(address.port) in ("0.0.0.0", "::")


@pytest.mark.parametrize(
    ("rank", "num_tasks", "kills"),
    [(0, "3", True), (1, "3", True), (2, "3", False), (0, "6", False), (1, "6", False)],
)
def test_the_tasks_of_a_step_are_killed_unless_it_has_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int, num_tasks: str, kills: bool
) -> None:
    program, called = tmp_path / "scancel", tmp_path / "called"
    program.write_text(f'#!/bin/sh\necho "$@" > {called}\nexit 1\n')
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    names = {"SLURM_NTASKS": num_tasks, "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "2"}
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    meeting._Tasks(rank, 3).kill()
    assert called.exists() is kills
    assert not kills or called.read_text() == "--signal=KILL 17.2\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[JobDir]:
    """A job of two ranks, each of three threads, of which the first one waits for the other."""
    job = new_probe(StudyDir(tmp_path), "00001")
    job.plan.write(replace(job.plan.required(), ranks=2, num_threads=3))
    store = serve()
    job.address.write(RankAddress("localhost", store.port))
    store.set("greeting", "welcome")
    yield job
    assert store.num_keys() > 0


def test_another_task_joins_the_first_one_of_its_job(
    served: JobDir, groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"SLURM_NTASKS": "2", "SLURM_PROCID": "1"}.items():
        monkeypatch.setenv(name, value)
    job_entry.train_as_task([str(served.root)])
    (group,) = groups
    assert (group.rank, group.size, group.left) == (1, 2, ["left"])
    assert group.others == meeting._Tasks(1, 2)
    assert group.store.get("greeting") == b"welcome"
    assert torch.get_num_threads() == 3
    assert not served.report.path.exists()  # which is the first one's


@pytest.mark.parametrize(
    ("ranks", "num_tasks", "task", "expected"),
    [
        (4, 4, 3, (3, 4)),
        (4, 3, 1, (1, 2)),
        (4, 3, 0, (0, 2)),
        (4, 3, 2, None),  # which has no part in the job
        (6, 5, 2, (2, 3)),
        (2, 4, 1, (1, 2)),
        (2, 4, 3, None),  # of another job, which there is not
    ],
)
def test_with_fewer_nodes_the_largest_divisor_of_the_ranks_meets(
    served: JobDir,
    groups: list[FakeGroup],
    monkeypatch: pytest.MonkeyPatch,
    ranks: int,
    num_tasks: int,
    task: int,
    expected: tuple[int, int] | None,
) -> None:
    served.plan.write(replace(served.plan.required(), ranks=ranks))
    for name, value in {"SLURM_NTASKS": str(num_tasks), "SLURM_PROCID": str(task)}.items():
        monkeypatch.setenv(name, value)
    job_entry.train_as_task([str(served.root)])
    assert [(group.rank, group.size) for group in groups] == ([expected] if expected else [])
    assert served.report.path.exists() is (task == 0)


def test_another_process_joins_the_first_one_of_its_machine(
    served: JobDir, groups: list[FakeGroup]
) -> None:
    port = served.address.required().port
    job_entry.main([str(port), "1", "2", "3"])
    (group,) = groups
    assert (group.rank, group.size, group.left) == (1, 2, ["left"])
    assert isinstance(group.others, UnknownProcesses)
    assert group.store.get("greeting") == b"welcome"
    assert torch.get_num_threads() == 3
    assert os.environ["OMP_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == "3"


def test_a_job_of_one_rank_is_done_by_its_process(tmp_path: Path) -> None:
    job = new_probe(StudyDir(tmp_path), "00001")
    job_entry.train(str(job.root))
    assert job.report.required().fault is None
    assert os.environ["OMP_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == "1"
    assert gc.isenabled()


def test_a_task_waits_until_the_first_one_has_announced_itself(
    served: JobDir, groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = served.address.required()
    served.address.path.unlink()
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def sleep(seconds: float) -> None:
        assert not groups
        clock.now += 50.0
        if clock.now == 100.0:
            served.address.write(address)

    clock.sleep = sleep
    monkeypatch.setattr(meeting, "time", clock)
    join(served, 1, 2, 1, StopFlag())
    assert len(groups) == 1


def test_a_first_task_that_never_announces_itself_is_told_of(
    served: JobDir, groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    served.address.path.unlink()
    monkeypatch.setattr(meeting, "MEETING_SECONDS", 0.0)
    with pytest.raises(ConflictError, match=f"rank 0 of {served.root} announced itself nowhere"):
        join(served, 1, 2, 1, StopFlag())
    assert groups == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RankLostError("rank 0 is gone"), "rank 1: rank 0 is gone\n"),
        (ZeroDivisionError("division by zero"), ""),  # of which the first one tells
    ],
)
def test_a_rank_that_is_lost_ends_its_process_at_once(
    served: JobDir, groups: list[FakeGroup], monkeypatch: pytest.MonkeyPatch, capsys, error, said
) -> None:
    codes = list[int]()
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(FakeGroup, "error", error)
    monkeypatch.setattr(FakeGroup, "tell_failure", lambda self, error: None, raising=False)
    join(served, 1, 2, 1, StopFlag())
    assert codes == [8]
    assert capsys.readouterr().out == said


def test_a_first_rank_that_cannot_be_reached_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "MEETING_SECONDS", 0.1)
    with pytest.raises(ConflictError, match=r"rank 3 on .* cannot reach the first rank at"):
        meeting._reach(RankAddress("127.0.0.1", 1), 3)


def test_child_processes_import_the_code_that_runs_here(tmp_path: Path) -> None:
    """Not what lies in the folder in which they begin."""
    (tmp_path / "hpsearch").mkdir()
    (tmp_path / "hpsearch" / "__init__.py").write_text("")
    command = [sys.executable, "-c", "import hpsearch; print(hpsearch.__file__)"]
    for given, expected in (
        ({}, tmp_path / "hpsearch" / "__init__.py"),
        (same_code(), Path(hpsearch.__file__)),
    ):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | given,
            capture_output=True,
            text=True,
            check=True,
        )
        assert Path(done.stdout.strip()) == expected
