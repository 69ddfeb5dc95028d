"""New trials are written once and whole; what is not read back is as the database has it."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import event
from sqlalchemy.orm import Session

from hpsearch.errors import OthersTrialsError, StorageUnavailableError
from hpsearch.study.rows import Changes, End, insert_trials, write_changes
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
    another = study.ask()
    assert (another.number, another._trial_id, another.params) == (1, UNWRITTEN - 1, {})
    storage.discard()
    again = study.ask()  # instead of those that were given up
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


def test_trials_share_the_objects_of_ranges_that_are_the_same(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    for choices in ([1, 0], [1, 0], [True, False]):  # which are equal, and not the same
        trial = study.ask()
        trial.suggest_float("lr", 1e-4, 1.0)
        trial.suggest_categorical("flag", choices)
    storage.keep(study._study_id)
    first, second, other = storage.get_all_trials(study._study_id, deepcopy=False)
    assert first.distributions["lr"] is second.distributions["lr"] is other.distributions["lr"]
    assert first.distributions["flag"] is second.distributions["flag"]
    assert repr(other.distributions["flag"]) == "CategoricalDistribution(choices=(True, False))"


def test_the_mirror_is_as_the_database(study: optuna.Study, storage: MirroredStorage) -> None:
    ids = [ask(study, storage)._trial_id for _ in range(3)]
    with storage.together(study._study_id):
        storage.set_trial_intermediate_value(ids[0], 4, 0.25)
        storage.set_trial_intermediate_value(ids[1], 4, -1.5)
        storage.set_trial_intermediate_value(ids[0], 8, 0.1)
        storage.set_trial_user_attr(ids[1], "interval", (0.1, 0.2))
    with storage.together(study._study_id):
        storage.set_trial_intermediate_value(ids[0], 8, 0.3)  # instead of the one before
        storage.set_trial_intermediate_value(ids[2], 4, 1e300)
        storage.set_trial_user_attr(ids[1], "interval", (0.5, 0.6))
        storage.set_trial_system_attr(ids[1], "note", {"a": None})
    with storage.together(study._study_id):
        pass
    storage.set_trial_user_attr(ids[0], "interval", (0.1, 0.2))
    storage.set_trial_user_attr(ids[0], "interval", [0.3, 0.4])
    study.tell(0, 0.5)
    trials = stored(storage)
    assert storage.get_all_trials(study._study_id) == trials
    assert trials[0].intermediate_values == {4: 0.25, 8: 0.3}
    assert [trial.user_attrs.get("interval") for trial in trials] == [[0.3, 0.4], [0.5, 0.6], None]
    assert storage.get_trial_id_from_study_id_trial_number(study._study_id, 2) == ids[2]
    with pytest.raises(KeyError):
        storage.get_trial_id_from_study_id_trial_number(study._study_id, 3)


def test_a_trial_that_arrived_unseen_is_found(
    study: optuna.Study, storage: MirroredStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(
        backend: RDBStorage,
        study_id: int,
        unwritten: Sequence[FrozenTrial],
        fence: Callable[[Session], None],
    ) -> list[int]:
        insert_trials(backend, study_id, unwritten, fence)
        raise StorageUnavailableError("the connection was lost")

    monkeypatch.setattr("hpsearch.study.storage.insert_trials", lost)
    with pytest.raises(StorageUnavailableError):
        ask(study, storage)
    monkeypatch.undo()
    assert ask(study, storage).number == 1
    assert storage.get_all_trials(study._study_id) == stored(storage)


def test_trials_are_told_together_as_optuna_tells_them_one_by_one(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    for _ in range(4):
        ask(study, storage)
    storage.set_trial_intermediate_value(storage.get_all_trials(1)[2]._trial_id, 8, 0.5)
    ends = [(0.25, TrialState.COMPLETE), (math.inf, TrialState.COMPLETE)]
    ends += [(None, TrialState.PRUNED), (None, TrialState.FAIL)]
    with storage.together(study._study_id):
        for number, (value, state) in enumerate(ends):
            study.tell(number, value, state)
        assert not any(trial.state.is_finished() for trial in stored(storage))
    trials = stored(storage)
    states = [TrialState.RUNNING, (TrialState.COMPLETE, TrialState.FAIL), None]
    assert [storage.get_n_trials(study._study_id, each) for each in states] == [0, 3, 4]
    assert [trial.state for trial in trials] == [state for _, state in ends]
    assert [trial.values for trial in trials] == [[0.25], [math.inf], [0.5], None]
    assert all(trial.duration is not None for trial in trials)
    assert storage.get_all_trials(study._study_id) == trials


def test_a_trial_that_another_has_told_stays_as_it_is(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    for _ in range(2):
        ask(study, storage)
    other = optuna.load_study(study_name="s", storage=storage.url)

    def tell_both() -> None:
        with storage.together(study._study_id):
            other.tell(1, 0.5)
            study.tell(0, 0.25)
            study.tell(1, 0.75)

    with pytest.raises(UpdateFinishedTrialError):
        tell_both()
    assert [trial.values for trial in stored(storage)] == [None, [0.5]]
    assert storage.get_all_trials(study._study_id) == stored(storage)


def test_what_arrived_unseen_may_be_told_again(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    trial_id = ask(study, storage)._trial_id
    changes = Changes(curves={(trial_id, 8): 0.5}, user_attrs={(trial_id, "kind"): "lost"})
    changes.ends[trial_id] = End(TrialState.COMPLETE, [0.5], datetime(2026, 1, 2))
    for again in (False, True):
        write_changes(storage._backend, changes, lambda session: None, may_have_arrived=again)
    (trial,) = stored(storage)
    assert (trial.values, trial.datetime_complete) == ([0.5], datetime(2026, 1, 2))
    assert (trial.intermediate_values, trial.user_attrs) == ({8: 0.5}, {"kind": "lost"})


def test_many_new_trials_are_written_together(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    for _ in range(3):
        study.ask({"lr": FloatDistribution(0.0, 1.0)})
    template = create_trial(
        state=TrialState.RUNNING,
        params={"lr": 0.5},
        distributions={"lr": FloatDistribution(0.0, 1.0)},
        user_attrs={"parents": (1, 2)},
    )
    storage.create_new_trial(study._study_id, template)
    assert [trial.number for trial in study.trials] == [0, 1, 2, 3]
    storage.keep(study._study_id)
    trials = stored(storage)
    assert [(trial.number, trial.state) for trial in trials] == [
        (number, TrialState.RUNNING) for number in range(4)
    ]
    assert trials[3].user_attrs == {"parents": [1, 2]}
    assert storage.get_all_trials(study._study_id) == trials


def test_trials_that_another_process_added_are_read(
    study: optuna.Study, storage: MirroredStorage
) -> None:
    ask(study, storage)
    optuna.load_study(study_name="s", storage=storage.url).enqueue_trial({"lr": 0.5})
    with pytest.raises(OthersTrialsError, match="another process has added trials"):
        ask(study, storage)
    assert (ask(study, storage).number, stored(storage)[1].params["lr"]) == (1, 0.5)


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
    counts = [storage.get_n_trials(study._study_id, states) for states in numbers]
    assert counts == [2, 1, 1, 0]
