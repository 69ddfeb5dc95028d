"""What every executor promises: that jobs run, are found, looked up, interrupted and cancelled.

Each promise takes an executor, an empty folder that its jobs see, and the plain configuration of a
trainer of a tiny game: of some hundred steps a second, with ``host`` against a scripted player. A
job is what `cluster.job_entry` trains; what it writes says whether it ran as it was to.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hpsearch import yaml_file
from hpsearch.cluster.executor import Executor
from hpsearch.cluster.records import Assignment, AttemptResult, Control, Fresh, JobPlan, Lineage
from hpsearch.cluster.study_dir import JobDir, StudyDir, TrialDir
from hpsearch.schema import Config, apply

PATIENCE_SECONDS: Final = 240
FIRST_PAUSE: Final = 0.02  # seconds between the first two looks
LONGEST_PAUSE: Final = 0.3  # between later ones, each a fifth longer than the one before
ENDLESS: Final = 10**9  # steps


def write_job(study: StudyDir, name: str, attempt: int, configs: dict[int, Config]) -> JobDir:
    """Write what the driver writes before it submits: trials by number, and a job of them."""
    for number, config in configs.items():
        control = Control(f"token-{number}-{attempt}", None)
        study.trial(number).create(yaml_file.dump(config), Lineage(Fresh(), 0), control=control)
    job = study.job(name)
    assignments = tuple(Assignment(n, attempt, f"token-{n}-{attempt}") for n in configs)
    job.plan.write(JobPlan(assignments, num_threads=1, pilot_seconds=0.0, refills=False))
    return job


def wait_until(executor: Executor, job: JobDir, job_id: str, condition: Callable[[], Any]) -> None:
    """Look at a job again and again until something is the case."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    pause = FIRST_PAUSE
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {job.name}"
        executor.look([(job, job_id)])
        time.sleep(pause)
        pause = min(1.2 * pause, LONGEST_PAUSE)


def phase(executor: Executor, job: JobDir, job_id: str | None) -> str | None:
    status = executor.look([(job, job_id)]).get(job.name)
    return None if status is None else status.phase


def wait_for_phase(executor: Executor, job: JobDir, job_id: str, expected: str) -> None:
    wait_until(executor, job, job_id, lambda: phase(executor, job, job_id) == expected)


def wait_for_end(executor: Executor, job: JobDir, job_id: str) -> None:
    wait_for_phase(executor, job, job_id, "ended")


def found_id(executor: Executor, job: JobDir) -> str | None:
    """Return the id of a job of which it is unknown whether it was submitted."""
    status = executor.look([(job, None)]).get(job.name)
    return None if status is None else status.id


WHOLE, PRUNED, FENCED, BROKEN = range(4)
"""trials of a job: one that finishes, one that the driver stops, one whose attempt is replaced, and
one whose configuration cannot be read"""


def a_job_runs_to_its_end(executor: Executor, folder: Path, config: Config) -> None:
    """Promise that a job is found once it was submitted, lives until it ends, and says what it did.

    A job that has ended is left alone by whatever is asked of it then.
    """
    study = StudyDir(folder)
    configs = {number: apply(config, {"seed": number}) for number in range(4)}
    configs[PRUNED]["steps"] = configs[FENCED]["steps"] = ENDLESS
    configs[BROKEN] = {key: value for key, value in configs[BROKEN].items() if key != "host"}
    job, absent = write_job(study, "00001", 1, configs), study.job("00002")
    assert found_id(executor, job) is None, "a job that was not submitted is not found"
    job_id = executor.submit([job])[job.name]
    wait_until(executor, job, job_id, lambda: found_id(executor, job) == job_id)  # by its name
    assert phase(executor, job, job_id) in ("queued", "running"), "a job lives until it ends"
    pruned = study.trial(PRUNED)
    wait_until(executor, job, job_id, lambda: list(pruned.read_metrics()))
    pruned.control.write(Control(f"token-{PRUNED}-1", "pruned"))
    study.trial(FENCED).control.write(Control("token-of-a-later-attempt", None))
    wait_for_end(executor, job, job_id)
    assert found_id(executor, job) == job_id, "a job that has ended is found too"
    assert found_id(executor, absent) is None, "another job is not found"
    assert executor.look([]) == {}, "nothing is known of no job"
    for ask in (executor.interrupt, executor.cancel):
        ask([(job, job_id)])
        ask([])
    assert job.heartbeat.try_read() is not None, "the job saw its folder"
    _check_finished(study.trial(WHOLE), config)
    stopped, broken = _result(study.trial(PRUNED), 1), _result(study.trial(BROKEN), 1)
    assert (stopped.status, stopped.kind, stopped.metrics) == ("pruned", None, {})
    assert study.trial(FENCED).attempt(1).read_result() is None, "a replaced attempt says nothing"
    assert (broken.status, broken.kind, broken.step) == ("failed", "code", 0)
    assert "host" in broken.message, broken.message
    assert not list(study.trial(BROKEN).read_metrics())


