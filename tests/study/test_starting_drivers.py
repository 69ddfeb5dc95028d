"""Commands around the start of a driver: submit, resume, and what status says meanwhile."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from drives import drive, new_study, opened, tick_until
from fakes import FakeExecutor

from hpsearch import yaml_file
from hpsearch.api import background, driving
from hpsearch.api.executors import check_submission, start_detached
from hpsearch.api.foreground import drive_here
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.supervisor import note_retry
from hpsearch.commands import read, run
from hpsearch.errors import ConflictError, StorageUnavailableError, UsageError
from hpsearch.report.text import clock_text
from hpsearch.study.requests import forget_start, note_start, waiting
from hpsearch.study.spec import Study, load_spec
from hpsearch.study.view import Followed, open_view
from hpsearch.terminal import Terminal


class Drivers:
    """Stands for the processes or jobs that are started: as slow as sbatch, they do nothing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.processes: list[subprocess.Popen[bytes]] = []
        self.studies: list[Study] = []

    def start(self, study: Study, folder: StudyDir, runs: Path) -> str:
        self.studies.append(study)
        time.sleep(0.1)
        self.processes.append(subprocess.Popen(["sleep", "60"]))
        return f"{self.kind} {self.processes[-1].pid}"


@pytest.fixture
def drivers(monkeypatch, request) -> Iterator[Drivers]:
    drivers = Drivers(getattr(request, "param", "process"))
    monkeypatch.setattr(background, "start_detached", drivers.start)
    monkeypatch.setattr(driving, "build_executor", lambda study, folder: FakeExecutor())
    yield drivers
    for process in drivers.processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("drivers", ["process", "job"], indirect=True)
def test_six_submits_at_once_start_one_driver(tmp_path, drivers, monkeypatch) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho RUNNING\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    study = new_study(tmp_path)
    folder = StudyDir(tmp_path / "runs" / study.spec.name)
    refusals: list[ConflictError] = []

    def start() -> None:
        try:
            background._start_driver(study, folder, tmp_path / "runs")
        except ConflictError as error:
            refusals.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drivers.processes) == 1
    assert len(refusals) == 5
    assert f"{drivers.kind} {drivers.processes[0].pid}" in str(refusals[0])


def finished(folder: Path) -> tuple[Study, Path]:
    """Return a study of three trials that has finished, and the folder of studies."""
    study = new_study(folder, budget={"trials": 3})
    drive(study, FakeExecutor())
    return study, folder / "runs"


def rewrite(study: Study, **changes: object) -> None:
    study.path.write_text(yaml_file.dump(yaml_file.load(study.path) | changes))


def test_resume_takes_up_a_raised_budget(tmp_path, drivers, capsys) -> None:
    study, runs = finished(tmp_path)
    with pytest.raises(UsageError, match=r"is finished; raise budget\.trials"):
        run.resume.function(study.spec.name, runs)
    rewrite(study, budget={"trials": 5})
    run.resume.function(study.spec.name, runs)
    assert capsys.readouterr().err == ""
    assert [study.spec.budget.trials for study in drivers.studies] == [5]
    view = open_view(study.spec.name, runs)
    assert (view.study.spec.budget.trials, view.state.status) == (5, "running")
    state = drive(replace(study, spec=view.study.spec), FakeExecutor())
    assert len(state.told("finished")) == 5


def test_stopping_without_a_driver_says_who_finishes_what_has_begun(tmp_path, capsys) -> None:
    study, runs = new_study(tmp_path), tmp_path / "runs"

    def stop() -> str:
        background.request(open_view("quick", runs), runs, "stop")
        return capsys.readouterr().out

    with opened(study, FakeExecutor()):
        pass
    assert stop() == "quick: stopped, none yet\n"
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
    assert stop().endswith(
        "it is to stop, but no driver is there to finish what has begun; let one do that, by "
        f"hpsearch drive quick --runs {runs}, or end it at once by hpsearch cancel quick --runs "
        f"{runs}\n"
    )
    view = open_view("quick", runs)
    assert (view.state.status, view.status) == ("stopping", "interrupted")


def test_what_a_driver_has_done_that_began_meanwhile_is_no_conflict(
    tmp_path, monkeypatch, capsys
) -> None:
    """It begins after the command has looked, and has ended before it looks again."""
    study, runs = new_study(tmp_path), tmp_path / "runs"
    with opened(study, FakeExecutor()):
        pass

    def act(*_: object) -> None:
        with opened(study, FakeExecutor()) as driver:
            tick_until(driver, lambda: not driver.is_busy)
        raise ConflictError("the study quick is driven by another process")

    monkeypatch.setattr(background, "_act", act)
    background.request(open_view("quick", runs), runs, "cancel")
    assert capsys.readouterr().out == "quick: cancelled, none yet\n"


