"""The supervisor of a driver: which ends are final, how long it waits, what signals do."""

import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpsearch.cluster import supervisor
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.supervisor import (
    Supervisor,
    requeue_own_job,
    start_process,
    submit_driver,
)
from hpsearch.errors import UsageError

SCRIPT = """
read -r end < ends
sed -i 1d ends
case $end in
    wait) trap 'echo asked >> starts; exit 130' TERM ;;
    hang) trap '' TERM ;;
esac
echo begun >> starts
case $end in
    "") exit 0 ;;
    wait|hang) while :; do sleep 0.02; done ;;
    -*) kill $end $$ ;;
    *) echo "hpsearch: said at $end" >> driver.out; exit $end ;;
esac
"""
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM)


class Place:
    """A study's folder, and drivers that end as they are told, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.files = StudyDir(folder)
        self.files.spec.write_text("{}")
        self.requeues = [True]
        """what SLURM answers, one after the other"""

    def run(self, *ends: str) -> int:
        (self.files.root / "ends").write_text("".join(f"{end}\n" for end in ends))
        return Supervisor(self.files, ["bash", "-c", SCRIPT]).run()

    @property
    def starts(self) -> list[str]:
        path = self.files.root / "starts"
        return path.read_text().split() if path.exists() else []

    def signal_when(self, number: signal.Signals, condition: Callable[[], bool]) -> None:
        """Send this process a signal as soon as a condition holds."""

        def send() -> None:
            while not condition():
                time.sleep(0.01)
            os.kill(os.getpid(), number)

        threading.Thread(target=send, daemon=True).start()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    before = {number: signal.getsignal(number) for number in HANDLED}
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(supervisor, "requeue_own_job", lambda: place.requeues.pop(0))
    yield place
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("code", [0, 2, 3, 4, 7, 8, 130])
def test_final_ends(place: Place, code: int) -> None:
    assert place.run(str(code), "0") == code
    assert len(place.starts) == 1
    assert place.files.driver_retry.try_read() is None


@pytest.mark.parametrize("end", ["1", "5", "6", "120", "-9", "-11", "-6"])
def test_ends_that_are_not_final(place: Place, end: str) -> None:
    assert place.run(end, end, "0") == 0
    assert len(place.starts) == 3
    retry = place.files.driver_retry.try_read()
    assert retry is not None
    expected = f"killed by signal {end[1:]}" if end.startswith("-") else f"said at {end}"
    assert expected in retry.reason


@pytest.mark.parametrize("code", ["2", "3", "7"])
def test_a_folder_that_is_missing_may_come_back(place: Place, code: str) -> None:
    place.files.spec.unlink()
    assert place.run(code, code, "0") == 0
    assert len(place.starts) == 3


def test_a_folder_that_stays_missing_has_been_removed(place: Place, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "MISSING_SECONDS", 0.3)
    place.files.spec.unlink()
    assert place.run(*["2"] * 100) == 2
    assert len(place.starts) < 20


def test_pauses_grow_until_a_driver_got_on(place: Place, monkeypatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(StopFlag, "rest", lambda self, seconds: pauses.append(seconds))
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 0.05)
    place.run(*["6"] * 5)
    assert pauses == [0.01, 0.02, 0.04, 0.05, 0.05]
    pauses.clear()
    monkeypatch.setattr(supervisor, "STEADY_SECONDS", 0.0)
    place.run(*["6"] * 3)
    assert pauses == [0.01] * 3


def test_an_interpreter_that_is_away(place: Place, monkeypatch) -> None:
    """Its file system may come back."""
    away = Supervisor(place.files, ["/nowhere/python"])
    monkeypatch.setattr(
        StopFlag, "rest", lambda self, _: setattr(away, "_command", ["bash", "-c", SCRIPT])
    )
    (place.files.root / "ends").write_text("\n")
    assert away.run() == 0
    assert place.starts == ["begun"]


def test_a_full_disk_ends_no_supervisor(place: Place, monkeypatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert place.run("6", "6", "0") == 0
    assert len(place.starts) == 3


def test_a_signal_stops_the_driver_for_good(place: Place) -> None:
    place.signal_when(signal.SIGTERM, lambda: place.starts == ["begun"])
    assert place.run("wait", "0") == 130
    assert place.starts == ["begun", "asked"]


def test_a_signal_in_a_pause_ends_it(place: Place, monkeypatch) -> None:
    place.signal_when(signal.SIGTERM, lambda: place.files.driver_retry.try_read() is not None)
    monkeypatch.setattr(supervisor, "LONGEST_PAUSE", 60.0)
    assert place.run(*["6"] * 50) == 130
    assert len(place.starts) < 50


def test_a_driver_that_hangs_is_killed(place: Place, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "LEAVE_SECONDS", 1)
    place.signal_when(signal.SIGTERM, lambda: place.starts == ["begun"])
    assert place.run("hang", "0") == 130


def test_the_walltime_starts_the_job_again_however_often_slurm_must_be_asked(place: Place) -> None:
    place.requeues = [False, False, True]
    place.signal_when(signal.SIGUSR1, lambda: place.starts == ["begun"])
    assert place.run("wait", "0") == 130
    assert place.requeues == []


def test_the_walltime_in_a_pause(place: Place) -> None:
    place.signal_when(signal.SIGUSR1, lambda: place.files.driver_retry.try_read() is not None)
    assert place.run(*["6"] * 50) == 130
    assert place.requeues == []


def test_a_study_that_ends_at_the_walltime_needs_no_other_job(place: Place, monkeypatch) -> None:
    monkeypatch.setattr(supervisor, "requeue_own_job", lambda: pytest.fail("requeued"))
    ends = 'trap "exit 0" TERM; echo begun >> starts; while :; do sleep 0.02; done'
    place.signal_when(signal.SIGUSR1, lambda: place.starts == ["begun"])
    waiting = Supervisor(place.files, ["bash", "-c", ends])
    assert waiting.run() == 0


def test_what_drivers_write_is_for_their_user_alone(tmp_path: Path, monkeypatch) -> None:
    """As what the command line writes, whatever mask the supervisor was started with."""
    written = tmp_path / "driver.out"

    def run(self: Supervisor) -> int:
        written.write_text("")
        written.with_suffix(".folder").mkdir()
        return 7

    monkeypatch.setattr(Supervisor, "run", run)
    before = os.umask(0o022)
    try:
        assert supervisor.main(["drive", "tiny", "--runs", str(tmp_path)]) == 7
    finally:
        os.umask(before)
    assert written.stat().st_mode & 0o777 == 0o600
    assert written.with_suffix(".folder").stat().st_mode & 0o777 == 0o700


def test_scontrol_that_fails_is_asked_again(tmp_path: Path, monkeypatch) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ -e asked ] && echo "$@" > done && exit 0; > asked; exit 1\n')
    scontrol.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert [requeue_own_job(), requeue_own_job()] == [False, True]
    assert (tmp_path / "done").read_text() == "requeue 17\n"


@pytest.mark.parametrize(
    ("code", "said", "reason"),
    [
        (6, "hpsearch: a\nmore\nhpsearch: b\n  of it\n", "b"),
        (6, "Traceback\n", "the driver ended with code 6"),
        (6, None, "the driver ended with code 6"),
        (6, "hpsearch: far\n" + "x" * 5000, "the driver ended with code 6"),
        (6, "x" * 5000 + "\nhpsearch: near\n", "near"),
        (-9, "hpsearch: a\n", "the driver was killed by signal 9"),
    ],
)
def test_why_a_driver_ended_is_what_it_said_last(tmp_path, code, said, reason) -> None:
    output, before = tmp_path / "driver.out", "hpsearch: by the one before it\n"
    if said is not None:
        output.write_text(before + said)
    assert supervisor._reason(code, output, len(before)) == reason


def test_outside_of_slurm_there_is_no_job_to_requeue(monkeypatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert requeue_own_job()


# How a supervisor is started.


def test_a_process_outlives_its_terminal_and_prints_into_the_studys_folder(
    tmp_path: Path, monkeypatch
) -> None:
    program, files = tmp_path / "python", StudyDir(tmp_path / "runs" / "tiny")
    program.write_text(
        '#!/bin/sh\necho "$@" $PYTHONUNBUFFERED >&2\n'
        "read -r line < /proc/$$/stat; set -- ${line##*) }; echo $4\n"  # its session
        "cat; echo end\n"
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.chdir(tmp_path)
    files.root.mkdir(parents=True)
    files.output.write_text("before\n")
    with warnings.catch_warnings():  # Python would say that it is forgotten
        warnings.simplefilter("error")
        name = start_process(files, Path("runs"))
        gc.collect()
    pid, deadline = int(name.removeprefix("process ")), time.monotonic() + 60.0
    while not files.output.read_text().endswith("end\n"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert os.waitpid(pid, 0) == (pid, 0)
    before, words, session, _ = files.output.read_text().splitlines()
    drive = f"drive tiny --runs {tmp_path / 'runs'}"
    assert (before, words) == ("before", f"-m hpsearch.cluster.supervisor {drive} 1")
    assert int(session) == pid


@pytest.mark.parametrize(("minutes", "warning"), [(4, 120), (10, 300), (1440, 300)])
def test_a_job_is_warned_halfway_of_a_walltime_but_at_most_so_many_seconds_before(
    tmp_path: Path, monkeypatch, minutes: int, warning: int
) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" > "$0.words"; cat > "$0.script"; echo "17;c"\n'
    )
    sbatch.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    profile = load_profile(Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml")
    profile = replace(
        profile, driver=replace(profile.driver, walltime_minutes=minutes), setup=("module load x",)
    )
    files = StudyDir(tmp_path / "runs" / "tiny")
    assert submit_driver({"site.yaml": profile}, files, tmp_path / "runs") == "job 17"
    words = (tmp_path / "sbatch.words").read_text().split()
    assert {
        f"--signal=B:USR1@{warning}",
        f"--time={minutes}",
        f"--job-name=hpsearch-driver-{files.key}",
        "--dependency=singleton",
        "--requeue",
        f"--output={files.output}",
        f"--chdir={os.getcwd()}",
    } <= set(words)
    script = (tmp_path / "sbatch.script").read_text().splitlines()
    assert script[:2] == ["#!/bin/bash", "module load x"]
    drive = f"drive tiny --runs {tmp_path / 'runs'}"
    assert script[-1] == f"exec {sys.executable} -m hpsearch.cluster.supervisor {drive}"
    (copy,) = files.code.iterdir()
    assert f"export PYTHONPATH={copy}${{PYTHONPATH:+:$PYTHONPATH}}" in script


def test_a_driver_that_slurm_does_not_take_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    profile = load_profile(Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml")
    files = StudyDir(tmp_path / "runs" / "tiny")
    with pytest.raises(UsageError, match=r"not take the driver .by site.yaml: sbatch gave no"):
        submit_driver({"site.yaml": profile}, files, tmp_path / "runs")
