"""Studies that go on without the terminal, on this machine: submit, and what users ask of them."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_tools import (
    events,
    hpsearch,
    in_this_process,
    kill_drivers,
    kill_study,
    read,
    refused,
    write_study,
    write_trainer,
)

from hpsearch.api import driving
from hpsearch.commands.run import cancel
from hpsearch.errors import UsageError

TOY = Path(__file__).parent / "programs/toy.py"
ENDLESS = {"steps": 10**7, "evaluation/interval": 20, "checkpoint/interval": 100}
SHORT = {"steps": 40}
TWO_JOBS = {"budget/trials": 4, "executor/jobs": 2, "executor/members_per_job": 1}
WALKS = TWO_JOBS | {
    "base": {
        "command": ["python", str(TOY), "{config}", "{folder}"],
        "parameters": {"rate": 0.5, "seconds": 0.5},
        "steps": 10**7,
    },
    "objectives": [{"metric": "walked", "goal": "maximize"}],
    "space": {"parameters.rate": {"type": "float", "low": 0.1, "high": 1.0}},
}
"""trials that do not end, and need next to no processor"""


def driver_id(folder: Path) -> int:
    """Return the driver's process id, as its note names it."""
    return json.loads((folder / "runs/tiny/driver.json").read_text())["pid"]


def driver(folder: Path) -> psutil.Process:
    return psutil.Process(driver_id(folder))


