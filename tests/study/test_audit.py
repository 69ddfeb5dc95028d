"""What `hpsearch audit` says of studies over a fake executor: nothing, until they are changed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from drives import (
    METRIC,
    Clock,
    Killed,
    deaths_at_all_events,
    faults,
    keep_engines,
    new_study,
    opened,
    query,
    tick_until,
    trial_folder,
    trust_tables,
    url_of,
)
from fakes import FakeExecutor, Fault
from sqlalchemy.pool import NullPool
from test_islands import island_study
from test_population_study import teaching
from tried import tried

from hpsearch.audit.auditing import NOT_SEARCHED
from hpsearch.study.spec import Study
from hpsearch.study.state import RUNNING
from hpsearch.study.stored_spec import NOT_PART_OF_THE_SEARCH

MAX_LIVES = 1000
FAULTS = {(0, 1): Fault("zombie", 4), (1, 1): Fault("vanish", 8), (2, 1): Fault("nan", 8)}
HALVING = {"name": "successive_halving", "min_resource": 4, "reduction_factor": 2}
CLOSING = {"operators": [{"name": "gaussian_mutation", "strength": 0.1}], "generations": 1}


def drive_and_look(study: Study, executor: FakeExecutor) -> int:
    """Drive a study to its end, looking at it after every death; return how many there were."""
    with deaths_at_all_events() as died, pytest.MonkeyPatch.context() as patch:
        keep_engines(patch)
        for _ in range(MAX_LIVES):
            try:
                with opened(study, executor) as driver:
                    tick_until(driver, lambda: driver.state.status != RUNNING)
                    break
            except Killed:
                trust_tables(patch)
                assert faults(study) == [], died[-1]
    assert faults(study) == []
    return len(died)


def plain_study(folder: Path, **changes: Any) -> Study:
    given = {"pruner": HALVING, "max_failures": 5, "budget": {"trials": 6}}
    return new_study(folder, sampler={"name": "tpe", "n_startup_trials": 3}, **(given | changes))


@pytest.mark.slow
def test_it_finds_nothing_wherever_a_driver_died(tmp_path: Path) -> None:
    study = plain_study(tmp_path)
    assert drive_and_look(study, FakeExecutor(faults=FAULTS)) > 50


@pytest.mark.parametrize("pilot_seconds", tried([0.0, 10.0], slow=[0.0]))
def test_it_finds_nothing_wherever_the_driver_of_a_population_died(
    tmp_path: Path, pilot_seconds: float
) -> None:
    study = island_study(tmp_path, trials=12, closing=CLOSING)
    executor = FakeExecutor(teaching=teaching, pilot_seconds=pilot_seconds)
    assert drive_and_look(study, executor) > 50


def test_trials_that_an_ended_study_leaves_to_resume_are_no_fault(tmp_path: Path) -> None:
    executor = {"name": "local", "jobs": 2, "members_per_job": 2}
    study = plain_study(tmp_path / "failed", max_failures=0, executor=executor)
    with opened(study, FakeExecutor(faults={(0, 1): Fault("nan", 8)})) as driver:
        tick_until(driver, lambda: driver.state.status == "failed")
        assert any(trial.told is None for trial in driver.state.trials.values())
    assert faults(study) == []

    study = plain_study(tmp_path / "spent", budget={"trials": 9, "gpu_hours": 1.0})
    clock, lost = Clock(), {(0, 1): Fault("vanish", 8)}
    with opened(study, FakeExecutor(faults=lost, gpus_per_job=1.0), clock) as driver:
        while driver.is_busy:
            driver.tick()
            clock.now += 3600
        assert driver.state.status == "finished"
        assert driver.state.trials[0].told is None
    assert faults(study) == []


def driven(study: Study, executor: FakeExecutor) -> Study:
    with opened(study, executor) as driver:
        tick_until(driver, lambda: driver.state.status != RUNNING)
    assert faults(study) == []
    return study


def change(study: Study, *statements: str) -> None:
    """Change rows of the study's database."""
    engine = sqlalchemy.create_engine(url_of(study), poolclass=NullPool)
    with engine.begin() as connection:
        for statement in statements:
            assert connection.exec_driver_sql(statement).rowcount > 0, statement


