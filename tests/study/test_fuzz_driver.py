"""Whatever jobs leave in their files, the driver goes on, and ends the study.

The slow test takes fresh seeds for 10 seconds and prints them: HPSEARCH_FUZZ_SEED=N repeats one.
"""

import json
import os
import random
import secrets
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from drives import METRIC, Clock, drive, new_study, opened, stored_events, stored_trials, tick_until
from fakes import FakeExecutor, Fault
from hostile import ESCAPE, damage, remove
from test_population_study import population_study, teaching

from hpsearch import cli
from hpsearch.cluster.executor import JobStatus
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import DiskError, HpsearchError
from hpsearch.study import requests
from hpsearch.study.opening import open_driver
from hpsearch.study.spec import Study
from hpsearch.study.state import RUNNING
from hpsearch.trainers.checkpoint_name import MANIFEST

BY_JOBS = (
    "trials/*/attempt-*/*.json", "trials/*/*.jsonl", "trials/*/birth.json", "trials/*/lineage.json",
    "trials/*/exchanges.json", f"trials/*/checkpoints/*/{MANIFEST}", "matches/*/games.npz",
    "matches/*/alive.json", "jobs/*/next-*.json", "jobs/*/fake.log", "requests/*", "driver*.json",
)  # fmt: skip


class Damaging(FakeExecutor):
    """Damages files after a round of its jobs, so many times."""

    def __init__(self, root: Path, rng: random.Random, times: int, **options) -> None:
        super().__init__(**options)
        self._root = root
        self._rng = rng
        self._left = times

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        try:
            seen = super().look(jobs)
        except (OSError, HpsearchError, ValueError):  # jobs that met what we left: they die of it
            self._kill_all()
            seen = {job.name: JobStatus(f"fake-{job.name}", "ended") for job, _ in jobs}
        for path in self._some_files():
            damage(path, self._rng)
        return seen

    def _kill_all(self) -> None:
        for known in self._jobs.values():
            known.lives = False
            known.left.clear()
            known.zombies.clear()

    def _some_files(self) -> list[Path]:
        if not self._left or self._rng.random() < 0.5:
            return []
        self._left -= 1
        (self._root / "requests").mkdir(parents=True, exist_ok=True)
        (self._root / f"requests/{self._left}.json").write_text('{"verb": "retry"}')
        paths = sorted(path for pattern in BY_JOBS for path in self._root.glob(pattern))
        return self._rng.sample(paths, min(len(paths), self._rng.randint(1, 5)))


def ended(study: Study, rng: random.Random, **options) -> None:
    """Drive a study whose files are damaged; assert that it ends, and that looking at it works."""
    runs = study.path.parent / "runs"
    executor = Damaging(runs / study.spec.name, rng, times=20, **options)
    clock = Clock()
    for _ in range(40):  # a driver that ends by a sentence is started again, as the sentence says
        try:
            with open_driver(
                study, runs, executor, on_event=lambda event: None, clock=clock
            ) as driver:
                driver.start()
                for _ in range(300):
                    if driver.state.status != RUNNING:
                        break
                    driver.tick()
                    clock.now += 400.0
        except DiskError as error:
            if "move away" in str(error):
                remove(Path(str(error).partition(" cannot be written")[0]))
            continue
        if driver.state.status != RUNNING:
            break
    assert driver.state.status in ("finished", "failed")
    told = [trial for _, trial, *_ in stored_events(study, "told")]
    assert len(told) == len(set(told))
    assert all(trial.state.is_finished() for trial in stored_trials(study))


def search(folder: Path) -> Study:
    executor = {"name": "local", "jobs": 2, "members_per_job": 2}
    return new_study(
        folder, budget={"trials": 5}, executor=executor, max_failures=50, sampler={"name": "random"}
    )


