"""New trials are written once and whole; what is not read back is as the database has it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event

from hpsearch.errors import StorageUnavailableError
from hpsearch.study.rows import insert_trial
from hpsearch.study.storage import UNWRITTEN, MirroredStorage, open_storage


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[MirroredStorage]:
    with closing(open_storage(f"sqlite:///{tmp_path}/study.db")) as opened:
        opened.write_behind()
        yield opened


@pytest.fixture
def study(storage: MirroredStorage) -> optuna.Study:
    sampler = optuna.samplers.RandomSampler(seed=1)
    return optuna.create_study(storage=storage, sampler=sampler, study_name="s")


def ask(study: optuna.Study, storage: MirroredStorage) -> FrozenTrial:
    """Return a new trial as the database has it."""
    trial = study.ask()
    trial.suggest_float("lr", 1e-4, 1.0, log=True)
    trial.suggest_categorical("net", ["a", "b"])
    study._storage.set_trial_system_attr(trial._trial_id, "drawn", {"lr": [1.5, None]})
    storage.keep(study._study_id)
    return stored(storage)[-1]


def stored(storage: MirroredStorage) -> list[FrozenTrial]:
    """Return the trials as plain Optuna reads them."""
    backend = RDBStorage(storage.url)
    try:
        return backend.get_all_trials(1)
    finally:
        backend.remove_session()
        backend.engine.dispose()


def test_nothing_is_written_before_the_trial_is_whole(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    trial = study.ask()
    trial.suggest_float("lr", 1e-4, 1.0)
    assert (trial.number, trial._trial_id) == (0, UNWRITTEN)
    assert [trial.number for trial in study.trials] == [0]
    assert study.trials[0].params == trial.params
    assert stored(storage) == []
    again = study.ask()  # instead of the one that was given up
    assert (again.number, again.params) == (0, {})


def test_a_kept_trial_is_one_transaction(study: optuna.Study, storage: MirroredStorage) -> None:
    commits: list[Any] = []
    ask(study, storage)

    @event.listens_for(storage._backend.engine, "commit")
    def note(connection: Any) -> None:
        commits.append(connection)

    trial = ask(study, storage)
    assert len(commits) <= 2  # one to write, perhaps one to read back
    assert (trial.number, trial.state) == (1, TrialState.RUNNING)
    assert trial.distributions == {
        "lr": FloatDistribution(1e-4, 1.0, log=True),
        "net": CategoricalDistribution(["a", "b"]),
    }
    assert trial.system_attrs == {"drawn": {"lr": [1.5, None]}}
    storage.keep(study._study_id)  # there is no unwritten trial any more
    assert storage.get_all_trials(study._study_id) == stored(storage)


def test_the_mirror_is_as_the_database(study: optuna.Study, storage: MirroredStorage) -> None:
    ids = [ask(study, storage)._trial_id for _ in range(3)]
    storage.set_curve_values([(ids[0], 4, 0.25), (ids[1], 4, -1.5), (ids[0], 8, 0.1)])
    storage.set_curve_values([(ids[0], 8, 0.3), (ids[2], 4, 1e300)])  # one had arrived
    storage.set_curve_values([])
    storage.set_trial_user_attr(ids[0], "interval", (0.1, 0.2))
    storage.set_trial_user_attr(ids[0], "interval", [0.3, 0.4])
    study.tell(0, 0.5)
    trials = stored(storage)
    assert storage.get_all_trials(study._study_id) == trials
    assert trials[0].intermediate_values == {4: 0.25, 8: 0.3}
    assert trials[0].user_attrs == {"interval": [0.3, 0.4]}
    assert storage.get_trial_id_from_study_id_trial_number(study._study_id, 2) == ids[2]
    with pytest.raises(KeyError):
        storage.get_trial_id_from_study_id_trial_number(study._study_id, 3)


def test_a_trial_that_arrived_unseen_is_found(
    study: optuna.Study, storage: MirroredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(backend: RDBStorage, study_id: int, unwritten: FrozenTrial) -> int:
        insert_trial(backend, study_id, unwritten)
        raise StorageUnavailableError("the connection was lost")

    monkeypatch.setattr("hpsearch.study.storage.insert_trial", lost)
    with pytest.raises(StorageUnavailableError):
        ask(study, storage)
    monkeypatch.undo()
    assert ask(study, storage).number == 1
    assert storage.get_all_trials(study._study_id) == stored(storage)


def test_a_trial_that_a_user_enqueued_comes_first(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    study.enqueue_trial({"lr": 0.5})
    assert (ask(study, storage).number, stored(storage)[0].params["lr"]) == (0, 0.5)
    assert ask(study, storage).number == 1


class Looked(list[FrozenTrial]):
    """Trials, and how often all of them were looked at."""

    times = 0

    def __iter__(self) -> Iterator[FrozenTrial]:
        self.times += 1
        return super().__iter__()


def test_an_ask_looks_for_waiting_trials_only_where_there_may_be_some(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    study_id = study._study_id
    for _ in range(2):
        ask(study, storage)
    trials = storage._trials[study_id] = Looked(storage._trials[study_id])
    ask(study, storage)
    study.tell(1, 0.5)
    ask(study, storage)
    assert trials.times == 0
    study.enqueue_trial({"lr": 0.5})
    assert ask(study, storage).params["lr"] == 0.5
    assert ask(study, storage).params["lr"] != 0.5
    assert trials.times == 2  # one waited, none does any more
    storage.set_trial_state_values(trials[-1]._trial_id, TrialState.WAITING)
    assert storage.get_all_trials(study_id, states=(TrialState.WAITING,)) == [trials[-1]]


def test_the_draft_is_among_the_running_trials_alone(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    ask(study, storage)
    study.tell(0, 0.5)
    study.ask()
    numbers = {
        states: [trial.number for trial in study.get_trials(states=states)]
        for states in (None, (TrialState.RUNNING,), (TrialState.COMPLETE,), (TrialState.WAITING,))
    }
    assert list(numbers.values()) == [[0, 1], [1], [0], []]
