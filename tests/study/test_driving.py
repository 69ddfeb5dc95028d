"""Driving in a process: what users asked for meanwhile outlasts an outage, and is heard in time."""

import os
import signal

import pytest
from drives import new_study, stored_events
from fakes import FakeExecutor

from hpsearch import yaml_file
from hpsearch.api import driving
from hpsearch.api.driving import Drive
from hpsearch.api.foreground import drive_here
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import StorageUnavailableError
from hpsearch.study import recorder
from hpsearch.study.recorder import EventRecorder
from hpsearch.study.requests import Request, leave
from hpsearch.study.spec import Study
from hpsearch.study.view import StudyView
from hpsearch.terminal import Terminal


class Eventful(FakeExecutor):
    """Jobs beside which a user asks for something at the third look; later the database goes."""

    def __init__(self, folder: StudyDir, verb: str) -> None:
        super().__init__()
        self._folder, self._verb = folder, verb

    def look(self, jobs):
        seen = super().look(jobs)
        match len(self.looks):
            case 3:
                leave(self._folder, Request(self._verb))
            case 5:
                raise StorageUnavailableError("the database is away")
        return seen


@pytest.fixture
def study(tmp_path, monkeypatch) -> Study:
    monkeypatch.setattr(driving, "poll_seconds", lambda study: 0.0)
    monkeypatch.setattr(recorder, "FIRST_PAUSE", 0.0)
    return new_study(tmp_path, budget={"trials": 12})


def drive_beside(study: Study, executor: FakeExecutor, monkeypatch) -> StudyView:
    monkeypatch.setattr(driving, "build_executor", lambda study, folder: executor)
    runs = study.path.parent / "runs"
    return Drive(study, runs, StopFlag(), lambda view: None, is_detached=False).run()


@pytest.mark.parametrize(
    ("verb", "status"), [("stop", "stopped"), ("pause", "paused"), ("cancel", "cancelled")]
)
def test_an_outage_does_not_undo_what_a_user_asked_for(study, verb, status, monkeypatch) -> None:
    folder = StudyDir(study.path.parent / "runs" / study.spec.name)
    view = drive_beside(study, Eventful(folder, verb), monkeypatch)
    assert view.state.status == status
    assert len(view.state.trials) < study.spec.budget.trials
    assert len(stored_events(study, "started")) == 1


def test_a_budget_that_was_raised_is_heard_whenever_a_resume_comes(study, monkeypatch) -> None:
    """Also within a round, just before the driver hears what users ask for."""
    folder = StudyDir(study.path.parent / "runs" / study.spec.name)
    renew, rounds = EventRecorder.renew_lease, iter(range(100))

    def renew_beside_a_user(recorder: EventRecorder) -> None:
        renew(recorder)
        if next(rounds) == 2:
            data = yaml_file.load(study.path)
            study.path.write_text(yaml_file.dump(data | {"budget": {"trials": 13}}))
            leave(folder, Request("resume"))

    monkeypatch.setattr(EventRecorder, "renew_lease", renew_beside_a_user)
    view = drive_beside(study, FakeExecutor(), monkeypatch)
    assert len(view.state.told("finished")) == 13


class Interrupted(FakeExecutor):
    """Ctrl-C comes at the third look: twice, or while the database is away."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def look(self, jobs):
        seen = super().look(jobs)
        if len(self.looks) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            raise self._error
        return seen


def run_here(study: Study, executor: FakeExecutor, monkeypatch) -> StudyView | None:
    monkeypatch.setattr(driving, "build_executor", lambda study, folder: executor)
    runs = study.path.parent / "runs"
    return drive_here(study, runs, Terminal(), command_to_go_on="hpsearch run it")


def test_a_second_ctrl_c_waits_for_no_job_but_tells_all_to_save(study, monkeypatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_here(study, Interrupted(KeyboardInterrupt()), monkeypatch)
    assert len(stored_events(study, "interrupting")) == 1


def test_ctrl_c_while_the_database_is_away_is_no_fault(study, monkeypatch, capsys) -> None:
    monkeypatch.setattr(recorder, "FIRST_PAUSE", 60.0)
    away = StorageUnavailableError("the database is away")
    assert run_here(study, Interrupted(away), monkeypatch) is None
    said = capsys.readouterr().err
    assert said.endswith("hpsearch: interrupted; go on with: hpsearch run it\n")
    assert "running jobs go on, and the next run finds them\n" in said
