"""Many trials read at once are what Optuna reads one by one."""

import copy
import math
from contextlib import contextmanager

import pytest
import sqlalchemy
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import Engine, NullPool

from hpsearch.study import rows
from hpsearch.study.rows import read_trials, trial_ids

SPACE = {
    "lr": FloatDistribution(1e-5, 1e-1, log=True),
    "width": IntDistribution(8, 64, step=8),
    "algorithm": CategoricalDistribution(("dqn", "ppo", None, 3, True)),
}


def odd_trials() -> list[FrozenTrial]:
    """Return trials of all states and kinds of numbers, for two objectives."""
    params = {"lr": 1e-3, "width": 16, "algorithm": None}
    full = {"params": params, "distributions": SPACE}
    attrs = {"user_attrs": {"nested": {"a": [1, None, "ß"]}}, "system_attrs": {"s": 1.5}}
    curve = {1: math.nan, 2: math.inf, 3: 0.1, 10: -math.inf}
    return [
        create_trial(values=[0.1, -2.5], **full, **attrs),
        create_trial(values=[math.inf, -math.inf], **full, intermediate_values=curve),
        create_trial(state=TrialState.PRUNED, **full, intermediate_values={5: 0.25}),
        create_trial(state=TrialState.FAIL),
        create_trial(
            state=TrialState.RUNNING, params={"lr": 0.1}, distributions={"lr": SPACE["lr"]}
        ),
        create_trial(state=TrialState.WAITING, system_attrs={"fixed_params": params}),
    ]


@contextmanager
def database(path):
    with closing_storage(RDBStorage(f"sqlite:///{path}")) as storage:
        yield storage


@contextmanager
def closing_storage(storage):
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def filled(storage: RDBStorage, name: str, trials: list[FrozenTrial]) -> int:
    both = [StudyDirection.MAXIMIZE, StudyDirection.MINIMIZE]
    study_id = storage.create_new_study(both, name)
    for trial in trials:
        storage.create_new_trial(study_id, trial)
    return study_id


def same(ours: list[FrozenTrial], optunas: list[FrozenTrial]) -> bool:
    """Compare as text, since nan is not equal to itself."""
    return [repr(our) for our in ours] == [repr(optuna) for optuna in optunas]


def without_curve(trial: FrozenTrial) -> FrozenTrial:
    bare = copy.copy(trial)
    bare.intermediate_values = {}
    return bare


def read_all(engine: Engine, study_id: int) -> list[FrozenTrial]:
    return read_trials(engine, trial_ids(engine, study_id), with_curves=True)


@pytest.mark.parametrize("at_once", [1, 4, 1000])
def test_trials_are_read_as_optuna_reads_them(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(rows, "TRIALS_AT_ONCE", at_once)
    with database(tmp_path / "study.db") as storage:
        filled(storage, "before", odd_trials()[:2])
        study_id = filled(storage, "this", odd_trials())
        trials, optunas = read_all(storage.engine, study_id), storage.get_all_trials(study_id)
        assert len(trials) == len(odd_trials())
        assert same(trials, optunas)
        assert trials[0] == optunas[0]
        ids = trial_ids(storage.engine, study_id)
        bare = read_trials(storage.engine, ids, with_curves=False)
        assert same(bare, [without_curve(trial) for trial in optunas])


def test_trials_are_read_by_their_ids(tmp_path):
    with database(tmp_path / "study.db") as storage:
        study_id = filled(storage, "this", odd_trials())
        ids = trial_ids(storage.engine, study_id)
        trials = read_trials(storage.engine, [ids[1], ids[4]], with_curves=True)
        every = storage.get_all_trials(study_id)
        assert same(trials, [every[1], every[4]])


def test_trials_share_the_objects_of_equal_ranges(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "TRIALS_AT_ONCE", 1)
    with database(tmp_path / "study.db") as storage:
        trials = read_all(storage.engine, filled(storage, "this", odd_trials()))
    ranges = [trial.distributions["lr"] for trial in trials if "lr" in trial.distributions]
    assert len(ranges) == 4
    assert len({id(own) for own in ranges}) == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_moments_are_local_as_optunas(tmp_path, monkeypatch, zone):
    import time

    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        with database(tmp_path / "study.db") as storage:
            study_id = filled(storage, "this", odd_trials()[:1])
            (trial,) = read_all(storage.engine, study_id)
            (optunas,) = storage.get_all_trials(study_id)
            assert trial.datetime_start == optunas.datetime_start
            assert trial.datetime_complete == optunas.datetime_complete
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_server_is_read_in_the_same_way(request, kind):
    server = request.getfixturevalue(kind)
    with closing_storage(RDBStorage(server.new_database("copied"))) as storage:
        study_id = filled(storage, "this", odd_trials())
        # Without a pool, which would keep the connection open for whatever test runs when it goes.
        engine = sqlalchemy.create_engine(storage.url, poolclass=NullPool)
        trials = read_all(engine, study_id)
        assert same(trials, storage.get_all_trials(study_id))
