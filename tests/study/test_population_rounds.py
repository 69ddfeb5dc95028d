"""Who is waited for: waves of jobs, members that hang, and populations that never wait."""

from collections import Counter, namedtuple
from dataclasses import replace
from itertools import pairwise

import pytest
from drives import SPACE, Clock, check_books, drive, opened, query, stored_events
from fakes import FakeExecutor, Fault
from test_population_ends import check_judged, matches, reread
from test_population_study import origins, population_study, teaching

from hpsearch.study.state import FAILED, FINISHED, RUNNING

MINUTES = 10.0
EIGHT = {"members": 8}
Row = namedtuple("Row", "kind trial at")


def jobs(num):
    return {"name": "local", "jobs": num, "members_per_job": 1}


class Hanging(FakeExecutor):
    """Jobs of some trials make no step until a moment."""

    def __init__(self, clock, until, **options):
        super().__init__(**options)
        self._clock = clock
        self._until = until
        """seconds since the epoch, by trial"""

    def _round(self, known):
        trials = [assignment.trial for assignment in known.plan.assignments]
        if all(self._clock() >= self._until.get(trial, 0.0) for trial in trials):
            super()._round(known)


class Queueing(FakeExecutor):
    """Jobs of some trials wait in the scheduler's queue until a moment."""

    def __init__(self, clock, until, **options):
        super().__init__(**options)
        self._clock = clock
        self._until = until
        """seconds since the epoch, by trial"""

    def _waits_for_node(self, known):
        trials = [assignment.trial for assignment in known.plan.assignments]
        return any(self._clock() < self._until.get(trial, 0.0) for trial in trials)

    def _round(self, known):
        if not self._waits_for_node(known):
            super()._round(known)

    def _status(self, job_id):
        status = super()._status(job_id)
        waits = status.phase == "running" and self._waits_for_node(self._jobs[job_id])
        return replace(status, phase="queued") if waits else status


class Mute(FakeExecutor):
    """The first jobs that are to play a match never do, and say nothing."""

    def __init__(self, num, **options):
        super().__init__(**options)
        self.num = num
        self.mute = set()

    def _round(self, known):
        known.queue.look()
        if known.queue.matches and len(self.mute) < self.num and not known.left:
            self.mute.add(known.job.name)
        if known.job.name not in self.mute:
            super()._round(known)


def drive_in_time(study, executor, clock, seconds, max_ticks=400):
    """Drive a study to its end, by a tick every so many seconds; return the last state."""
    with opened(study, executor, clock) as driver:
        for _ in range(max_ticks):
            driver.tick()
            if driver.state.status != RUNNING:
                return driver.state
            clock.now += seconds
    raise AssertionError("no end")


@pytest.mark.parametrize("places", [1, 3, 5])
def test_a_wave_that_had_to_wait_for_jobs_is_not_late(tmp_path, places):
    """An interval takes far longer than the others are waited for, and all cannot train at once."""
    study = population_study(tmp_path, trials=24, executor=jobs(places), **EIGHT)
    clock = Clock()
    state = drive_in_time(study, FakeExecutor(teaching=teaching), clock, 2 * MINUTES * 60)
    assert state.status == FINISHED
    assert [ended for _, ended in matches(study)] == [list(range(8))] * 3
    check_judged(study)


def test_the_last_wave_may_take_as_long_as_the_others_and_no_longer(tmp_path):
    study = population_study(tmp_path, trials=16, executor=jobs(4), **EIGHT)
    clock = Clock()
    began = clock.now
    executor = Hanging(clock, {6: began + 1e5}, teaching=teaching)
    drive_in_time(study, executor, clock, 60)
    called = _called_at(study)[0] - began
    asked = next(e.at for e in _events(study) if e.kind == "asked" and e.trial == 6) - began
    took = asked  # it was asked for when the first wave had ended
    assert asked + took + MINUTES * 60 - 60 <= called <= asked + took + MINUTES * 60 + 120
    assert matches(study)[0][1] == [0, 1, 2, 3, 4, 5, 7]


def test_a_wait_in_the_queue_is_no_training(tmp_path):
    """The last job begins just before the others end, and may take as long as they did."""
    study = population_study(tmp_path, trials=8, executor=jobs(4))
    clock = Clock()
    executor = Queueing(clock, {2: clock.now + 8 * MINUTES * 60}, teaching=teaching)
    drive_in_time(study, executor, clock, 2 * MINUTES * 60)
    told = {event.trial: event.at for event in _events(study) if event.kind == "told"}
    assert told[2] > told[0] + MINUTES * 60  # later than the others were waited for
    assert [ended for _, ended in matches(study)] == [list(range(4))] * 2
    check_judged(study)


