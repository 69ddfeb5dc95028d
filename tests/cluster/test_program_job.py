"""A job whose trials are programs: how each ends, what it measures, and what the next attempt does.

The program is tests/programs/toy.py, whose values are known: `rate` times the step.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import psutil
import pytest

from hpsearch import yaml_file
from hpsearch.cluster import program_job
from hpsearch.cluster.child_processes import same_code
from hpsearch.cluster.failures import CODE, HUNG, LOST, NAN, OOM_HOST, StopFlag
from hpsearch.cluster.program_job import run_programs
from hpsearch.cluster.program_run import ProgramRun
from hpsearch.cluster.records import (
    Assignment,
    AttemptResult,
    Control,
    Fresh,
    JobPlan,
    Lineage,
    Parent,
)
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.files import write_json
from hpsearch.population.operators.options import Clone
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint_name import sha256_of

TOY = Path(__file__).parents[1] / "programs/toy.py"


class Study:
    """A study's folder with trials of the toy, and jobs that run them."""

    def __init__(self, folder: Path) -> None:
        self.files = StudyDir(folder)
        folder.mkdir(parents=True)
        write_json(self.files.spec, {"name": "toys", "file": str(folder / "study.yaml")})
        self._jobs = 0

    def add(self, number: int, parent: Parent | None = None, **config) -> None:
        base = {"algorithm": "program", "command": ["python", str(TOY), "{config}", "{folder}"]}
        base |= {"parameters": {"rate": 0.5}, "steps": 4, "seed": number, "stop_seconds": 1.0}
        lineage = Lineage(Fresh(), number)
        if parent is not None:
            lineage = Lineage(Clone(), number, (parent,))
        self.files.trial(number).create(yaml_file.dump(base | config), lineage)

    def job(self, *numbers: int, attempt: int = 1, pilot: float = 0.0) -> JobDir:
        given = tuple(Assignment(number, attempt, f"t{number}-{attempt}") for number in numbers)
        for own in given:
            self.files.trial(own.trial).control.write(Control(own.token, stop=None))
        self._jobs += 1
        job = self.files.job(f"{self._jobs:05d}")
        job.plan.write(JobPlan(given, 1, pilot, refills=pilot > 0, programs=True))
        return job

    def run(self, *numbers: int, attempt: int = 1) -> JobDir:
        job = self.job(*numbers, attempt=attempt)
        run_programs(job, StopFlag())
        return job

    def result(self, number: int, attempt: int = 1) -> AttemptResult:
        result = self.files.trial(number).attempt(attempt).read_result()
        assert result is not None
        return result

    def curve(self, number: int) -> dict[int, float]:
        rows = list(self.files.trial(number).read_metrics())
        steps = [row["step"] for row in rows]
        assert len(set(steps)) == len(steps), "a step stands twice"
        return {row["step"]: row["metrics"]["walked"]["value"] for row in rows}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(program_job, "LOOK_SECONDS", 0.02)
    return Study(tmp_path / "runs/toys")