def fuzz(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    if rng.random() < 0.5:
        ended(search(folder), rng, pilot_seconds=rng.choice((0.0, 60.0)))
    else:
        ended(
            population_study(folder, trials=8, study={"max_failures": 50}), rng, teaching=teaching
        )


@pytest.mark.parametrize("seed", range(2))
def test_a_study_whose_files_are_damaged_ends(tmp_path: Path, seed: int) -> None:
    fuzz(tmp_path, seed)


@pytest.mark.slow
def test_studies_whose_files_are_damaged_end_for_a_while(tmp_path: Path) -> None:
    seed = int(os.environ.get("HPSEARCH_FUZZ_SEED", secrets.randbelow(2**32)))
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        print(f"HPSEARCH_FUZZ_SEED={seed}", flush=True)
        fuzz(tmp_path / str(seed), seed)
        seed += 1


# What was found by hand, each alone.


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return search(tmp_path)


def folder(study: Study) -> StudyDir:
    return StudyDir(study.path.parent / "runs" / study.spec.name)


class Writing(FakeExecutor):
    """Writes something into a file of every trial's folder after each round."""

    def __init__(self, root: Path, name: str, content: bytes) -> None:
        super().__init__()
        self._files = root, name
        self._content = content

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        seen = super().look(jobs)
        root, name = self._files
        for trial in root.glob("trials/*"):
            (trial / name).parent.mkdir(exist_ok=True)
            with (trial / name).open("ab") as file:
                file.write(self._content)
        return seen


def test_brackets_in_curves_end_no_study(study: Study) -> None:
    root = folder(study).root
    state = drive(study, Writing(root, "metrics.jsonl", b"[" * 100_000 + b"\n"))
    assert state.status == "finished"
    assert all(trial.intermediate_values for trial in stored_trials(study))


def test_a_step_that_no_database_holds_is_no_report(study: Study) -> None:
    row = {"step": 10**30, "metrics": {METRIC: {"value": 0.1, "low": 0.0, "high": 0.2}}}
    root = folder(study).root
    state = drive(study, Writing(root, "metrics.jsonl", json.dumps(row).encode() + b"\n"))
    assert state.status == "finished"


@pytest.mark.parametrize("way", ["folder", "pipe"])
@pytest.mark.timeout(60)
def test_a_result_that_is_none_is_a_lost_attempt(study: Study, way: str) -> None:
    """As a damaged one is: the next attempt goes on."""

    class Spoiling(FakeExecutor):
        def _vanish(self, known, member, step, kind):  # type: ignore[no-untyped-def]
            super()._vanish(known, member, step, kind)
            path = member.attempt.root / "result.json"
            match way:
                case "folder":
                    path.mkdir()
                case "pipe":
                    os.mkfifo(path)

    state = drive(study, Spoiling(faults={(0, 1): Fault("vanish", 8)}))
    assert state.status == "finished"
    assert state.trials[0].attempts == 2


@pytest.mark.parametrize("damaged", [0, 2])
def test_a_pilot_that_cannot_read_a_trial_is_let_go(tmp_path: Path, damaged: int) -> None:
    """Its first trial or a later one: the driver took it for a job that ends by itself."""
    executor = {"name": "local", "jobs": 1, "members_per_job": 1}
    study = new_study(tmp_path, budget={"trials": 4}, executor=executor, sampler={"name": "random"})
    config = folder(study).trial(damaged).root / "config.yaml"

    class Unreadable(FakeExecutor):
        def submit(self, jobs: Sequence[JobDir]) -> dict[str, str]:
            self._damage()
            return super().submit(jobs)

        def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
            self._damage()
            return super().look(jobs)

        def _damage(self) -> None:
            if config.exists():
                config.write_bytes(b"\xd5")

    pilots = Unreadable(pilot_seconds=60.0)
    state = drive(study, pilots)
    assert (state.status, pilots.live(), pilots.submitted) == ("finished", [], ["00001", "00002"])
    assert [trial.failure for trial in state.trials.values()].count("code") == 1
    assert state.trials[damaged].failure == "code"


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{}", b'{"verb": "pause", "id": "other"}'])
def test_a_file_that_is_no_request_is_put_aside_with_a_line(study: Study, content: bytes) -> None:
    inbox = folder(study).requests
    inbox.mkdir(parents=True)
    (inbox / "x.json").write_bytes(content)
    said = []
    runs = study.path.parent / "runs"
    with open_driver(study, runs, FakeExecutor(), on_event=said.append, clock=Clock()) as driver:
        driver.start()
        driver.tick()
        driver.tick()
    assert [path.name for path in inbox.iterdir()] == ["x.json.damaged"]
    notes = [event.data["message"] for event in said if event.kind == "note"]
    assert len(notes) == 1
    assert "x.json" in notes[0]
    assert requests.waiting(folder(study)) == []


@pytest.fixture
def hostile_words(study: Study) -> Study:
    """Give a study of which one trial failed with a message and a log that steer terminals."""

    class Speaking(FakeExecutor):
        def _fail(self, known, member):  # type: ignore[no-untyped-def]
            if member.assignment.trial == 0 and known.step[0] >= 8:
                (known.job.root / "fake.log").write_bytes(ESCAPE.encode() + b" \xff log\n")
                member.end("failed", 8, kind="code", message=f"{ESCAPE}no \ud800 \x00 layer\nmore")
                known.left.remove(member)

    with opened(study, Speaking()) as driver:
        tick_until(driver, lambda: driver.state.status != RUNNING)
    return study


def test_words_that_steer_terminals_or_cannot_be_kept_are_not_recorded(
    hostile_words: Study,
) -> None:
    (told,) = [data for *_, data in stored_events(hostile_words, "told") if data["failure"]]
    assert told["message"] == "\ufffd]0;owned\ufffd\ufffd[2Jno \ufffd \ufffd layer\nmore"
    (ended,) = [data for *_, data in stored_events(hostile_words, "attempt_ended") if data["kind"]]
    assert ended["log"] == ["\ufffd]0;owned\ufffd\ufffd[2J \ufffd log"]


def test_a_study_that_recorded_such_words_before_can_be_looked_at(
    hostile_words: Study, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """As an older version did: its status failed for ever."""
    path = hostile_words.spec.storage.removeprefix("sqlite:///")
    words = json.dumps(f"{ESCAPE} \ud800")[1:-1]
    with sqlite3.connect(path) as database:
        database.execute("UPDATE hpsearch_events SET data = replace(data, 'layer', ?)", (words,))
    database.close()
    page = str(folder(hostile_words).root / "page.html")
    for command in (["status"], ["trials"], ["status", "--json"], ["report", "-o", page]):
        arguments = [command[0], hostile_words.spec.name, *command[1:]]
        assert cli.main([*arguments, "--runs", str(folder(hostile_words).root.parent)]) == 0
    output = capfdbinary.readouterr().out
    assert b"owned" in output
    assert b"\x1b]" not in output
    assert b"\x07" not in output
