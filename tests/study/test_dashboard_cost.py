"""What the dashboard of ten thousand trials costs: the driver hardly anything, a reader seconds."""

import time
from types import SimpleNamespace

import pytest
from browser import opened
from copies import changed
from dashboards import Dashboard
from large_study import NUM_TRIALS, large_study

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.copy.file import Head
from hpsearch.study.copy.keeper import REFRESH_SECONDS, SHARE, TICK_SECONDS, CopyKeeper
from hpsearch.study.copy.reader import read_news
from hpsearch.study.storage import open_storage

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SLACK = 3.0
"""the goals are of a machine with nothing else to do"""
IDLE_SECONDS = 0.03
"""of a round in which no trial has changed"""
CHUNK_SECONDS = 0.1
"""that one transaction may take beyond the time of a round"""
ANSWER_SECONDS = 4.0
"""until a browser that comes first has all trials"""
AGAIN_SECONDS = 0.1
"""until the next one has"""
PAGE_SECONDS = 60.0
"""until a browser has drawn everything"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return large_study(tmp_path_factory.mktemp("large"))


class Rounds:
    """A driver's rounds without the driver: only the copy is kept, by a clock that tells."""

    def __init__(self, study, folder):
        storage = open_storage(study.spec.storage)
        study_id = storage.get_study_id_from_name(study.spec.name)
        directions = tuple(storage.get_study_directions(study_id))
        self.trials = storage.get_all_trials(study_id, deepcopy=False)
        self.event = 1
        self._head = Head(study_id, study.spec.name, directions, ("rho/host/choose_first",))
        self._copies = CopyKeeper(folder)
        storage.close()

    def keep(self) -> float:
        """Return the seconds of one round."""
        held = SimpleNamespace(head=self._head, stored=lambda: self.trials)
        state = SimpleNamespace(last_event=self.event)
        self._copies._next = 0.0
        began = time.perf_counter()
        self._copies.keep(SimpleNamespace(trials=held, state=state))
        return time.perf_counter() - began


def test_a_round_of_the_driver_hardly_notices(study, tmp_path, capsys):
    folder = StudyDir(tmp_path)
    rounds = Rounds(study, folder)
    filling = [rounds.keep()]
    while not folder.dashboard.exists():
        filling.append(rounds.keep())
    idle = min(rounds.keep() for _ in range(5))
    for number in range(0, 1000, 10):
        rounds.trials = changed(rounds.trials, number, user_attrs={"n": number})
    rounds.event += 1
    hundred = rounds.keep()
    with capsys.disabled():
        print(
            f"\nthe copy of {NUM_TRIALS} trials: filled in {len(filling)} rounds of at most "
            f"{max(filling[1:]):.3f} s (the first one {filling[0]:.3f} s), {sum(filling):.1f} s in "
            f"all; a round without changes {idle:.4f} s, with 100 changed trials {hundred:.3f} s"
        )
    assert len(read_news(folder.dashboard, None).trials) == NUM_TRIALS
    assert max(filling[1:]) < SLACK * (TICK_SECONDS + CHUNK_SECONDS)
    assert idle < SLACK * IDLE_SECONDS
    assert hundred < SLACK * CHUNK_SECONDS * 2
    assert hundred / REFRESH_SECONDS < SLACK * SHARE


def test_ten_thousand_trials_are_shown_in_seconds(study, capsys):
    folder = study.path.parent
    first = Dashboard(folder, study.spec.name)
    first.close()
    dashboard = Dashboard(folder, study.spec.name)
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        status, body = dashboard.ask("GET", dashboard.api, packed=True)
        seconds.append(time.perf_counter() - began)
        assert status == 200
    assert len(dashboard.study()["trials"]) == NUM_TRIALS
    began = time.perf_counter()
    page = opened(dashboard.url)
    drawn = time.perf_counter() - began
    with capsys.disabled():
        print(
            f"\nthe dashboard of {NUM_TRIALS} trials starts in {dashboard.seconds_to_start:.1f} s "
            f"({first.seconds_to_start:.1f} s where it makes the copy), gives all trials in "
            f"{seconds[0]:.2f} s, again in {seconds[1]:.3f} s ({len(body) / 1e6:.1f} MB packed); "
            f"a browser has drawn them after {drawn:.1f} s"
        )
    dashboard.close()
    assert page.console == []
    assert 'id="user-defined-plot:learning-curves"' in page.dom
    assert seconds[0] < SLACK * ANSWER_SECONDS
    assert seconds[1] < SLACK * AGAIN_SECONDS
    assert drawn < SLACK * PAGE_SECONDS