def _check_finished(trial: TrialDir, config: Config) -> None:
    result, interval = _result(trial, 1), config["evaluation"]["interval"]
    steps = config["steps"]
    assert (result.token, result.status, result.step) == (f"token-{WHOLE}-1", "finished", steps)
    assert (result.kind, result.message) == (None, "")
    assert result.metrics, "the players were measured"
    rows = list(trial.read_metrics())
    assert [row["step"] for row in rows] == [*range(interval, steps + 1, interval)]
    for row in rows:
        assert set(row) == {"step", "attempt", "at", "metrics", "entropies"}
        assert row["attempt"] == 1
        assert set(row["metrics"]) == set(result.metrics)
    for measure in result.metrics.values():
        assert set(measure) == {"value", "low", "high", "capped", "games"}
        assert measure["low"] <= measure["value"] <= measure["high"]


def _result(trial: TrialDir, attempt: int) -> AttemptResult:
    result = trial.attempt(attempt).read_result()
    assert result is not None, f"attempt {attempt} in {trial.root} left no result"
    return result


LONG: Final = {"evaluation.interval": 50, "checkpoint.interval": 500}


def an_interrupted_trial_goes_on_where_it_was(
    executor: Executor, folder: Path, config: Config
) -> None:
    """Promise that a job that is asked to leave saves its trials, for another job to go on."""
    configs = dict.fromkeys((0, 1), apply(config, {**LONG, "steps": ENDLESS}))
    job = write_job(StudyDir(folder), "00001", 1, configs)
    trials = [job.study.trial(number) for number in configs]
    job_id = executor.submit([job])[job.name]
    wait_until(executor, job, job_id, lambda: list(trials[1].read_metrics()))
    executor.interrupt([(job, job_id)])
    wait_for_end(executor, job, job_id)
    results = [_result(trial, 1) for trial in trials]
    step = results[0].step
    assert step >= 50
    last = step - step % 50 + 100
    configs = dict.fromkeys((0, 1), apply(config, {**LONG, "steps": last}))
    for result in results:
        left = (result.status, result.step, result.kind, result.metrics)
        assert left == ("interrupted", step, None, {})
    again = write_job(job.study, "00002", 2, configs)
    again_id = executor.submit([again])[again.name]
    assert again_id != job_id, "another job has another id"
    wait_for_end(executor, again, again_id)
    for trial in trials:
        assert (_result(trial, 2).status, _result(trial, 2).step) == ("finished", last)
        rows = [(row["step"], row["attempt"]) for row in trial.read_metrics()]
        expected = [(at, 1 if at <= step else 2) for at in range(50, last + 1, 50)]
        assert rows == expected, "the second attempt measures what the first did not, nothing twice"


def a_cancelled_job_ends(executor: Executor, folder: Path, config: Config) -> None:
    endless = apply(config, {**LONG, "steps": ENDLESS})
    job = write_job(StudyDir(folder), "00001", 1, {0: endless})
    job_id = executor.submit([job])[job.name]
    trial = job.study.trial(0)
    wait_until(executor, job, job_id, lambda: list(trial.read_metrics()))
    executor.cancel([(job, job_id)])
    wait_for_end(executor, job, job_id)
    assert job.study.heartbeat(0, 1) is not None


Promise = Callable[[Executor, Path, Config], None]
PROMISES: Final[tuple[Promise, ...]] = (
    a_job_runs_to_its_end,
    an_interrupted_trial_goes_on_where_it_was,
    a_cancelled_job_ends,
)
