"""A driver that is killed while the database or the disk is away: the study goes on by itself.

Of a scheduler that is away, see tests/slurm/test_slurm_studies.py.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_tools import events, hpsearch, kill_study, read, refused, write_study
from full_disk import full_while
from servers import Server, plain_trials
from tried import tried

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.files import read_json

pytestmark = pytest.mark.timeout(600)
MOMENTS = tried(["at the start", "in the middle"], slow=["in the middle"])

TOY = Path(__file__).parent / "programs/toy.py"
STUDY = {
    "base": {
        "command": ["python", str(TOY), "{config}", "{folder}"],
        "parameters": {"rate": 0.5, "seconds": 0.2},
        "steps": 40,
    },
    "objectives": [{"metric": "walked", "goal": "maximize"}],
    "space": {"parameters.rate": {"type": "float", "low": 0.1, "high": 1.0}},
    "budget/trials": 2,
    "executor/jobs": 1,
    "executor/members_per_job": 1,
}
VARIABLE = "HPSEARCH_TEST_STORAGE"


class Submitted:
    """A study that was submitted on this machine, and its processes."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None, **changes: Any) -> None:
        self.folder = folder
        self.files = StudyDir(folder / "runs" / "tiny")
        write_study(folder, STUDY | changes)
        hpsearch(folder, "submit", "study.yaml", env=env)

    def status(self) -> dict[str, Any]:
        return read(self.folder, "status", "tiny")

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
    yield lambda *env, **changes: Submitted(tmp_path, *env, **changes)
    kill_study(tmp_path)


@pytest.mark.parametrize("when", MOMENTS)
def test_killed_while_the_database_is_away(
    submit, postgresql: Server, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    url = postgresql.new_database(when.replace(" ", "_"))
    monkeypatch.setenv(VARIABLE, url)
    study = submit(storage=f"env:{VARIABLE}")
    if when == "in the middle":
        study.wait_until(lambda seen: seen["jobs"]["running"] == 1)
    postgresql.stop()
    try:
        study.wait_for_a_retry()
        study.kill_driver()
        message = refused(study.folder, "status", "tiny", code=5)
        assert "cannot be used now" in message
        assert "driver: process" in message
        assert ", trying again since " in message
        study.kill_driver()
    finally:
        postgresql.start()
    study.wait_until(lambda seen: seen["state"] in ("running", "finished"))
    study.wait_until(lambda seen: seen["state"] == "finished")
    assert sorted(events(study.folder, "told")) == [0, 1]
    assert [trial.state.name for trial in plain_trials(url, 1)] == ["COMPLETE"] * 2
    study.wait(lambda: not study.files.driver_start.exists())
    assert study.files.driver_retry.try_read() is None


@pytest.mark.parametrize("when", MOMENTS)
def test_killed_while_the_disk_is_full(submit, tmp_path: Path, when: str) -> None:
    mark = tmp_path / "full"
    study = submit(full_while(mark, tmp_path / "site"))
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