@pytest.mark.parametrize("verb", ["stop", "cancel"])
def test_what_was_interrupted_before_it_was_done_is_not_done_later(
    tmp_path, monkeypatch, verb
) -> None:
    study, runs = new_study(tmp_path), tmp_path / "runs"
    with opened(study, FakeExecutor()):
        pass

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for name in ("_act", "record_undriven"):
        monkeypatch.setattr(background, name, interrupt)
    with pytest.raises(KeyboardInterrupt):
        background.request(open_view("quick", runs), runs, verb)
    assert not waiting(StudyDir(runs / "quick"))


def test_a_file_that_allows_no_more_reopens_nothing(tmp_path, drivers, capsys) -> None:
    """Less, or something else; what else is named, and the study goes on as it was."""
    study, runs = finished(tmp_path)
    text = study.path.read_text()
    rewrite(study, budget={"trials": 3, "gpu_hours": 1.0})  # less than no cap
    with pytest.raises(UsageError, match="is finished"):
        run.resume.function(study.spec.name, runs)
    assert capsys.readouterr().err == ""
    for change in ({"seed": 17}, {"storage": "sqlite:///other.db"}, {"sampler": None}, None):
        study.path.write_text(text)
        if change is None:
            study.path.unlink()
        else:
            rewrite(study, budget={"trials": 9}, **change)
        with pytest.raises(UsageError, match="is finished"):
            run.resume.function(study.spec.name, runs)
        output = capsys.readouterr().err
        assert output.startswith("hpsearch: ")
        assert output.endswith("quick goes on as it was started\n")
        assert str(study.path) in output


def test_status_says_what_the_driver_does(tmp_path, capsys, monkeypatch) -> None:
    study, runs = new_study(tmp_path), tmp_path / "runs"
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
    folder = StudyDir(runs / study.spec.name)

    def status(*, as_json: bool) -> str:
        read.status.function(study.spec.name, runs, as_json=as_json, every=None)
        return capsys.readouterr().out

    assert "quick: interrupted\n" in status(as_json=False)
    note_start(folder, f"process {os.getpid()}")
    assert "quick: starting\n" in (said := status(as_json=False))
    assert f"driver: process {os.getpid()}, started 0:0" in said
    note_retry(folder, "the disk is full")
    summary = json.loads(status(as_json=True))
    assert summary["driver_retry"]["reason"] == "the disk is full"
    since = summary["driver_retry"]["since"]
    retry = f"process {os.getpid()}, trying again since {clock_text(since)} (the disk is full)"
    assert f"driver: {retry}; it does not drive yet\n" in status(as_json=False)

    def away(name_or_file: str, runs: Path) -> None:
        raise StorageUnavailableError("the database is away")

    monkeypatch.setattr("hpsearch.api.study_reader.open_view", away)
    for named in (study.spec.name, str(study.path)):
        with pytest.raises(StorageUnavailableError) as error:
            read.status.function(named, runs, as_json=False, every=None)
        assert str(error.value) == f"the database is away; driver: {retry}"
    forget_start(folder)
    with pytest.raises(StorageUnavailableError, match="; no driver is there"):
        status(as_json=False)


def test_who_follows_a_study_sees_drivers_come_and_go(tmp_path) -> None:
    study, runs = new_study(tmp_path), tmp_path / "runs"
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
    folder = StudyDir(runs / study.spec.name)
    with closing(Followed(study.spec.name, runs)) as followed:

        def status() -> str:
            followed.look()
            return followed.view.status

        assert status() == "interrupted"
        note_start(folder, f"process {os.getpid()}")
        assert status() == "starting"
        with opened(study, FakeExecutor(), time.time):
            assert status() == "running"
        assert status() == "starting"
        forget_start(folder)
        assert status() == "interrupted"


@pytest.mark.parametrize("letter", ["\n", "\r", "\x1b", "\x7f"])
@pytest.mark.parametrize("place", ["runs", "working folder"])
def test_control_characters_in_a_path_of_a_script_are_refused(
    tmp_path, monkeypatch, letter, place
) -> None:
    profile = Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml"
    executor = {"name": "slurm", "profile": str(profile), "jobs": 1, "members_per_job": 1}
    study = new_study(tmp_path, executor=executor)
    strange = tmp_path / f"a{letter}#SBATCH --qos=high"
    strange.mkdir()
    root = strange if place == "runs" else tmp_path
    monkeypatch.chdir(strange if place == "working folder" else tmp_path)
    with pytest.raises(UsageError, match="without control characters") as error:
        check_submission(study, StudyDir(root / "runs" / "quick"), with_driver=True)
    assert letter not in str(error.value)


def test_a_driver_that_waits_at_its_start_leaves_when_it_is_told_to(tmp_path, monkeypatch) -> None:
    def away(name: str, runs: Path) -> None:
        raise StorageUnavailableError("the database is away")

    monkeypatch.setattr("hpsearch.api.driving.find_study", away)
    StudyDir(tmp_path / "quick").root.mkdir()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    assert run.drive.function("quick", tmp_path) == 130
    assert StudyDir(tmp_path / "quick").driver_retry.try_read().reason == "the database is away"