def fault_places(study: Study) -> set[tuple[str, int | None]]:
    return {(fault.check, fault.trial) for fault in faults(study)}


def test_the_word_of_an_attempt_that_was_replaced_is_not_told(tmp_path: Path) -> None:
    study = driven(plain_study(tmp_path), FakeExecutor(faults=FAULTS))
    folder = trial_folder(study, 0)
    late = json.loads((folder / "attempt-1/result.json").read_text())["metrics"]
    told = json.loads((folder / "result.json").read_text())
    told |= {"metrics": late, "value": late[METRIC]["value"]}
    (folder / "result.json").write_text(json.dumps(told))
    own = "trial_id = (SELECT trial_id FROM trials WHERE number = 0)"
    change(
        study,
        f"UPDATE hpsearch_events SET data = '{json.dumps(told)}' WHERE kind = 'told' AND trial = 0",
        f"UPDATE trial_values SET value = {late[METRIC]['value']} WHERE {own}",
        f"UPDATE trial_user_attributes SET value_json = "
        f"'{json.dumps([late[METRIC]['low'], late[METRIC]['high']])}' "
        f"WHERE {own} AND \"key\" = '{METRIC} 95%'",
    )
    assert fault_places(study) == {("told", 0)}
    assert all("attempt-2/result.json" in fault.message for fault in faults(study))


@pytest.fixture(scope="module")
def islands(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = island_study(tmp_path_factory.mktemp("islands"), trials=12, closing=CLOSING)
    return driven(study, FakeExecutor(teaching=teaching))


@pytest.fixture
def restored(islands: Study) -> Iterator[Study]:
    """A population that a test may change in SQL."""
    file = Path(url_of(islands).removeprefix("sqlite:///"))
    before = file.read_bytes()
    yield islands
    file.write_bytes(before)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE hpsearch_parents SET sha256 = 'abc' WHERE checkpoint_id = {id}",
        "UPDATE hpsearch_parents SET position = position + 5 WHERE checkpoint_id = {id}",
        "DELETE FROM hpsearch_parents WHERE checkpoint_id = {id}",
        "UPDATE hpsearch_checkpoints SET changes = '{{}}' WHERE id = {id}",
        "UPDATE hpsearch_checkpoints SET adopted = coalesce(1 - adopted, 1) WHERE id = {id}",
        "UPDATE hpsearch_checkpoints SET step = step + 1 WHERE id = {id}",
        "UPDATE hpsearch_checkpoints SET seed = seed + 1 WHERE id = {id}",
    ],
)
def test_a_change_in_the_graph_of_descent_is_found(restored: Study, statement: str) -> None:
    columns = "SELECT c.id, c.trial FROM hpsearch_checkpoints c JOIN hpsearch_parents p "
    condition = "ON p.checkpoint_id = c.id WHERE c.changes != '{}' ORDER BY p.position DESC"
    node, trial = query(restored, columns + condition)[0]
    change(restored, statement.format(id=node))
    assert ("ancestry", trial) in fault_places(restored)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_it_reads_servers_too(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = request.getfixturevalue(kind).new_database("audited")
    monkeypatch.setenv("HPSEARCH_TEST_STORAGE", url)
    study = driven(
        plain_study(tmp_path, storage="env:HPSEARCH_TEST_STORAGE"), FakeExecutor(faults=FAULTS)
    )
    change(study, "UPDATE trials SET state = 'FAIL' WHERE number = 0")
    assert fault_places(study) == {("told", 0)}


def test_it_knows_which_keys_of_a_study_may_change() -> None:
    assert {*NOT_SEARCHED} == {*NOT_PART_OF_THE_SEARCH}