def until(condition, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_programs_run_to_their_end_and_their_lines_are_the_curve(study):
    study.add(0)
    study.add(1, parameters={"rate": 2.0})
    job = study.run(0, 1)
    assert study.curve(0) == {1: 0.5, 2: 1.0, 3: 1.5, 4: 2.0}
    assert study.curve(1) == {1: 2.0, 2: 4.0, 3: 6.0, 4: 8.0}
    result = study.result(0)
    assert (result.status, result.step) == ("finished", 4)
    assert result.metrics == {"walked": {"value": 2.0, "low": 2.0, "high": 2.0}}
    (kept,) = study.files.trial(0).checkpoints.iterdir()
    assert checkpoint.is_whole(kept)
    assert json.loads((kept / "program/config.json").read_text()) == {
        "rate": 0.5,
        "seed": 0,
        "steps": 4,
    }
    assert job.heartbeat.required().members == (), "the last heartbeat names none that runs"


def test_one_that_may_end_early_ends_with_its_last_values(study):
    study.add(0, parameters={"rate": 0.5, "ends": "early"}, may_end_early=True)
    study.run(0)
    result = study.result(0)
    assert (result.status, result.metrics["walked"]["value"]) == ("finished", 1.0)
    assert study.curve(0) == {1: 0.5, 2: 1.0}


def test_one_that_counts_in_batches_may_end_with_the_first_line_beyond_its_steps(study):
    script = """printf '{"step": %d, "walked": %d}\\n' 3 30 6 60 > "$1/metrics.jsonl\""""
    study.add(0, command=["sh", "-c", script, "sh", "{folder}"])
    study.run(0)
    result = study.result(0)
    assert (result.status, result.metrics["walked"]["value"]) == ("finished", 60.0)
    assert study.curve(0) == {3: 30.0, 6: 60.0}


def test_a_line_beyond_the_steps_of_a_killed_attempt_does_not_count_against_the_next(study):
    """It was killed before it had saved the state of that line, and counts in other batches now."""
    script = """[ -e "$1/metrics.jsonl" ] && step=7 || step=6
        printf '{"step": %d, "walked": 1}\\n' $step >> "$1/metrics.jsonl"
        [ $step = 7 ] || kill -9 $$"""
    study.add(0, command=["sh", "-c", script, "sh", "{folder}"])
    study.run(0)
    assert study.result(0).kind == OOM_HOST
    study.run(0, attempt=2)
    assert study.result(0, attempt=2).status == "finished"


def test_lines_between_the_intervals_are_left_out_but_the_last(study):
    study.add(0, steps=6, interval=3)
    study.run(0)
    assert study.curve(0) == {3: 1.5, 6: 3.0}


@pytest.mark.parametrize(
    ("ends", "kind", "message"),
    [
        ("badly", CODE, "the program ended with exit code 3: the walk was too long; see "),
        ("killed", OOM_HOST, "the program ended with signal SIGKILL"),
        ("nan", NAN, "the last values of walked are no finite numbers"),
        ("silent", CODE, "the program ended without a line in metrics.jsonl"),
        ("early", CODE, "the program ended with exit code 0 at step 2 of 4; let its lines count"),
        ("far beyond", CODE, "or the first beyond it, but after step 4 came step 5; let"),
    ],
)
def test_how_a_program_failed_is_told_and_the_others_run_on(study, ends, kind, message):
    study.add(0, parameters={"rate": 0.5, "ends": ends})
    study.add(1)
    study.run(0, 1)
    result = study.result(0)
    assert (result.status, result.kind) == ("failed", kind)
    assert message in result.message
    assert study.result(1).status == "finished"


def test_one_that_goes_on_beyond_its_steps_is_ended_at_once_though_it_is_deaf(study):
    script = """trap "" TERM
        printf '{"step": %d, "walked": 1}\\n' 4 5 >> "$1/metrics.jsonl"; sleep 60"""
    study.add(0, command=["sh", "-c", script, "sh", "{folder}"], stop_seconds=60.0)
    began = time.monotonic()
    study.run(0)
    assert study.result(0).kind == CODE
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("lines", "steps", "message"),
    [
        ("step 1\\n", 1, """; its line 'step 1' is no JSON ("""),
        ("""{"epoch": 1}\\n""", 1, """a line in metrics.jsonl, such as"""),
        ("""{"epoch": 1}\\n""", 1, """; its line '{"epoch": 1}' has no step"""),
        (
            *("""{"step": 0}\\n{"step": 1}\\n""", 2),
            """at step 1 of 2; let its lines count to steps, or set may_end_early: true; """
            """its line '{"step": 0}' has the step 0, which is no whole number from 1""",
        ),
    ],
)
def test_a_line_that_cannot_be_taken_is_named_where_steps_are_missing(study, lines, steps, message):
    script = f"""printf '\\n{lines}' > "$1/metrics.jsonl\""""
    study.add(0, command=["sh", "-c", script, "sh", "{folder}"], steps=steps)
    study.run(0)
    assert message in study.result(0).message


def test_a_program_that_is_not_there_fails_its_trial_alone(study):
    study.add(0, command=["./nothing", "{config}"])
    study.add(1)
    study.run(0, 1)
    result = study.result(0)
    assert (result.status, result.kind) == ("failed", CODE)
    assert "'./nothing' cannot be started (No such file or directory" in result.message
    assert study.result(1).status == "finished"
    # The driver looks for its result although another job shares the task of the scheduler.
    (last,) = study.run(0, attempt=2).heartbeat.required().members
    assert (last.trial, last.measured) == (0, None)


def test_what_it_starts_runs_in_the_study_files_folder_with_the_python_of_hpsearch(study):
    words = "import json, os, sys; print(json.dumps([sys.executable, os.getcwd()]))"
    study.add(0, command=["python", "-c", words, "{config}"])
    study.run(0)
    said = json.loads(study.files.trial(0).output.read_text().splitlines()[0])
    assert Path(said[0]).parent == Path(sys.executable).parent
    assert said[1] == str(study.files.root)