def test_a_study_that_cannot_be_exported_does_not_start_its_driver_again(tmp_path, capsys) -> None:
    _, runs = finished(tmp_path)  # of fake jobs, which leave no checkpoints
    assert run.drive.function("quick", runs) == 0
    assert "checkpoints is missing or damaged" in capsys.readouterr().err


PROFILE = Path(__file__).parents[2] / "slurm" / "dev-cluster.yaml"
REFUSING = """#!/bin/sh
echo "$*" >> "$0.calls"
case " $* " in {options}) echo "Invalid account" >&2; exit 1;; esac
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Return a function that lets sbatch refuse some options; and the file of its calls."""
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    monkeypatch.setenv("PATH", str(sbatch.parent), prepend=":")

    def refuse(*options: str) -> Path:
        patterns = "|".join(f'*" {option} "*' for option in options) or "none"
        sbatch.write_text(REFUSING.format(options=patterns))
        sbatch.chmod(0o755)
        return sbatch.with_name("sbatch.calls")

    return refuse


def two_profiles(folder: Path) -> Study:
    """Return a study whose jobs have a time of 10 by one.yaml, and of 5 by two.yaml."""
    profile, executors = yaml_file.load(PROFILE), []
    for name, minutes, driver in (("one", 10, 30), ("two", 5, 20)):
        times = {"walltime_minutes": minutes}
        times["driver"] = profile["driver"] | {"walltime_minutes": driver}
        (folder / f"{name}.yaml").write_text(yaml_file.dump(profile | times))
        executors.append({"name": "slurm", "profile": f"{name}.yaml", "jobs": 1})
    study = new_study(folder)
    rewrite(study, executors=executors)
    text = yaml_file.load(study.path)
    del text["executor"]
    study.path.write_text(yaml_file.dump(text))
    return load_spec(study.path)


@pytest.mark.parametrize(
    ("times", "refused"),
    [
        (["--time=10", "--time=30"], [("jobs", "one.yaml"), ("driver", "one.yaml")]),
        (["--time=5"], [("jobs", "two.yaml")]),
        (["--time=30"], [("driver", "one.yaml")]),
    ],
)
def test_a_profile_that_is_refused_is_said_where_another_one_is_taken(
    tmp_path, asked, capsys, times, refused
) -> None:
    study = two_profiles(tmp_path)
    asked(*times)
    check_submission(study, StudyDir(tmp_path / "runs" / "quick"), with_driver=True)
    assert capsys.readouterr().err == "".join(
        f"hpsearch: quick does without profiles by which SLURM takes no {what} ({file}: sbatch "
        f"failed: Invalid account); change {file}, or see more with: hpsearch doctor {study.path}\n"
        for what, file in refused
    )


@pytest.mark.parametrize(
    ("what", "times"), [("jobs", ["--time=10", "--time=5"]), ("driver", ["--time=30", "--time=20"])]
)
def test_a_study_does_not_begin_where_all_profiles_are_refused(
    tmp_path, asked, capsys, what, times
) -> None:
    study = two_profiles(tmp_path)
    asked(*times)
    words = "sbatch failed: Invalid account"
    with pytest.raises(UsageError) as error:
        check_submission(study, StudyDir(tmp_path / "runs" / "quick"), with_driver=True)
    assert str(error.value) == (
        f"SLURM would not take the {what} of quick (one.yaml: {words}; two.yaml: {words}); change "
        f"one.yaml and two.yaml, or see more with: hpsearch doctor {study.path}"
    )
    assert capsys.readouterr().err == ""


def test_the_driver_goes_by_the_first_profile_that_is_taken(tmp_path, asked) -> None:
    study = two_profiles(tmp_path)
    calls = asked("--time=30")
    folder = StudyDir(tmp_path / "runs" / "quick")
    assert start_detached(study, folder, tmp_path / "runs") == "job "
    times = [line.partition("--time=")[2].split()[0] for line in calls.read_text().splitlines()]
    assert times == ["30", "20"]
    asked("--parsable")
    with pytest.raises(UsageError, match=r"driver \(by one.yaml: sbatch failed: .*; by two.yaml: "):
        start_detached(study, folder, tmp_path / "runs")


def test_a_study_with_nothing_left_to_do_asks_no_scheduler(tmp_path, asked, capsys) -> None:
    study = two_profiles(tmp_path)
    calls = asked("--test-only")
    runs = tmp_path / "runs"
    drive(study, FakeExecutor())
    view = drive_here(study, runs, Terminal(), command_to_go_on="")
    assert capsys.readouterr().err == "hpsearch: quick: nothing is left to do\n"
    assert view is not None
    assert view.state.status == "finished"
    assert not background.leave_to_driver(study, runs)
    assert not calls.exists()
    rewrite(study, budget={"trials": 99})
    with pytest.raises(UsageError, match="SLURM would not take the jobs"):
        background.leave_to_driver(load_spec(study.path), runs)
    with pytest.raises(UsageError, match="SLURM would not take the jobs"):
        background.request(open_view("quick", runs), runs, "resume")
    assert open_view("quick", runs).state.status == "finished"
