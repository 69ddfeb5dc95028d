"""Who is late, by hand: times of training, waits in a queue, waits for a free job."""

import pytest

from hpsearch.population.options import Synchronous
from hpsearch.study.breeding.breeder import is_due
from hpsearch.study.events import Event
from hpsearch.study.records import Ended
from hpsearch.study.state import StudyState

RULES = Synchronous(quorum=0.5, minutes=1.0)
ORIGIN = {
    "key": "0", "member": 0, "generation": 0, "parents": [], "parent_steps": [],
    "operator": {"name": "fresh"}, "is_child": False, "params": None, "steps": 8,
}  # fmt: skip
ASKED = {"params": {}, "origin": ORIGIN}


def state_of(*rows):
    """Return the state after events: kind, time, job, data."""
    state = StudyState()
    state.apply(
        Event(id=number, kind=kind, at=at, trial=0, attempt=1, job=job, data=data)
        for number, (kind, at, job, data) in enumerate(rows, 1)
    )
    return state


def given(attempt=1):
    return {"trials": [{"trial": 0, "attempt": attempt, "token": "t"}]}


LEFT = {"status": "interrupted", "kind": "preempted", "step": 4}
TOLD = {"state": "finished", "value": 1.0, "metrics": {}, "failure": None, "message": ""}
PREEMPTED = (
    ("asked", 0.0, None, ASKED),
    ("announced", 1.0, "a", given()),
    ("job_began", 100.0, "a", {}),
    ("attempt_ended", 130.0, "a", LEFT),
    ("announced", 140.0, "b", given(2)),
)


def test_only_training_counts():
    state = state_of(*PREEMPTED)
    assert state.trials[0].seconds_trained(1e6) == 30.0
    state.apply([Event(6, "job_began", 900.0, None, None, "b", {})])
    assert state.trials[0].seconds_trained(907.0) == 37.0
    state.apply([Event(7, "told", 910.0, 0, 2, None, TOLD)])
    assert state.population.open == {0: Ended(40.0, 910.0)}


def test_a_pilots_next_trial_trains_when_it_is_given():
    later = {"trials": [{"trial": 0, "attempt": 1, "token": "t"}]}
    state = state_of(
        ("announced", 1.0, "a", {"trials": [], "pilot": True}),
        ("job_began", 5.0, "a", {}),
        ("asked", 50.0, None, ASKED),
        ("announced", 60.0, "a", later),
    )
    assert state.trials[0].seconds_trained(75.0) == 15.0


def test_a_job_not_seen_to_run_counts_from_its_announcement():
    state = state_of(*PREEMPTED[:2], ("told", 71.0, None, TOLD))
    assert state.population.open == {0: Ended(70.0, 71.0)}


ENDED = [Ended(seconds=30.0, at=200.0)]


@pytest.mark.parametrize(
    ("asked", "began", "now", "expected"),
    [
        (0.0, 150.0, 239.0, False),  # trained 89 seconds, of 30 and a minute
        (0.0, 150.0, 240.0, True),
        (0.0, 190.0, 265.0, False),  # a minute after the quorum, but it began late
        (0.0, None, 259.0, False),  # in the queue
        (0.0, None, 260.0, True),
        (230.0, None, 289.0, False),  # there was no job for it before
        (230.0, None, 290.0, True),
    ],
)
def test_who_is_late(asked, began, now, expected):
    rows = [("asked", asked, None, ASKED), ("announced", asked, "a", given())]
    rows += [] if began is None else [("job_began", began, "a", {})]
    trial = state_of(*rows).trials[0]
    assert is_due(RULES, ENDED, [trial], now) == expected
    assert not is_due(RULES, [], [trial], 1e9)  # without a quorum none is late
    assert is_due(RULES, [], [], 0.0)  # none is waited for