@pytest.mark.slow
def test_a_job_that_never_leaves_the_queue_stalls_no_match(tmp_path):
    """It is waited for so many minutes after the quorum, and judged when it comes."""
    study = population_study(tmp_path, trials=24, executor=jobs(4))
    clock = Clock()
    comes = clock.now + 4000.0
    executor = Queueing(clock, {2: comes}, teaching=teaching)
    drive_in_time(study, executor, clock, 60)
    told = [event.at for event in _events(study) if event.kind == "told"]
    first = _called_at(study)[0]
    assert 0 <= first - (told[2] + MINUTES * 60) <= 60  # three of four are the quorum
    played = matches(study)
    assert played[0][1] == [0, 1, 3]
    assert any(2 in ended for _, ended in played)
    check_judged(study)
    check_books(study, executor)


@pytest.mark.slow
def test_those_who_hang_one_after_another_stall_no_match(tmp_path):
    """Once some were late, a quorum is one of those who are waited for."""
    study = population_study(tmp_path, trials=40, executor=jobs(8), **EIGHT)
    clock = Clock()
    hang = clock.now + 1e5
    executor = Hanging(clock, {6: hang, 7: hang, 8: hang, 14: hang}, teaching=teaching)
    drive_in_time(study, executor, clock, 60)
    # Until all trials have been asked for; then there is nothing to do but to wait for the late.
    last = max(event.at for event in _events(study) if event.kind == "asked")
    called = [at for at in _called_at(study) if at <= last]
    assert len(called) > 4
    # An interval and a match take a few ticks each.
    assert max(later - earlier for earlier, later in pairwise(called)) <= MINUTES * 60 + 10 * 60
    check_judged(study)


@pytest.mark.parametrize("pilot_seconds", [0.0, 1e6])
def test_a_match_of_which_nothing_is_heard_is_played_by_another_job(tmp_path, pilot_seconds):
    study = population_study(tmp_path, trials=24, executor=jobs(3), **EIGHT)
    clock = Clock()
    executor = Mute(2, teaching=teaching, pilot_seconds=pilot_seconds)
    state = drive_in_time(study, executor, clock, 60)
    assert state.status == FINISHED
    silent = [event for event in _events(study) if event.kind == "match_silent"]
    assert len(silent) == len(executor.mute) == 2
    assert not executor.live()
    assert [ended for _, ended in matches(study)] == [list(range(8))] * 3
    # Twice an hour, and the ticks that all else takes.
    assert 2 * 3600 <= clock.now - _events(study)[0].at < 3 * 3600
    check_judged(study)
    check_books(study, executor)


def test_matches_that_are_never_heard_of_end_the_study(tmp_path):
    study = population_study(tmp_path, trials=24, executor=jobs(3), **EIGHT)
    state = drive_in_time(study, Mute(9, teaching=teaching), Clock(), 60)
    assert state.status == FAILED
    assert "match 1 was lost 3 times" in state.message


@pytest.mark.slow
@pytest.mark.parametrize(("quorum", "expected"), [(0.28, 7), (0.5, 13), (1.0, 25)])
def test_a_quorum_is_a_share_rounded_up(tmp_path, quorum, expected):
    rules = {"name": "synchronous", "quorum": quorum, "minutes": 0}
    study = population_study(
        tmp_path, trials=25, executor=jobs(25), members=25, generations=rules
    )  # fmt: skip
    clock = Clock()
    # One ends after another.
    until = {trial: clock.now + 100.0 * (trial + 1) for trial in range(25)}
    drive_in_time(study, Hanging(clock, until, teaching=teaching), clock, 25)
    ended = len(matches(study)[0][1])
    assert ended == expected


@pytest.mark.slow
def test_who_was_late_is_judged_when_it_comes(tmp_path):
    study = population_study(tmp_path, trials=24, executor=jobs(4))
    clock = Clock()
    executor = Hanging(clock, {2: clock.now + 3000.0}, teaching=teaching)
    drive_in_time(study, executor, clock, 60)
    with_it = [number for number, (_, ended) in enumerate(matches(study)) if 2 in ended]
    first = matches(study)[0]
    assert "2" not in first[0]  # it had nothing to play with
    assert with_it[0] > 0
    assert with_it == list(range(with_it[0], len(matches(study))))  # and is waited for since
    check_judged(study)
    check_books(study, executor)


def test_a_pilot_makes_room_for_members_of_another_shape(tmp_path):
    """One job alone: who waits in it for the next match would keep the others from training."""
    space = {**SPACE, "host.net_arch": {"type": "categorical", "choices": [[8], [16]]}}
    executor = {"name": "local", "jobs": 1, "members_per_job": 2}
    study = population_study(tmp_path, trials=12, executor=executor, study={"space": space})
    fakes = FakeExecutor(teaching=teaching, pilot_seconds=600.0)
    state = drive_in_time(study, fakes, Clock(), 30)
    assert (state.status, state.counts()["finished"]) == (FINISHED, 12)
    assert len({trial.params["host.net_arch"] for trial in state.trials.values()}) == 2
    assert fakes.most_alive == 1
    check_judged(study)


class Lingering(FakeExecutor):
    """Jobs that have ended look alive for some looks more, as on a cluster."""

    def __init__(self, looks, **options):
        super().__init__(**options)
        self._looks = looks
        self._seen = Counter()

    def _status(self, job_id):
        status = super()._status(job_id)
        self._seen[job_id] += status.phase == "ended"
        return replace(status, phase="running") if self._seen[job_id] < self._looks else status


