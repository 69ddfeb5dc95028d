"""The training log: whole lines, nothing infinite, nothing twice."""

import json
import math

import pytest

from hpsearch.monitor.sinks import TrainingLog


def rows(place):
    return [json.loads(line) for line in place.training_log.read_text().splitlines()]


def test_a_line_a_look_and_member(make_look, make_places):
    places = make_places(0, 0)
    log = TrainingLog()
    log.write(make_look(10, 1.0, 2.0))
    assert rows(places[1]) == [
        {
            "step": 10,
            "at": 1010.0,
            "scalars": {"host/loss": 2.0, "agent/er": 0.5},
            "job": {"cpu_percent": 150.0},
            "layers": {"host/0/weight_std": 2.0},
            "timings": {"rollout": {"milliseconds": 30.0, "count": 4}},
        }
    ]
    log.close()


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_know_is_null(make_look, make_places, loss):
    log = TrainingLog()
    log.write(make_look(10, loss))
    log.close()
    assert rows(make_places(0)[0])[0]["scalars"]["host/loss"] is None


def test_a_resumed_run_forgets_what_it_makes_again(make_look, make_places):
    killed = TrainingLog()
    for step in (10, 20, 30):
        killed.write(make_look(step, 1.0))
    killed.close()
    (place,) = make_places(20)
    with place.training_log.open("a") as file:
        file.write('{"step": 20, "at": 10')  # cut off by the kill
    resumed = TrainingLog()
    resumed.write(make_look(30, 2.0, places=[place]))
    resumed.close()
    losses = [(row["step"], row["scalars"]["host/loss"]) for row in rows(place)]
    assert losses == [(10, 1.0), (20, 1.0), (30, 2.0)]


def test_a_file_that_needs_no_change_stays(make_look, make_places):
    (place,) = make_places(20)
    log = TrainingLog()
    log.write(make_look(20, 1.0, places=[place]))
    log.close()
    before = place.training_log.stat().st_ino
    log = TrainingLog()
    log.write(make_look(30, 1.0, places=[place]))
    log.close()
    assert place.training_log.stat().st_ino == before
