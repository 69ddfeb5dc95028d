"""A population on a simulated cluster on which drivers, jobs, nodes and the database die."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from drives import TRAINER, check_books, query, stored_events
from fakes import smooth_curve
from test_population_ends import check_judged
from test_population_study import population_study, teaching
from test_random_kills import (
    CALLS,
    MACHINES,
    Chaos,
    Watched,
    died_on_the_cluster,
    drive,
    seconds_of,
)
from virtual_cluster import SimulatedCluster
from virtual_job import Course

from hpsearch.study.spec import Study

MEMBERS, TRIALS = 16, 160
MINUTES = 10.0
LONGEST_SECONDS = 240.0
"""that an interval trains at most, see `seconds_of`"""


class Playing(Watched):
    """A cluster whose jobs also play matches."""

    def __init__(self, cluster: SimulatedCluster, **options: object) -> None:
        super().__init__(cluster, **options)
        self.course = self._course = Course(seconds_of, smooth_curve, teaching)


def called_at(study: Study) -> list[float]:
    """Return when matches were called, up to the last trial that was asked for."""
    (last,) = query(study, "SELECT MAX(at) FROM hpsearch_events WHERE kind = 'asked'")[0]
    rows = query(study, "SELECT at FROM hpsearch_events WHERE kind = 'match_called' ORDER BY id")
    return [at for (at,) in rows if at <= last]


@pytest.mark.slow
@pytest.mark.parametrize("steady", [False, True])
def test_a_population_survives_everything(tmp_path: Path, steady: bool) -> None:
    rules = {"name": "synchronous", "quorum": 0.75, "minutes": MINUTES}
    study = population_study(
        tmp_path,
        trials=TRIALS,
        executor={"name": "local", "jobs": 6, "members_per_job": 2},
        study={"max_failures": 0},
        members=MEMBERS,
        generations={"name": "steady"} if steady else rules,
    )
    cluster = SimulatedCluster(3, 2, seed=steady, faults=MACHINES)
    executor = Playing(cluster, seed=3 + steady, faults=CALLS, max_batch=3)
    chaos = Chaos(Random(f"population {steady}"), share=0.005)
    with chaos.at_large(executor):
        state = drive(study, executor, lambda: chaos.random.uniform(0.0, 60.0))
    assert state.status == "finished", state.status
    assert state.counts()["finished"] == TRIALS
    check_books(study, executor)  # none lost, none told twice
    check_judged(study)
    assert max(executor.course.repeated) <= TRAINER["checkpoint.interval"]
    died = chaos.kills + died_on_the_cluster(study)
    print(dict(died), len(called_at(study)))
    assert {"driver", "database", "preempted", "lost"} <= died.keys()
    lost = [d for *_, d in stored_events(study, "job_ended") if d.get("kind")]
    assert lost
    if not steady:
        called = called_at(study)
        assert len(called) >= TRIALS / MEMBERS - 1
        # Members train in two waves, the first of which may be held up as long as the second.
        longest = max(later - earlier for earlier, later in pairwise(called))
        assert longest <= 2 * (2 * LONGEST_SECONDS + MINUTES * 60), longest
