"""Optuna's own contract for storages, held by the mirrored one, and the mirror against SQL."""

import copy
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.storages._rdb.models import BaseModel, VersionInfoModel
from optuna.study import StudyDirection
from optuna.testing.pytest_storages import StorageTestCase
from optuna.trial import FrozenTrial, TrialState
from servers import plain_trials
from sqlalchemy import Engine

from hpsearch.errors import StorageError, StorageUnavailableError
from hpsearch.study import storage as storage_module
from hpsearch.study.storage import MirroredStorage, open_storage

TESTS_OF_MICROSECONDS = (
    "test_create_new_trial",
    "test_create_new_trial_with_template_trial",
    "test_get_trial",
    "test_get_all_trials",
)


@pytest.fixture(
    params=["sqlite", *(pytest.param(s, marks=pytest.mark.slow) for s in ("postgresql", "mysql"))]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database; that of a server is shared, and emptied by `storage`."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/studies.db"
    if request.param == "mysql" and request.node.originalname in TESTS_OF_MICROSECONDS:
        reason = "Optuna's tables on MySQL keep whole seconds"
        request.applymarker(pytest.mark.xfail(reason=reason, raises=AssertionError))
    shared: str = request.getfixturevalue(f"{request.param}_url")
    return shared


@pytest.fixture
def storage(url: str) -> Iterator[MirroredStorage]:
    opened = open_storage(url)
    if not url.startswith("sqlite"):
        empty_tables(opened._backend.engine)
    yield opened
    opened.close()


def empty_tables(engine: Engine) -> None:
    """Delete what earlier tests left, at once instead of study by study."""
    with engine.begin() as connection:
        for table in reversed(BaseModel.metadata.sorted_tables):
            if table.name != VersionInfoModel.__tablename__:
                connection.execute(table.delete())


class TestContract(StorageTestCase):
    def test_pickle_storage(self, storage: MirroredStorage) -> None:
        """A copy would be a second writer, whose changes the mirror does not see."""
        with pytest.raises(TypeError, match="pickle"):
            super().test_pickle_storage(storage)


def test_every_other_test_of_the_contract_runs_as_optuna_wrote_it() -> None:
    changed = [name for name in vars(TestContract) if name.startswith("test_")]
    assert changed == ["test_pickle_storage"]


DISTRIBUTIONS = {
    "lr": FloatDistribution(1e-5, 1e-1, log=True),
    "width": IntDistribution(8, 64, step=8),
    "kind": CategoricalDistribution(("a", 1, None, True)),
}
STATES = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def write_something(storage: MirroredStorage, study_id: int, rng: random.Random) -> None:
    """Do one random write, or ask for the trials as a sampler would."""
    trials = storage.get_all_trials(study_id, deepcopy=False)
    running = [trial._trial_id for trial in trials if trial.state == TrialState.RUNNING]
    waiting = [trial._trial_id for trial in trials if trial.state == TrialState.WAITING]
    match rng.randrange(8):
        case 0:
            storage.create_new_trial(study_id)
        case 1:
            state = rng.choice((TrialState.WAITING, TrialState.RUNNING))
            template = optuna.create_trial(state=state, system_attrs={"fixed": [1, {"x": 2.5}]})
            storage.create_new_trial(study_id, template)
        case 2 if waiting:
            storage.set_trial_state_values(rng.choice(waiting), TrialState.RUNNING)
        case 3 if running:
            state = rng.choice(STATES)
            values = [rng.uniform(-1, 1)] if state == TrialState.COMPLETE else None
            storage.set_trial_state_values(rng.choice(running), state, values)
        case 4 if running:
            trial_id, name = rng.choice(running), rng.choice(list(DISTRIBUTIONS))
            if name not in storage.get_trial(trial_id).params:
                value = optuna.samplers.RandomSampler(rng.randrange(99)).sample_independent(
                    None, None, name, DISTRIBUTIONS[name]
                )
                internal = DISTRIBUTIONS[name].to_internal_repr(value)
                storage.set_trial_param(trial_id, name, internal, DISTRIBUTIONS[name])
        case 5 if running:
            value = rng.choice((rng.random(), float("inf"), float("-inf")))
            storage.set_trial_intermediate_value(rng.choice(running), rng.randrange(5), value)
        case 6 if running:
            storage.set_trial_user_attr(rng.choice(running), f"k{rng.randrange(3)}", (1, "two"))
        case 7 if running:
            storage.set_trial_system_attr(rng.choice(running), f"k{rng.randrange(3)}", {"a": None})


@pytest.mark.parametrize("seed", range(3))
def test_mirror_equals_database_after_random_writes(
    storage: MirroredStorage, url: str, seed: int
) -> None:
    rng = random.Random(seed)
    directions = [StudyDirection.MAXIMIZE]
    studies = [storage.create_new_study(directions, f"study {index}") for index in range(2)]
    for _ in range(150):
        write_something(storage, rng.choice(studies), rng)

    for study_id in studies:
        mirrored = storage.get_all_trials(study_id)
        assert mirrored == plain_trials(url, study_id)
        assert [storage.get_trial(trial._trial_id) for trial in mirrored] == mirrored


def test_asking_reads_no_trial_from_the_database(
    storage: MirroredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = optuna.create_study(storage=storage)
    for _ in range(20):
        study.ask()
    reads = []
    monkeypatch.setattr(storage_module, "read_trials", lambda *_, **__: reads.append("all") or [])
    study.ask()
    assert len(study.get_trials(deepcopy=False)) == 21
    assert reads == []


def test_trial_that_arrived_although_its_creation_failed_is_seen(
    storage: MirroredStorage,
) -> None:
    study_id = storage.create_new_study([StudyDirection.MINIMIZE])
    storage.get_all_trials(study_id)
    storage._backend.create_new_trial(study_id)  # as when the answer of the server is lost
    storage.create_new_trial(study_id)
    assert [trial.number for trial in storage.get_all_trials(study_id)] == [0, 1]


def test_result_that_arrived_although_telling_failed_is_told_once(
    storage: MirroredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    real = storage._backend.set_trial_state_values

    def lose_connection(*args: object) -> bool:
        real(*args)  # type: ignore[arg-type]
        monkeypatch.setattr(storage._backend, "set_trial_state_values", real)
        raise optuna.exceptions.StorageInternalError from lost_connection()

    monkeypatch.setattr(storage._backend, "set_trial_state_values", lose_connection)
    study.tell(trial, 0.25)
    assert study.best_value == 0.25
    with pytest.raises(ValueError, match="Cannot tell a COMPLETE trial"):
        study.tell(trial, 0.5)


class Loss:
    """Loses the connection after each method of the backend has done its work, the first time."""

    def __init__(self, backend: RDBStorage) -> None:
        self._backend = backend
        self.lost: list[str] = []

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._backend, name)

        def method(*arguments: Any, **options: Any) -> Any:
            result = real(*arguments, **options)
            if name not in self.lost:
                self.lost.append(name)
                raise optuna.exceptions.StorageInternalError from lost_connection()
            return result

        return method if callable(real) and not name.startswith("remove") else real


def test_every_write_that_arrived_although_it_failed_is_there_once(
    storage: MirroredStorage, url: str
) -> None:
    study_id = storage.create_new_study([StudyDirection.MINIMIZE])
    waiting = storage.create_new_trial(study_id, optuna.create_trial(state=TrialState.WAITING))
    loss = Loss(storage._backend)
    storage._backend = loss  # type: ignore[assignment]
    trial = storage.create_new_trial(study_id)
    storage.set_trial_param(trial, "lr", 0.01, DISTRIBUTIONS["lr"])
    storage.set_trial_intermediate_value(trial, 1, 0.5)
    storage.set_trial_user_attr(trial, "user", 1)
    storage.set_trial_system_attr(trial, "system", 2)
    assert storage.set_trial_state_values(trial, TrialState.COMPLETE, [0.25])
    loss.lost.remove("set_trial_state_values")
    assert storage.set_trial_state_values(waiting, TrialState.RUNNING)
    storage._backend = loss._backend

    assert {name for name in vars(RDBStorage) if name in loss.lost} >= {
        *("create_new_trial", "set_trial_param", "set_trial_intermediate_value", "get_trial"),
        *("set_trial_user_attr", "set_trial_system_attr", "set_trial_state_values"),
    }
    trials = storage.get_all_trials(study_id)
    assert trials == plain_trials(url, study_id)
    assert [kept.state for kept in trials] == [TrialState.RUNNING, TrialState.COMPLETE]
    assert (trials[1].params, trials[1].intermediate_values) == ({"lr": 0.01}, {1: 0.5})
    assert (trials[1].user_attrs, trials[1].system_attrs) == ({"user": 1}, {"system": 2})
    assert trials[1].values == [0.25]


@pytest.mark.parametrize("name", ["insert_trials", "write_changes"])
def test_trials_written_together_that_arrived_although_it_failed_are_there_once(
    storage: MirroredStorage, url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    study_id = storage.create_new_study([StudyDirection.MINIMIZE])
    storage.write_behind()
    write, calls = getattr(storage_module, name), []

    def lose_the_first_answer(*given: Any, **named: Any) -> Any:
        written = write(*given, **named)
        calls.append(named)
        if len(calls) == 1:
            raise optuna.exceptions.StorageInternalError from lost_connection()
        return written

    monkeypatch.setattr(storage_module, name, lose_the_first_answer)
    trials = [storage.create_new_trial(study_id) for _ in range(3)]
    for trial in trials:
        storage.set_trial_param(trial, "lr", 0.01, DISTRIBUTIONS["lr"])
    storage.keep(study_id)
    written = [trial._trial_id for trial in storage.get_all_trials(study_id)]
    with storage.together(study_id):
        storage.set_trial_user_attr(written[0], "user", 1)
        storage.set_trial_intermediate_value(written[1], 1, 0.5)
        storage.set_trial_state_values(written[1], TrialState.COMPLETE, [0.25])
    # New trials are looked up, what they report and end with is written again.
    assert len(calls) == (1 if name == "insert_trials" else 2)
    own = storage.get_all_trials(study_id)
    assert [without_fractions(trial) for trial in own] == [
        without_fractions(trial) for trial in plain_trials(url, study_id)
    ]
    assert [trial.number for trial in own] == [0, 1, 2]
    assert (own[0].user_attrs, own[1].values) == ({"user": 1}, [0.25])


def without_fractions(trial: FrozenTrial) -> FrozenTrial:
    """Return a trial with whole seconds, as MySQL keeps them; nothing is decided by the rest."""
    other = copy.copy(trial)
    other.datetime_start = _whole(trial.datetime_start)
    other.datetime_complete = _whole(trial.datetime_complete)
    return other


def _whole(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(microsecond=0)


def test_trials_are_read_anew_after_the_database_was_away(
    storage: MirroredStorage, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id = storage.create_new_study([StudyDirection.MINIMIZE])
    trial = storage.create_new_trial(study_id)
    write = storage._backend.set_trial_user_attr

    def lose_answer(*arguments: Any) -> None:
        write(*arguments)
        raise StorageUnavailableError("away")

    monkeypatch.setattr(storage._backend, "set_trial_user_attr", lose_answer)
    with pytest.raises(StorageUnavailableError):
        storage.set_trial_user_attr(trial, "user", 1)
    assert storage.get_all_trials(study_id) == plain_trials(url, study_id)
    assert storage.get_trial(trial).user_attrs == {"user": 1}


def lost_connection() -> Exception:
    from sqlalchemy.exc import OperationalError

    return OperationalError("", {}, Exception("gone"), connection_invalidated=True)


def test_plain_optuna_and_its_command_read_the_study(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/deep/down/studies.db"
    storage = open_storage(url)
    study = optuna.create_study(storage=storage, study_name="ours", direction="maximize")
    trial = study.ask({"lr": DISTRIBUTIONS["lr"]})
    study.tell(trial, 0.75)
    storage.close()

    loaded = optuna.load_study(study_name="ours", storage=url)
    assert loaded.best_params == trial.params
    loaded._storage._backend.engine.dispose()
    command = [str(Path(sys.executable).with_name("optuna")), "--storage", url]
    command += ["best-trial", "--study-name", "ours", "-f", "json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "0.75" in printed.stdout


def test_braces_in_a_url_are_taken_as_they_are(tmp_path: Path) -> None:
    storage = open_storage(f"sqlite:///{tmp_path}/{{SCHEMA_VERSION}}.db")
    storage.close()
    assert [path.name for path in tmp_path.iterdir()] == ["{SCHEMA_VERSION}.db"]


def test_tables_of_another_optuna_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/studies.db"
    storage = open_storage(url)
    with storage._backend.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v9.9.9'")
    storage.close()
    with pytest.raises(StorageError, match="another version of Optuna"):
        open_storage(url)
