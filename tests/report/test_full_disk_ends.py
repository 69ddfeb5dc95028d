"""A full disk ends every command with code 6, and says what to free and what to try again."""

import errno
import os
from pathlib import Path

import pytest
from cli_tools import write_study, write_trainer
from views import Story

from hpsearch import cli
from hpsearch.api import background, driving
from hpsearch.api.driving import failure_of
from hpsearch.cluster.failures import kind_of
from hpsearch.commands.run import drive
from hpsearch.errors import ConflictError, DiskError, StudyFailedError

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
QUOTA = OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
NATIVE = RuntimeError("I/O error: No space left on device (os error 28)")
"""as libraries that are no Python say it"""


def ends(monkeypatch, error: Exception, *, trains: bool = False, **given: object) -> int:
    """Return the exit code of a command that meets an error."""

    def call(**arguments: object) -> int:
        raise error

    monkeypatch.setattr(cli, "parse", lambda words: cli.ParsedCommand("", given, call, trains))
    return cli.main([])


def caused_by(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        QUOTA,
        NATIVE,
        caused_by(DiskError("best cannot be written; free some space"), QUOTA),
        caused_by(ConflictError("the name is taken; free some space"), NATIVE),
    ],
)
def test_a_full_disk_ends_with_code_6(monkeypatch, capsys, error):
    place = {"study": "my study.yaml", "runs": Path("else where")}
    assert ends(monkeypatch, error, trains=True, **place) == 6
    output = capsys.readouterr().err
    assert "free some space" in output
    assert "hpsearch retry 'my study.yaml' --kind disk --runs 'else where'\n" in output
    assert "fault of hpsearch" not in output


def test_a_command_that_trains_no_trials_has_nothing_to_try_again(monkeypatch, capsys):
    assert ends(monkeypatch, FULL, study="tiny") == 6
    assert "free some space, then run the same command again\n" in capsys.readouterr().err


def test_what_is_written_nowhere_is_reported_all_the_same(monkeypatch, capsys):
    def full(*arguments: object, **named: object) -> None:
        raise FULL

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    assert ends(monkeypatch, ValueError("no such thing")) == 1
    output = capsys.readouterr().err
    assert "a fault of hpsearch itself (ValueError: no such thing)" in output
    assert "Traceback" not in output


def test_a_job_tells_a_full_disk_by_its_kind_wherever_it_is_raised():
    assert [kind_of(error) for error in (FULL, QUOTA, NATIVE)] == ["disk"] * 3


@pytest.fixture
def story(tmp_path):
    write_trainer(tmp_path)
    return Story(write_study(tmp_path, {"max_failures": 1}))


def fail(story: Story, *kinds: str) -> None:
    first = len(story.view.state.trials)
    for number, kind in enumerate(kinds, start=first):
        story.ask(number)
        story.run(number, job=f"job-{number}")
        story.tell(number, "failed", failure=kind, message="it could not be written")
    story.add("ended", status="failed")


def test_a_study_whose_jobs_met_a_full_disk_names_the_remedy(story):
    fail(story, "disk", "nan", "disk")
    error = failure_of(story.view)
    assert type(error) is DiskError
    assert "free some space, then try these trials again with: hpsearch retry tiny" in str(error)
    assert "--kind disk" in str(error)


def test_a_study_that_would_have_failed_all_the_same_is_no_matter_of_the_disk(story):
    fail(story, "nan", "disk", "code")
    error = failure_of(story.view)
    assert type(error) is StudyFailedError
    assert "raise max_failures to go on all the same; for those of kind disk, free" in str(error)


def test_failures_that_were_tried_again_are_over(story):
    fail(story, "disk", "disk")
    story.add("requested", id="1", verb="retry", trials=[0, 1])
    fail(story, "nan", "nan")
    error = failure_of(story.view)
    assert type(error) is StudyFailedError
    assert "--kind disk" not in str(error)


def test_a_driver_without_a_terminal_is_not_started_again_for_it(story, monkeypatch, capsys):
    fail(story, "disk", "disk")
    study, folder = story.view.study, story.view.folder
    monkeypatch.setattr(driving, "find_study", lambda name, runs: (study, folder))
    monkeypatch.setattr(background, "drive_patiently", lambda *_: story.view)
    assert drive.function("tiny", folder.root.parent) == 8
    assert "hpsearch retry tiny --kind disk" in capsys.readouterr().err