def test_a_match_waits_for_a_job_that_takes_its_time_to_go(tmp_path):
    """Its members have ended, but a second job would be one more than the study may have."""
    study = population_study(tmp_path, trials=4, executor=jobs(1))
    executor = Lingering(3, teaching=teaching)
    state = drive_in_time(study, executor, Clock(), 60)
    assert state.status == FINISHED
    assert [ended for _, ended in matches(study)] == [[0, 1, 2, 3]]
    check_books(study, executor)  # no two jobs at once, among others


def test_no_more_pilots_make_room_than_is_needed(tmp_path):
    """One that takes its time to go is room already; the others train their shape on."""
    space = {**SPACE, "host.net_arch": {"type": "categorical", "choices": [[8], [16], [32]]}}
    executor = {"name": "local", "jobs": 2, "members_per_job": 2}
    study = population_study(
        tmp_path, trials=16, executor=executor, study={"space": space}, **EIGHT
    )
    fakes, clock, num_closed = Lingering(5, teaching=teaching, pilot_seconds=600.0), Clock(), 0
    with opened(study, fakes, clock) as driver:
        for _ in range(400):
            driver.tick()
            if driver.state.status != RUNNING:
                break
            closed = sum(job.closed for job in driver.state.live_jobs())
            shapes = Counter(trial.params["host.net_arch"] for trial in driver.state.waiting())
            groups = sum(-(-num // 2) for num in shapes.values())
            if groups:
                assert closed <= groups
                num_closed += closed
            clock.now += 30
    assert driver.state.status == FINISHED
    assert num_closed


# Steady populations.


@pytest.mark.slow
def test_late_and_failing_members_of_a_steady_population(tmp_path):
    study = population_study(tmp_path, trials=30, executor=jobs(5), generations={"name": "steady"})
    study = reread(study, max_failures=6)
    clock = Clock()
    executor = Hanging(
        clock,
        {3: clock.now + 2000.0, 9: clock.now + 3000.0},
        teaching=teaching,
        faults={(trial, 1): Fault("nan", 4) for trial in (1, 7, 13)},
    )
    state = drive_in_time(study, executor, clock, 60)
    assert (state.status, len(state.trials)) == (FINISHED, 30)
    check_books(study, executor)
    check_judged(study)
    born = origins(study)
    # While a member hung, the others went on.
    assert sum(1 for origin in born.values() if origin["member"] == 3) < 30 / 4
    told = {trial: data["state"] for _, trial, _, data in stored_events(study, "told")}
    for trial, origin in born.items():
        for parent, steps in zip(origin["parents"], origin["parent_steps"], strict=True):
            assert told[parent] == "finished"
            assert steps == born[parent]["steps"]
        assert origin["steps"] == (origin["parent_steps"] or [0])[0] + 8, trial


@pytest.mark.slow
def test_a_steady_population_learns_from_its_intervals(tmp_path):
    study = population_study(
        tmp_path,
        trials=48,
        executor=jobs(5),
        generations={"name": "steady"},
        explore={"name": "model", "optimism": 0.2},
        selection={"name": "truncation", "share": 0.5, "confidence": 0.6},
    )
    clock = Clock()
    drive_in_time(study, FakeExecutor(teaching=teaching), clock, 60)
    check_judged(study)
    children = [origin for origin in origins(study).values() if origin["is_child"]]
    rates = [child["params"]["host.optim.args.lr"] for child in children[len(children) // 2 :]]
    assert rates
    near = sum(3e-3 < rate < 3e-2 for rate in rates)  # the best is 1e-2, of four decades
    assert near / len(rates) > 0.6


def test_matches_of_past_champions(tmp_path):
    matches_of = {"num_games": 64, "num_samples": 50, "archive": 2}
    study = population_study(tmp_path, trials=24, matches=matches_of)
    drive(study, FakeExecutor(teaching=teaching))
    champions = [data["champion"] for *_, data in stored_events(study, "bred") if data["match"]]
    for number, (*_, data) in enumerate(stored_events(study, "match_called")):
        playing = set(data["members"].values())
        past = [
            fromkey
            for fromkey in dict.fromkeys(reversed(champions[:number]))
            if fromkey not in playing
        ]
        assert data["archive"] == past[:2][::-1]


def test_no_archive(tmp_path):
    matches_of = {"num_games": 16, "num_samples": 50, "archive": 0}
    study = population_study(tmp_path, trials=12, matches=matches_of)
    drive(study, FakeExecutor(teaching=teaching))
    assert all(data["archive"] == [] for *_, data in stored_events(study, "match_called"))
    assert set(Counter(origin["generation"] for origin in origins(study).values()).values()) == {4}


def _events(study):
    """Return kind, trial and time of all events."""
    rows = query(study, "SELECT kind, trial, at FROM hpsearch_events ORDER BY id")
    return [Row(*row) for row in rows]


def _called_at(study):
    return [event.at for event in _events(study) if event.kind == "match_called"]
