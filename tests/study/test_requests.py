"""What users ask of a running study: pause, resume, stop, cancel, retry, enqueue."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from drives import (
    Clock,
    Killed,
    check_books,
    deaths_before,
    drive,
    faults,
    new_study,
    opened,
    stored_events,
    stored_trials,
    tick_until,
)
from fakes import FakeExecutor, Fault

from hpsearch.api.steering import read_settings
from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter, Parameter
from hpsearch.study import requests
from hpsearch.study.driver import Driver
from hpsearch.study.opening import open_driver
from hpsearch.study.options import ListedOptions, RandomOptions
from hpsearch.study.requests import Request, Verb
from hpsearch.study.spec import Study
from hpsearch.study.spec_checks import enqueue_problems, example_setting

TWO_JOBS = {"name": "local", "jobs": 2, "members_per_job": 1}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return new_study(tmp_path, budget={"trials": 6}, executor=TWO_JOBS)


@contextmanager
def opened_again(study: Study, executor: FakeExecutor) -> Iterator[Driver]:
    """Give a driver as a submitted one begins: it leaves a paused study paused."""
    runs = study.path.parent / "runs"
    with open_driver(study, runs, executor, on_event=lambda event: None, clock=Clock()) as driver:
        driver.start(resume=False)
        yield driver


def folder(study: Study) -> StudyDir:
    return StudyDir(study.path.parent / "runs" / study.spec.name)


def request(study: Study, verb: Verb, *trials: int) -> None:
    requests.leave(folder(study), Request(verb, trials))


def test_pause_starts_nothing_new_until_resume(study: Study) -> None:
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(executor.live()))
        request(study, "pause")
        state = tick_until(driver, lambda: not driver.is_busy)
        assert state.status == "paused"
        assert state.counts() == {
            "finished": 2, "running": 0, "waiting": 0, "pruned": 0, "failed": 0,
        }  # fmt: skip
    with opened(study, executor) as driver:  # to open it for driving resumes it
        assert driver.state.status == "running"
        request(study, "pause")
        driver.tick()
        request(study, "resume")
        driver.tick()
        state = tick_until(driver, lambda: not driver.is_busy)
    assert (state.status, state.counts()["finished"]) == ("finished", 6)
    check_books(study, executor)


def test_a_driver_that_is_started_again_leaves_a_paused_study_alone(study: Study) -> None:
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        request(study, "pause")
        driver.tick()
        driver.start(resume=False)
        assert driver.state.status == "paused"
        driver.start()
        assert driver.state.status == "running"


def test_stop_lets_what_has_begun_finish(study: Study) -> None:
    executor = FakeExecutor(faults={(1, 1): Fault("vanish", 8)})
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(executor.live()))
        request(study, "stop")
        state = tick_until(driver, lambda: not driver.is_busy)
    # The second trial lost its job after the request, and went on in another one.
    assert (state.status, state.counts()["finished"], len(state.trials)) == ("stopped", 2, 2)
    assert state.trials[1].attempts == 2
    check_books(study, executor)


def test_cancel_ends_all_at_once(study: Study) -> None:
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(executor.live()) == 2)
        request(study, "cancel")
        state = tick_until(driver, lambda: not driver.is_busy)
    assert state.status == "cancelled"
    assert executor.live() == []
    assert [(t.told, t.failure) for t in state.trials.values()] == [("failed", "cancelled")] * 2
    assert state.num_failures() == 0  # not counted as a failure
    check_books(study, executor)


def test_a_driver_that_dies_while_it_cancels_leaves_no_failures(study: Study) -> None:
    """The jobs end what it stopped, before the next driver sees why it was."""
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(executor.live()) == 2)
        request(study, "cancel")
        with deaths_before("told"), pytest.raises(Killed):
            driver.tick()
    executor.advance()
    with opened_again(study, executor) as driver:
        state = tick_until(driver, lambda: not driver.is_busy)
    assert [(t.told, t.failure) for t in state.trials.values()] == [("failed", "cancelled")] * 2
    assert state.num_failures() == 0
    check_books(study, executor)


@pytest.mark.parametrize("pruner", ["none", "median"])
def test_values_that_come_after_the_end_was_told_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pruner: str
) -> None:
    """The driver dies when Optuna knows of it, and neither the events nor the jobs do."""
    study = new_study(tmp_path, budget={"trials": 6}, executor=TWO_JOBS, pruner={"name": pruner})
    executor = FakeExecutor()

    def die(*_: object) -> None:
        raise Killed

    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(executor.live()) == 2)
        request(study, "cancel")
        with monkeypatch.context() as patch:
            patch.setattr(TrialDir, "end", die)
            with pytest.raises(Killed):
                driver.tick()
    executor.advance()
    with opened_again(study, executor) as driver:
        state = tick_until(driver, lambda: not driver.is_busy)
    assert [(t.told, t.failure) for t in state.trials.values()] == [("failed", "cancelled")] * 2
    check_books(study, executor)


def test_cancelled_trials_can_be_tried_again(study: Study) -> None:
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(executor.live()) == 2)
        request(study, "cancel")
        tick_until(driver, lambda: not driver.is_busy)
        request(study, "retry", 0, 1, 7)  # there is no trial 7
        driver.tick()
        state = tick_until(driver, lambda: not driver.is_busy)
    assert state.status == "finished"
    assert {t.number: t.retry_of for t in state.trials.values() if t.retry_of is not None} == {
        2: 0, 3: 1,
    }  # fmt: skip
    # The budget is of other trials; those that were tried again do not count twice.
    assert state.counts() == {"finished": 6, "running": 0, "waiting": 0, "pruned": 0, "failed": 2}
    stored = stored_trials(study)
    assert [stored[2].params, stored[3].params] == [stored[0].params, stored[1].params]


def test_a_retry_takes_no_configuration_of_a_grid(tmp_path: Path) -> None:
    """Each is tried once, and the one that failed once more."""
    line = {"host.gamma": {"type": "float", "low": 0.1, "high": 0.8, "step": 0.1}}
    sampler, budget = {"name": "grid"}, {"trials": 8}
    study = new_study(tmp_path, space=line, sampler=sampler, budget=budget, executor=TWO_JOBS)
    executor = FakeExecutor(faults={(1, 1): Fault("nan", 8)})
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(driver.state.told("failed")))
        request(study, "retry", 1)
        state = tick_until(driver, lambda: not driver.is_busy)
    asked = [trial.params["host.gamma"] for trial in state.trials.values()]
    (again,) = (n for n, trial in state.trials.items() if trial.retry_of == 1)
    assert again < 8
    assert asked.pop(again) == asked[1]
    assert len(set(asked)) == len(asked) == 8


def test_a_failure_that_is_tried_again_no_longer_counts(tmp_path: Path) -> None:
    study = new_study(tmp_path, budget={"trials": 3}, max_failures=0)
    executor = FakeExecutor(faults={(1, 1): Fault("nan", 8)})
    assert drive(study, executor).status == "failed"
    with opened(study, executor) as driver:
        request(study, "retry", 0, 1, 2)
        driver.tick()
        request(study, "retry", 1)  # once is enough
        state = tick_until(driver, lambda: not driver.is_busy)
    assert state.status == "finished"
    assert [trial.told for trial in state.trials.values()] == [
        "finished", "failed", "finished", "finished",
    ]  # fmt: skip
    assert [event[3]["trials"] for event in stored_events(study, "requested")] == [[1], []]


def test_trials_that_failed_while_no_driver_looked_are_tried_again_too(tmp_path: Path) -> None:
    study = new_study(tmp_path, budget={"trials": 3}, executor=TWO_JOBS, max_failures=0)
    executor = FakeExecutor(faults={(0, 1): Fault("nan", 8), (1, 1): Fault("nan", 8)})
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(executor.live()) == 2)
        jobs = [(folder(study).job(job.name), None) for job in driver.state.live_jobs()]
    while executor.live():
        executor.look(jobs)
    requests.leave(folder(study), Request("retry", kinds=("nan",)))
    with opened(study, executor) as driver:
        state = tick_until(driver, lambda: not driver.is_busy)
    assert state.status == "finished"
    assert [trial.retry_of for trial in state.trials.values()] == [None, None, 0, 1, None]


def test_a_request_is_heard_once_whatever_dies(study: Study) -> None:
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        request(study, "pause")
        (waiting,) = requests.waiting(folder(study))
        driver.tick()
        assert requests.waiting(folder(study)) == []
        requests.leave(folder(study), waiting)  # as if the driver had died before it forgot it
        driver.tick()
    assert len(stored_events(study, "requested")) == 1
    assert requests.waiting(folder(study)) == []


def test_a_request_that_came_while_the_driver_ended_is_heard_by_the_next(study: Study) -> None:
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        request(study, "pause")
        driver.tick()
    request(study, "resume")
    with opened_again(study, executor) as driver:
        assert not driver.is_busy
        assert requests.waiting(folder(study)) != []  # for which a driver stays
        driver.tick()
        assert driver.state.status == "running"


@pytest.mark.parametrize("name", ["another", "../study"])
def test_a_request_under_another_name_is_not_heard(study: Study, name: str) -> None:
    inbox = folder(study).requests
    inbox.mkdir(parents=True)
    (inbox / "x.json").write_text(json.dumps({"verb": "pause", "id": name, "at": 1.0}))
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
        assert driver.state.status == "running"
    assert requests.waiting(folder(study)) == []
    assert folder(study).spec.exists()


def test_a_study_that_stops_without_gpu_hours_ends(tmp_path: Path) -> None:
    study = new_study(
        tmp_path, budget={"trials": 6, "gpu_hours": 1.0}, executor=TWO_JOBS | {"jobs": 1}
    )
    clock = Clock()
    executor = FakeExecutor(gpus_per_job=1.0, faults={(0, 1): Fault("vanish", 8)})
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: bool(executor.live()))
        request(study, "stop")
        for _ in range(20):
            driver.tick()
            clock.now += 3600
    assert driver.state.status == "stopped"


@pytest.mark.parametrize("text", ["", "[]", '{"verb": "explode"}', '{"verb": "pause", "at": "x"}'])
def test_a_file_that_is_no_request_is_not_heard(study: Study, text: str) -> None:
    inbox = folder(study).requests
    inbox.mkdir(parents=True)
    (inbox / "x.json").write_text(text)
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
        assert driver.state.status == "running"


def test_a_request_without_kinds_is_one_that_older_drivers_read(study: Study) -> None:
    request(study, "pause")
    (path,) = folder(study).requests.glob("*.json")
    assert set(json.loads(path.read_text())) == {"verb", "trials", "id", "at"}


def enqueue(study: Study, **params: float) -> Request:
    asked = Request("enqueue", params={f"host.{name}": value for name, value in params.items()})
    requests.leave(folder(study), asked)
    return asked


def test_what_is_enqueued_is_tried_next_and_counts_against_the_budget(study: Study) -> None:
    """The values that a user left out are suggested."""
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 2)
        enqueue(study, gamma=0.77)
        enqueue(study, **{"gamma": 0.66, "optim.args.lr": 0.02})
        state = tick_until(driver, lambda: not driver.is_busy)
    gammas = [trial.params["host.gamma"] for trial in state.trials.values()]
    assert gammas[2:4] == [0.77, 0.66]
    assert state.trials[3].params["host.optim.args.lr"] == 0.02
    assert (state.status, len(state.trials)) == ("finished", 6)
    check_books(study, executor)


def test_what_is_enqueued_is_tried_once_though_the_driver_dies(study: Study, monkeypatch) -> None:
    """It dies when Optuna knows of the trial, no event does, and the request still lies there."""
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 2)
        asked = enqueue(study, gamma=0.77)
        with monkeypatch.context() as patch:
            patch.setattr(driver._recorder, "record", _die)
            with pytest.raises(Killed):
                driver.tick()
    assert requests.waiting(folder(study)) == [asked]
    with opened(study, executor) as driver:
        state = tick_until(driver, lambda: not driver.is_busy)
    assert [trial.params["host.gamma"] for trial in state.trials.values()].count(0.77) == 1
    check_books(study, executor)


def _die(*_: object, **__: object) -> None:
    raise Killed


def test_the_audit_knows_what_is_enqueued_and_has_not_begun(study: Study) -> None:
    with opened(study, FakeExecutor()) as driver:
        enqueue(study, gamma=0.77)
        driver.collect()
        assert faults(study) == []


def test_a_value_of_a_parameter_that_would_not_exist_is_refused() -> None:
    parameters = {
        "kind": CategoricalParameter(("a", "b")),
        "rate": FloatParameter(0.0, 1.0, when={"kind": "b"}),
    }
    problems = partial(enqueue_problems, parameters, RandomOptions("random"), is_population=False)
    assert problems({"kind": "b", "rate": 0.5}) == []
    for params in ({"rate": 0.5}, {"kind": "a", "rate": 0.5}):
        assert problems(params) == ["rate exists only with kind: 'b', which must be given too"]
    listed = ListedOptions("listed", ({"kind": "a"},))
    (problem,) = enqueue_problems(parameters, listed, {"kind": "a"}, is_population=False)
    assert problem == "the sampler listed has a configuration for each trial"


@pytest.mark.parametrize(
    "parameters",
    [
        {"lr": FloatParameter(1e-5, 1.0)},
        {"width": IntParameter(2, 9)},
        {
            "rate": FloatParameter(0.0, 1.0, when={"kind": "b"}),
            "kind": CategoricalParameter(("b",)),
        },
        {"net_arch": CategoricalParameter(([64, 64], [128]))},
    ],
    ids=lambda parameters: [*parameters][-1],
)
def test_the_example_of_a_setting_can_be_enqueued(parameters: dict[str, Parameter]) -> None:
    params = read_settings(example_setting(parameters).split())  # as the dashboard does
    assert [*params] == [[*parameters][-1]]
    sampler = RandomOptions("random")
    assert enqueue_problems(parameters, sampler, params, is_population=False) == []


def test_what_does_not_fit_the_space_is_noted_and_not_tried(study: Study) -> None:
    executor = FakeExecutor()
    with opened(study, executor) as driver:
        enqueue(study, gamma=7.0)
        enqueue(study, no_such_key=1.0)
        state = tick_until(driver, lambda: not driver.is_busy)
    assert (state.status, len(state.trials)) == ("finished", 6)
    assert all(0.5 <= trial.params["host.gamma"] <= 0.99 for trial in state.trials.values())
    check_books(study, executor)
