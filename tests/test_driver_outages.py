"""A driver that is killed while the database or the disk is away: the study goes on by itself.

Of a scheduler that is away, see tests/slurm/test_slurm_studies.py.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_tools import events, hpsearch, kill_study, refused, write_study, write_trainer
from full_disk import full_while
from servers import Server, plain_trials
from tried import tried

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.files import read_json

pytestmark = pytest.mark.timeout(600)
MOMENTS = tried(["at the start", "in the middle"], slow=["in the middle"])

STUDY = {"budget/trials": 2, "executor/jobs": 1, "executor/members_per_job": 1}
TRAINER = {"steps": 200, "checkpoint/interval": 50, "evaluation/interval": 100}
VARIABLE = "HPSEARCH_TEST_STORAGE"


class Submitted:
    """A study that was submitted on this machine, and its processes."""

    def __init__(self, folder: Path, env: dict[str, str], **changes: Any) -> None:
        self.folder, self.env = folder, env
        self.files = StudyDir(folder / "runs" / "tiny")
        write_trainer(folder, TRAINER)
        write_study(folder, STUDY | changes)
        hpsearch(folder, "submit", "study.yaml", env=env)

    def status(self) -> dict[str, Any]:
        done = hpsearch(self.folder, "status", "tiny", "--json", env=self.env)
        return json.loads(done.stdout)

    def wait(self, condition: Callable[[], bool], seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.files.output.read_text()
            time.sleep(0.3)

    def wait_until(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        self.wait(lambda: condition(self.status()))

    def kill_driver(self) -> None:
        """Kill the driver, not its supervisor, and wait until another one has begun."""
        supervisor = psutil.Process(int(read_json(self.files.driver_start)["who"].split()[1]))
        self.wait(lambda: bool(supervisor.children()))
        (driver,) = supervisor.children()
        driver.kill()
        self.wait(lambda: any(child != driver for child in supervisor.children()))

    def wait_for_a_retry(self) -> None:
        self.wait(lambda: self.files.driver_retry.try_read() is not None)


@pytest.fixture
def submit(tmp_path: Path) -> Iterator[Callable[..., Submitted]]:
    """Return what submits a study; afterwards nothing of it runs any more."""
    yield lambda env, **changes: Submitted(tmp_path, env, **changes)
    kill_study(tmp_path)


@pytest.mark.parametrize("when", MOMENTS)
def test_killed_while_the_database_is_away(submit, postgresql: Server, when: str) -> None:
    env = {VARIABLE: postgresql.new_database(when.replace(" ", "_"))}
    study = submit(env, storage=f"env:{VARIABLE}")
    if when == "in the middle":
        study.wait_until(lambda seen: seen["jobs"]["running"] == 1)
    postgresql.stop()
    try:
        study.wait_for_a_retry()
        study.kill_driver()
        message = refused(study.folder, "status", "tiny", code=5, env=env)
        assert "cannot be used now" in message
        assert "driver: process" in message
        assert ", trying again since " in message
        study.kill_driver()
    finally:
        postgresql.start()
    study.wait_until(lambda seen: seen["state"] in ("running", "finished"))
    study.wait_until(lambda seen: seen["state"] == "finished")
    assert sorted(events(study.folder, "told")) == [0, 1]
    assert [trial.state.name for trial in plain_trials(env[VARIABLE], 1)] == ["COMPLETE"] * 2
    study.wait(lambda: not study.files.driver_start.exists())
    assert study.files.driver_retry.try_read() is None


@pytest.mark.parametrize("when", MOMENTS)
def test_killed_while_the_disk_is_full(submit, tmp_path: Path, when: str) -> None:
    mark = tmp_path / "full"
    env = full_while(mark, tmp_path / "site")
    study = submit(env)
    if when == "in the middle":
        study.wait_until(lambda seen: seen["jobs"]["running"] == 1)
    mark.touch()
    study.kill_driver()
    time.sleep(10)
    study.kill_driver()
    assert study.status()["state"] in ("starting", "running")
    mark.unlink()
    study.wait_until(lambda seen: seen["state"] == "finished")
    assert sorted(events(study.folder, "told")) == [0, 1]
