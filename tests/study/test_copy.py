"""A copy of a study: brought up to date a little at a time, and never seen half full."""

import os
import sqlite3
import time
from contextlib import closing, contextmanager

import optuna
import pytest
from copies import HEAD, changed, optuna_reads, query, running, trial_of
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from hpsearch.errors import CorruptError, StorageUnavailableError
from hpsearch.study.copy.file import MAX_TEXT, MAX_VALUES, abridged, thinned
from hpsearch.study.copy.reader import read_mark, read_news
from hpsearch.study.copy.writer import ABANDONED_SECONDS, TRIALS_AT_ONCE, CopyWriter

MANY = [trial_of(number) for number in range(2 * TRIALS_AT_ONCE + 50)]
FEW = MANY[:20]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dashboard.db"


def writer(path, patience=0.0):
    return CopyWriter(path, HEAD, patience=patience)


def copied(path, trials, event=5):
    """Return a writer that has copied everything."""
    made = writer(path)
    assert made.refresh(trials, event, seconds=60)
    return made


@contextmanager
def held(path):
    """Read a copy, and go on reading."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN")
        file.execute("SELECT count(*) FROM trials").fetchone()
        yield file


# What a copy holds.


def test_plain_optuna_reads_the_copy(path):
    trials = [*FEW[:3], running(3), trial_of(4, state=TrialState.FAIL, value=None)]
    copied(path, trials)
    assert optuna_reads(path) == trials
    storage = RDBStorage(f"sqlite:///{path}")
    study = optuna.load_study(study_name="large", storage=storage)
    assert (study._study_id, study.directions) == (HEAD.study_id, list(HEAD.directions))
    assert study.metric_names == list(HEAD.metrics)
    storage.remove_session()
    storage.engine.dispose()


def test_of_a_long_curve_some_values_are_kept_the_last_among_them():
    curve = {10 * step: float(step) for step in range(1, 101)}
    kept = thinned(curve)
    assert len(kept) == MAX_VALUES
    assert {10, 1000} <= kept.keys()
    assert kept.items() <= curve.items()
    gaps = [b - a for a, b in zip(kept, list(kept)[1:], strict=False)]
    assert max(gaps) <= 1.1 * 990 / (MAX_VALUES - 1)
    short = dict(list(curve.items())[:MAX_VALUES])
    assert thinned(short) == short
    assert thinned({}) == {}


def test_long_attributes_are_left_out():
    attrs = {"short": "x" * MAX_TEXT, "long": "x" * (MAX_TEXT + 1), "list": list(range(1000))}
    assert abridged(trial_of(0, user_attrs=attrs)).user_attrs == {"short": "x" * MAX_TEXT}


def test_a_trial_that_was_infeasible_shows_it():
    system = {"constraints:gpu_memory": 1.0, "completed_rung_0": 0.5}
    trial = trial_of(0, system_attrs=system)
    assert trial.constraints == {"gpu_memory": 1.0}
    assert abridged(trial)._system_attrs == {"constraints": [1.0]}
    assert trial._system_attrs == system


# What is written.


def test_only_what_has_changed_is_written(path):
    made = copied(path, FEW)
    before = read_news(path, None)
    assert [trial.number for trial in before.trials] == list(range(20))
    other = [*changed(FEW, 7, values=[9.0]), running(20)]
    assert made.refresh(other, 6, seconds=60)
    news = read_news(path, before.mark)
    assert [trial.number for trial in news.trials] == [7, 20]
    assert news.trials[0].values == [9.0]
    assert not news.is_anew
    assert read_news(path, news.mark).trials == []
    assert optuna_reads(path) == other


def test_what_was_read_anew_and_is_equal_is_not_written(path):
    made = copied(path, FEW)
    mark = read_mark(path)
    again = [changed(FEW, number)[number] for number in range(20)]
    assert made.refresh(again, 5, seconds=60)
    assert read_mark(path) == mark


def test_an_event_that_changes_no_trial_is_noted(path):
    made = copied(path, FEW)
    assert made.refresh(FEW, 9, seconds=60)
    assert read_mark(path).event == 9


def test_without_time_a_part_is_written_and_the_file_appears_whole(path):
    made = writer(path)
    assert [made.refresh(MANY, 5, seconds=0.0) for _ in range(2)] == [False, False]
    assert not path.exists()
    with pytest.raises(StorageUnavailableError, match="is not there or is held"):
        read_news(path, None)
    assert made.refresh(MANY, 5, seconds=0.0)
    assert optuna_reads(path) == MANY
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_change_during_the_first_filling_is_not_lost(path):
    made = writer(path)
    made.refresh(MANY, 5, seconds=0.0)
    other = changed(MANY, 3, values=[42.0])
    while not made.refresh(other, 6, seconds=0.0):
        pass
    assert optuna_reads(path) == other


def test_the_next_writer_goes_on_in_the_same_file(path):
    copied(path, MANY)
    made = read_mark(path).made
    other, again = changed(MANY, 11, values=[42.0]), writer(path)
    assert not again.refresh(other, 6, seconds=0.0)
    assert (read_mark(path).made, read_mark(path).is_whole) == (made, False)
    assert len(optuna_reads(path)) == len(MANY)  # as before, or newer
    while not again.refresh(other, 6, seconds=0.0):
        pass
    assert (read_mark(path).made, read_mark(path).is_whole) == (made, True)
    assert optuna_reads(path) == other


# Who is in the way.


def test_a_reader_keeps_no_writer_waiting(path):
    made = copied(path, FEW)
    other = changed(FEW, 7, values=[9.0])
    with held(path) as file:
        began = time.perf_counter()
        assert not made.refresh(other, 6, seconds=60)
        assert time.perf_counter() - began < 2.0  # seconds, on a busy machine
        assert file.execute("SELECT count(*) FROM trials").fetchone() == (20,)
    assert optuna_reads(path) == FEW
    assert made.refresh(other, 6, seconds=60)
    assert optuna_reads(path) == other


def test_who_knows_less_writes_nothing(path):
    """A dashboard that read the trials before a driver began must not put old ones in place."""
    late = writer(path)
    copied(path, changed(FEW, 7, values=[9.0]), event=6)
    assert not late.refresh(FEW, 5, seconds=60)
    assert optuna_reads(path)[7].values == [9.0]
    assert late.refresh(changed(FEW, 7, values=[10.0]), 7, seconds=60)
    assert optuna_reads(path)[7].values == [10.0]


def test_two_writers_that_take_turns_lose_nothing(path):
    one, other = copied(path, FEW), writer(path)
    trials = FEW
    for event in range(6, 16):
        trials = changed(trials, event, values=[float(event)])
        turn = one if event % 2 else other
        while not turn.refresh(trials, event, seconds=60):
            pass
        assert optuna_reads(path) == trials


# What goes wrong.


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_a_damaged_copy_is_made_anew(path, content):
    made = copied(path, FEW)
    path.write_bytes(content)
    other = changed(FEW, 7, values=[9.0])
    results = [made.refresh(other, 6, seconds=60) for _ in range(3)]
    assert results[-1]
    assert optuna_reads(path) == other


def test_a_reader_that_meets_damage_says_so(path):
    copied(path, FEW)
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff" * (path.stat().st_size - 5000))
    with pytest.raises(CorruptError, match="remove it, and it is made anew"):
        read_news(path, None)


def test_a_copy_that_was_removed_is_made_anew(path):
    made = copied(path, FEW)
    mark = read_mark(path)
    path.unlink()
    assert made.refresh(FEW, 5, seconds=60)
    news = read_news(path, mark)
    assert news.is_anew
    assert list(news.trials) == FEW


def test_a_copy_of_a_study_with_more_trials_is_made_anew(path):
    """A database that was restored from a backup knows less than the copy."""
    copied(path, FEW)
    made = read_mark(path).made
    copied(path, FEW[:5], event=2)
    assert read_mark(path).made != made
    assert optuna_reads(path) == FEW[:5]


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").touch()
    assert not writer(tmp_path / "file" / "dashboard.db").refresh(FEW, 5, seconds=60)


def test_what_dead_writers_left_is_removed(path):
    dead, busy = path.with_name(".dashboard-1.db"), path.with_name(".dashboard-2.db")
    for left in (dead, busy):
        left.touch()
    old = time.time() - 2 * ABANDONED_SECONDS
    os.utime(dead, (old, old))
    copied(path, FEW)
    assert (dead.exists(), busy.exists()) == (False, True)


def test_a_study_without_trials_has_a_copy(path):
    copied(path, [])
    assert read_news(path, None).trials == []
    assert query(path, "SELECT count(*) FROM trials") == [(0,)]
