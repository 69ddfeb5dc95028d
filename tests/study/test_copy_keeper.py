"""A driver's copy: refreshed now and then, in little of its time, and the same as its database."""

import pytest
from copies import query
from drives import Clock, new_study, opened, stored_trials
from fakes import FakeExecutor

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.copy import keeper as keeper_module
from hpsearch.study.copy.file import abridged
from hpsearch.study.copy.keeper import REFRESH_SECONDS, SHARE, CopyKeeper
from hpsearch.study.copy.reader import read_mark, read_news
from hpsearch.study.state import RUNNING


@pytest.fixture
def study(tmp_path):
    return new_study(tmp_path, budget={"trials": 8})


@pytest.fixture
def folder(study):
    return StudyDir(study.path.parent / "runs" / study.spec.name)


def test_the_copy_follows_the_driver_to_its_end(study, folder):
    clock, compared = Clock(), 0
    copies = CopyKeeper(folder, clock=clock)
    with opened(study, FakeExecutor()) as driver:
        while driver.state.status == RUNNING:
            driver.tick()
            copies.keep(driver)
            found = read_news(folder.dashboard, None)
            assert found.trials == [abridged(trial) for trial in stored_trials(study)]
            assert found.mark.event == driver.state.last_event
            clock.now += REFRESH_SECONDS
            compared += 1
    assert compared > 5
    names = query(folder.dashboard, "SELECT key, value_json FROM study_system_attributes")
    assert names == [("study:metric_names", '["rho/host/choose_first"]')]


def test_between_two_refreshes_nothing_is_written(study, folder):
    clock = Clock()
    copies = CopyKeeper(folder, clock=clock)
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
        copies.keep(driver)
        mark = read_mark(folder.dashboard)
        driver.tick()
        clock.now += 0.9 * REFRESH_SECONDS
        copies.keep(driver)
        assert read_mark(folder.dashboard) == mark
        clock.now += 0.2 * REFRESH_SECONDS
        copies.keep(driver)
        assert read_mark(folder.dashboard).event == driver.state.last_event > mark.event


def test_refreshing_takes_no_more_than_its_share(study, folder, monkeypatch):
    """A slow disk: each refresh takes two seconds of which nothing comes."""
    clock, began = Clock(), []

    class Slow(keeper_module.CopyWriter):
        def refresh(self, trials, event, *, seconds):
            began.append(clock.now)
            clock.now += 2.0
            return False

    monkeypatch.setattr(keeper_module, "CopyWriter", Slow)
    copies = CopyKeeper(folder, clock=clock)
    with opened(study, FakeExecutor()) as driver:
        first = clock.now
        for _ in range(400):
            copies.keep(driver)
            clock.now += 0.5
    assert 2.0 * len(began) <= SHARE * (clock.now - first) + 2.0
    assert len(began) > 5


def test_a_folder_that_cannot_be_written_stops_no_driver(study, folder):
    clock = Clock()
    copies = CopyKeeper(folder, clock=clock)
    with opened(study, FakeExecutor()) as driver:
        folder.dashboard.mkdir()
        for _ in range(3):
            driver.tick()
            copies.keep(driver)
            clock.now += REFRESH_SECONDS
        assert read_mark(folder.dashboard) is None
        folder.dashboard.rmdir()
        copies.keep(driver)
        assert read_mark(folder.dashboard).event == driver.state.last_event
    assert len(stored_trials(study)) > 0