def test_a_program_of_several_files_imports_them_as_by_hand(study, monkeypatch):
    for name, own in same_code().items():  # as jobs of this machine begin
        monkeypatch.setenv(name, own)
    (study.files.root / "train.py").write_text(
        "import toy_parts, sys; toy_parts.main(*sys.argv[1:])"
    )
    (study.files.root / "toy_parts.py").write_text(TOY.read_text())
    study.add(0, command=["python", "train.py", "{config}", "{folder}"])
    study.run(0)
    assert study.result(0).status == "finished", study.files.trial(0).output.read_text()


def test_a_program_that_something_else_ends_is_lost_and_not_failed(study):
    study.add(0, steps=1000, parameters={"rate": 0.5, "seconds": 0.05})
    job = study.job(0)
    thread = Thread(target=run_programs, args=(job, StopFlag()))
    thread.start()
    until(lambda: len(study.curve(0)) >= 2)
    (process,) = [own for own in psutil.process_iter(["cmdline"]) if _is_of(own, study)]
    process.terminate()
    thread.join(30)
    assert not thread.is_alive()
    result = study.result(0)
    assert (result.status, result.kind) == ("failed", LOST)
    assert "SIGTERM" in result.message


def _is_of(process: psutil.Process, study: Study) -> bool:
    return str(study.files.trial(0).program / "config.json") in (process.info["cmdline"] or [])


def run_until(study: Study, job: JobDir, seen) -> StopFlag:
    """Run a job beside this thread until something is so; return the flag that ends it."""
    flag = StopFlag()
    thread = Thread(target=run_programs, args=(job, flag))
    thread.start()
    try:
        until(seen)
    finally:
        flag.is_set = True
        thread.join()
    return flag


@pytest.mark.parametrize("ends", ["well", "deaf"])
def test_an_interrupted_program_goes_on_as_if_it_had_not_been(study, ends):
    study.add(0, steps=150, parameters={"rate": 0.5, "seconds": 0.02, "ends": ends})
    job = study.job(0)
    run_until(study, job, lambda: len(study.curve(0)) >= 3)
    result = study.result(0)
    assert result.status == "interrupted"
    assert 3 <= result.step < 150
    study.run(0, attempt=2)
    assert study.result(0, attempt=2).status == "finished"
    assert study.curve(0) == {step: 0.5 * step for step in range(1, 151)}
    words = study.files.trial(0).output.read_text().splitlines()
    assert int(words[1].split()[3]) >= result.step
    start = study.files.trial(0).attempt(2).start.required()
    assert start.step >= result.step


def test_a_trial_that_its_driver_stops_is_ended(study):
    study.add(0, steps=1000, parameters={"rate": 0.5, "seconds": 0.05})
    study.add(1)
    job = study.job(0, 1)
    thread = Thread(target=run_programs, args=(job, StopFlag()))
    thread.start()
    until(lambda: len(study.curve(0)) >= 2)
    study.files.trial(0).control.write(Control("t0-1", stop="pruned"))
    thread.join(30)
    assert not thread.is_alive()
    assert study.result(0).status == "pruned"
    assert study.result(1).status == "finished"


def test_programs_that_their_driver_stops_are_all_asked_before_one_is_waited_for(
    study, monkeypatch
):
    """One after another they took so long together that the job seemed to be silent."""
    calls = []
    for name in ("ask_to_stop", "stop"):
        original = getattr(ProgramRun, name)

        def noted(run, name=name, original=original):
            calls.append(name)
            original(run)

        monkeypatch.setattr(ProgramRun, name, noted)
    for number in range(2):
        study.add(number, steps=1000, parameters={"rate": 0.5, "seconds": 0.05})
    job = study.job(0, 1)

    class Pruning(StopFlag):
        """Lets the driver stop both programs between two looks, once both have begun."""

        def rest(self, seconds):
            if all(study.curve(number) for number in range(2)):
                for number in range(2):
                    control = study.files.trial(number).control
                    control.write(Control(f"t{number}-1", stop="pruned"))
            super().rest(seconds)

    run_programs(job, Pruning())
    assert calls == ["ask_to_stop", "ask_to_stop", "stop", "stop"]
    assert [study.result(number).status for number in range(2)] == ["pruned"] * 2


def test_an_attempt_that_was_replaced_is_killed_at_once_and_writes_no_result(study):
    endless = {"rate": 0.5, "seconds": 0.05, "ends": "deaf"}
    study.add(0, steps=1000, parameters=endless, stop_seconds=300.0)
    job = study.job(0)
    thread = Thread(target=run_programs, args=(job, StopFlag()))
    thread.start()
    until(lambda: len(study.curve(0)) >= 2)
    study.files.trial(0).control.write(Control("another", stop=None))
    thread.join(30)
    assert not thread.is_alive()
    assert study.files.trial(0).attempt(1).read_result() is None


