"""What the dashboard of ten thousand trials costs: seconds for a reader."""

import time

import pytest
from browser import opened
from dashboards import Dashboard
from large_study import NUM_TRIALS, large_study

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SLACK = 3.0
"""the goals are of a machine with nothing else to do"""
START_SECONDS = 6.0
"""until the command has read all trials and drawn its figures"""
ANSWER_SECONDS = 4.0
"""until a browser that comes first has all trials"""
AGAIN_SECONDS = 0.1
"""until the next one has"""
PAGE_SECONDS = 60.0
"""until a browser has drawn everything"""


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return large_study(tmp_path_factory.mktemp("large"))


def test_ten_thousand_trials_are_shown_in_seconds(study, capsys):
    folder = study.path.parent
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
            f"\nthe dashboard of {NUM_TRIALS} trials starts in {dashboard.seconds_to_start:.1f} s, "
            f"gives all trials in {seconds[0]:.2f} s, again in {seconds[1]:.3f} s "
            f"({len(body) / 1e6:.1f} MB packed); a browser has drawn them after {drawn:.1f} s"
        )
    dashboard.close()
    assert page.console == []
    assert 'id="user-defined-plot:learning-curves"' in page.dom
    assert dashboard.seconds_to_start < SLACK * START_SECONDS
    assert seconds[0] < SLACK * ANSWER_SECONDS
    assert seconds[1] < SLACK * AGAIN_SECONDS
    assert drawn < SLACK * PAGE_SECONDS