def wait_for(folder: Path, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while not condition(status := read(folder, "status", "tiny")):
        assert time.monotonic() < deadline, status
        time.sleep(0.3)
    return status


@pytest.fixture
def submitted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that submits a study; afterwards nothing of it runs any more."""

    def submit(study: dict[str, Any] = WALKS, **changes: Any) -> Path:
        write_study(tmp_path, study | changes)
        done = hpsearch(tmp_path, "submit", "study.yaml")
        assert "tiny: driven by process" in done.stdout
        wait_for(tmp_path, lambda seen: seen["driver"] is not None)
        return tmp_path

    yield submit
    kill_study(tmp_path)


@pytest.mark.slow
def test_submit_returns_and_the_study_ends_without_us(submitted, tmp_path: Path) -> None:
    write_trainer(tmp_path, SHORT)
    folder = submitted(TWO_JOBS | {"executor/jobs": 1, "executor/members_per_job": 4})
    seen = wait_for(folder, lambda seen: seen["state"] == "finished")
    assert seen["trials"]["finished"] == 4
    assert sorted(events(folder, "told")) == [0, 1, 2, 3]
    deadline = time.monotonic() + 60
    while not (folder / "runs/tiny/best/config.yaml").exists():
        assert time.monotonic() < deadline, (folder / "runs/tiny/driver.out").read_text()
        time.sleep(0.2)
    done = hpsearch(folder, "submit", "study.yaml")
    assert done.stdout == "tiny: nothing is left to do\n"
    assert "nothing to pause" in refused(folder, "pause", "tiny", code=2)
    assert "raise budget.trials" in refused(folder, "resume", "tiny", code=2)
    assert "no failed trial" in refused(folder, "retry", "tiny", code=2)


@pytest.mark.slow
@pytest.mark.alone
def test_submit_returns_within_five_seconds(tmp_path: Path) -> None:
    """The best of three: the machine may be busy."""
    write_trainer(tmp_path, ENDLESS)
    write_study(tmp_path, TWO_JOBS)
    seconds = []
    try:
        for _ in range(3):
            began = time.monotonic()
            hpsearch(tmp_path, "submit", "study.yaml")
            seconds.append(time.monotonic() - began)
            wait_for(tmp_path, lambda seen: seen["driver"] is not None)
            kill_drivers(tmp_path)
            if seconds[-1] < 5:
                return
        raise AssertionError(seconds)
    finally:
        kill_study(tmp_path)


@pytest.mark.slow
def test_a_driver_that_was_killed_is_missed_and_replaced(submitted) -> None:
    folder = submitted()
    first = driver(folder)
    assert "driven by" in refused(folder, "submit", "study.yaml", code=4)
    assert "nothing to resume" in refused(folder, "resume", "tiny", code=2)
    wait_for(folder, lambda seen: seen["jobs"]["running"] == 2)
    first.kill()
    seen = [read(folder, "status", "tiny")["state"]]
    wait_for(folder, lambda now: seen.append(now["state"]) or now["state"] == "running")
    assert set(seen) <= {"starting", "running"}  # its supervisor started another one
    wait_for(folder, lambda seen: driver_id(folder) != first.pid and seen["state"] == "running")
    kill_drivers(folder)
    assert read(folder, "status", "tiny")["state"] == "interrupted"
    assert "driven by process" in hpsearch(folder, "resume", "tiny").stdout
    wait_for(folder, lambda seen: seen["state"] == "running")
    hpsearch(folder, "cancel", "tiny")
    seen = wait_for(folder, lambda seen: seen["jobs"]["running"] == 0)
    assert seen["jobs"]["ended"] == 2  # none was started twice


@pytest.mark.slow
def test_a_budget_that_is_raised_while_a_driver_lives_is_read_again(submitted) -> None:
    folder = submitted(**{"budget/trials": 2, "executor/jobs": 3})
    wait_for(folder, lambda seen: seen["trials"]["running"] == 2)
    write_study(folder, WALKS | {"budget/trials": 3, "executor/jobs": 3})
    hpsearch(folder, "resume", "tiny")
    seen = wait_for(folder, lambda seen: seen["trials"]["running"] == 3)
    assert seen["budget"] == 3
    assert "nothing to resume" in refused(folder, "resume", "tiny", code=2)


@pytest.mark.slow
def test_a_request_while_the_driver_is_started_again(submitted) -> None:
    """It is done at once, or heard by the driver that begins meanwhile."""
    folder = submitted()
    wait_for(folder, lambda seen: seen["jobs"]["running"] == 2)
    first = driver(folder)
    first.kill()
    first.wait(20)
    # In this process: one that has to start may come when the next driver drives already.
    resumed = in_this_process(folder, "resume", "tiny")
    assert "is there already, as process" in resumed.stdout, resumed.stderr
    hpsearch(folder, "cancel", "tiny")
    wait_for(folder, lambda seen: seen["state"] == "cancelled" and seen["jobs"]["running"] == 0)


@pytest.mark.slow
def test_pause_resume_cancel_retry(submitted) -> None:
    folder = submitted()
    wait_for(folder, lambda seen: seen["jobs"]["running"] == 2)
    assert hpsearch(folder, "pause", "tiny").stdout == "tiny: paused, 2 running\n"
    assert "is paused already" in refused(folder, "pause", "tiny", code=2)
    assert hpsearch(folder, "resume", "tiny").stdout == "tiny: running, 2 running\n"
    hpsearch(folder, "cancel", "tiny")
    seen = wait_for(folder, lambda seen: seen["jobs"]["running"] == 0)
    assert (seen["state"], seen["failures"]) == ("cancelled", {"cancelled": 2})
    assert "nothing to cancel" in refused(folder, "cancel", "tiny", code=2)
    unknown = refused(folder, "retry", "tiny", "--kind", "canceled", code=2)
    assert "did you mean 'cancelled'?" in unknown
    output = hpsearch(folder, "retry", "tiny", "--kind", "cancelled", "--trial", "1").stdout
    assert "trying 1 failed trial again, with the same parameters as new ones" in output
    assert "; a driver is started for them\ntiny: driven by process" in output
    seen = wait_for(folder, lambda seen: seen["trials"]["running"] > 0)
    again = [trial for trial in read(folder, "trials", "tiny") if trial["retry_of"] == 1]
    assert len(again) == 1


@pytest.mark.slow
def test_requests_without_a_driver_are_done_at_once(submitted) -> None:
    folder = submitted()
    wait_for(folder, lambda seen: seen["jobs"]["running"] == 2)
    kill_drivers(folder)
    assert hpsearch(folder, "pause", "tiny").stdout == "tiny: paused, 2 running\n"
    assert hpsearch(folder, "cancel", "tiny").stdout == "tiny: cancelled, 2 failed\n"
    assert read(folder, "status", "tiny")["jobs"]["running"] == 0


@pytest.mark.slow
def test_watch_goes_on_until_the_study_ends_or_ctrl_c(submitted) -> None:
    folder = submitted()
    command = [sys.executable, "-m", "hpsearch.cli", "status", "tiny", "--watch", "0.2", "--json"]
    watching = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    for _ in range(3):
        assert json.loads(watching.stdout.readline())["study"] == "tiny"
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 130
    watching.stdout.close()
    hpsearch(folder, "cancel", "tiny")
    done = hpsearch(folder, "status", "tiny", "--watch", "--json")
    assert json.loads(done.stdout.splitlines()[-1])["state"] == "cancelled"


@pytest.mark.slow
def test_what_was_refused_is_not_done_later(submitted, monkeypatch) -> None:
    """A request that no driver can carry out now is taken back, not left for tomorrow's driver."""
    folder = submitted()
    wait_for(folder, lambda seen: seen["jobs"]["running"] == 2)
    kill_drivers(folder)

    def silent(study: object, folder: object) -> None:
        raise UsageError("SLURM does not answer here")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(driving, "build_executor", silent)
    with pytest.raises(UsageError):
        cancel.function("tiny", Path("runs"))
    assert not list(Path("runs/tiny/requests").glob("*.json"))


@pytest.mark.slow
def test_retry_of_a_trial_that_there_is_not(submitted) -> None:
    folder = submitted()
    assert "has no trial 99" in refused(folder, "retry", "tiny", "--trial", "99", code=2)