def test_a_program_that_is_silent_for_too_long_is_ended_as_hung(study):
    endless = {"rate": 0.5, "seconds": 0.05, "ends": "silent"}
    study.add(0, steps=10**6, parameters=endless, hang_timeout=0.5)
    study.add(1, hang_timeout=20.0)
    study.run(0, 1)
    result = study.result(0)
    assert (result.status, result.kind) == ("failed", HUNG)
    assert "hang_timeout is 0.5" in result.message
    assert study.result(1).status == "finished"


def test_a_child_goes_on_from_its_parents_folder_with_its_own_rate(study):
    study.add(0)
    study.run(0)
    place = "trials/0/checkpoints/step-000000004"
    study.add(1, Parent(0, place), steps=6, parameters={"rate": 100.0})
    study.run(1)
    assert study.curve(1) == {5: 102.0, 6: 202.0}
    assert study.result(1).step == 6
    birth = study.files.trial(1).birth.required()
    assert (birth.operator, birth.adopted) == ("clone", True)
    parents = checkpoint.parents_below(study.files.trial(1).checkpoints)
    assert parents == (checkpoint.identity(study.files.checkpoint(place)),)


def test_a_line_of_the_parent_is_none_of_the_child(study):
    study.add(0)
    study.run(0)
    place = study.files.checkpoint("trials/0/checkpoints/step-000000004")
    study.add(1, Parent(0, "trials/0/checkpoints/step-000000004"), command=["true", "{config}"])
    with (place / "program/metrics.jsonl").open("a") as file:
        print('{"step": 5, "walked": 99.0}', file=file)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["program/metrics.jsonl"] = sha256_of(place / "program/metrics.jsonl")
    (place / "manifest.json").write_text(json.dumps(manifest))
    study.run(1)
    assert study.result(1).status == "failed"
    assert study.curve(1) == {}


def test_a_result_that_a_kill_kept_from_being_written_follows_from_the_checkpoint(study):
    study.add(0)
    study.run(0)
    before = study.result(0)
    (study.files.trial(0).attempt(1).root / "result.json").unlink()
    study.run(0, attempt=2)
    result = study.result(0, attempt=2)
    assert (result.status, result.step, result.metrics) == ("finished", 4, before.metrics)
    assert study.files.trial(0).output.read_text().count("goes on") == 1, "it did not run again"


def test_a_pilot_takes_more_programs_and_leaves_when_it_is_told_to(study):
    for number in range(3):
        study.add(number)
    job = study.job(0, pilot=60.0)
    thread = Thread(target=run_programs, args=(job, StopFlag()))
    thread.start()
    until(lambda: study.files.trial(0).attempt(1).read_result() is not None)
    more = tuple(Assignment(number, 1, f"t{number}-1") for number in (1, 2))
    for own in more:
        study.files.trial(own.trial).control.write(Control(own.token, stop=None))
    job.write_next(1, more)
    job.write_next(2)
    thread.join(30)
    assert not thread.is_alive()
    assert [study.result(number).status for number in range(3)] == ["finished"] * 3


def test_a_program_dies_with_its_job(study):
    study.add(0, steps=10**6, parameters={"rate": 0.5, "seconds": 0.01})
    job = study.job(0)
    words = (
        "import sys; from pathlib import Path; from hpsearch.cluster.failures import StopFlag; "
        "from hpsearch.cluster.program_job import run_programs; "
        "from hpsearch.cluster.study_dir import JobDir; "
        "run_programs(JobDir(Path(sys.argv[1])), StopFlag())"
    )
    process = subprocess.Popen([sys.executable, "-c", words, str(job.root)])
    try:
        until(lambda: len(study.curve(0)) >= 2)
    finally:
        process.kill()
        process.wait()
    metrics = study.files.trial(0).program / "metrics.jsonl"

    def is_quiet() -> bool:
        size = metrics.stat().st_size
        time.sleep(0.3)
        return metrics.stat().st_size == size

    until(is_quiet, 10)


def test_a_program_and_what_it_starts_are_ended_together(study):
    line, sleep = """echo '{"step": 1, "walked": 0}'""", "sleep 1000 & echo $!"
    script = f'{line} > "$1/metrics.jsonl"; {sleep} > "$1/pid"; wait'
    study.add(0, command=["sh", "-c", script, "sh", "{folder}"])
    job = study.job(0)
    pid = study.files.trial(0).program / "pid"
    run_until(study, job, lambda: pid.exists() and len(study.curve(0)) == 1)
    number = int(pid.read_text())

    def is_gone() -> bool:
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{number}/stat").read_text().split()[2] == "Z"

    until(is_gone, 10)
