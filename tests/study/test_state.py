"""The fold over the events: by hand, and the same however the events are cut."""

import random
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpsearch.study.events import Event
from hpsearch.study.records import PlannedTrial
from hpsearch.study.state import StudyState


class Story:
    """Events with growing ids, about trials that begin, run and end."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(
        self, kind: str, /, trial: int | None = None, job: str | None = None, **data: Any
    ) -> None:
        number = len(self.events) + 1
        self.events.append(Event(number * 3, kind, 10.0 * number, trial, None, job, data))

    def announce(self, job: str, *trials: tuple[int, int]) -> None:
        self.tell("announced", job=job, trials=plans(*trials))

    def end_attempt(self, trial: int, status: str, step: int) -> None:
        self.tell("attempt_ended", trial, status=status, step=step, kind=None, message="")

    def tell_end(
        self, trial: int, how: str, value: float | None = None, failure: str | None = None
    ) -> None:
        ended = {"value": value, "metrics": {}, "failure": failure, "message": ""}
        self.tell("told", trial, state=how, **ended)


CHILD = PlannedTrial("1-0", 0, 1, (0,), (8,), {"name": "clone"}, True, {}, steps=16)
UNTRAINED = replace(CHILD, key="2-0", steps=8)


def plans(*trials: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"trial": n, "attempt": k, "token": f"token-{n}-{k}"} for n, k in trials]


def fold(events: list[Event]) -> StudyState:
    state = StudyState()
    state.apply(events)
    return state


def test_a_story_by_hand() -> None:
    story = Story()
    story.tell("started")
    for number in range(4):
        story.tell("asked", number, params={"x": number / 2})
    story.announce("00001", (0, 1), (1, 1))
    story.announce("00002", (2, 1))
    story.tell("submitted", job="00001", id="17")
    story.tell("reported", 0, step=4, value=0.5, prune=False, rungs=1)
    story.tell("reported", 0, step=8, value=0.25, prune=True, rungs=2)
    story.tell_end(0, "pruned")
    story.end_attempt(1, "lost", 4)
    state = fold(story.events)
    assert (state.status, state.started_at, state.last_event) == ("running", 10.0, 36)
    assert state.counts() == {"finished": 0, "running": 1, "waiting": 2, "pruned": 1, "failed": 0}
    assert [trial.number for trial in state.waiting()] == [1, 3]
    assert [trial.number for trial in state.unfinished()] == [1, 2, 3]
    assert [(job.name, job.id) for job in state.live_jobs()] == [("00001", "17"), ("00002", None)]
    live = [(trial.number, job.name) for trial, job in state.live_attempts()]
    assert live == [(0, "00001"), (2, "00002")]  # the pruned one still has to leave
    pruned = state.trials[0]
    assert (pruned.reported, pruned.prune, pruned.rungs) == ({4: 0.5, 8: 0.25}, True, 2)
    assert (pruned.params, pruned.token, pruned.attempts) == ({"x": 0.0}, "token-0-1", 1)
    story.tell("interrupting", job="00002")
    state = fold(story.events)
    assert [job.interrupted for job in state.live_jobs()] == [False, True]
    story.tell("job_ended", job="00001")
    story.announce("00003", (1, 2))
    story.tell_end(1, "finished", 0.75)
    story.end_attempt(1, "finished", 16)
    story.tell("ended", status="failed")
    state = fold(story.events)
    assert state.status == "failed"
    assert [job.name for job in state.live_jobs()] == ["00002", "00003"]
    told = state.trials[1]
    assert (told.told, told.value, told.attempts, told.job) == ("finished", 0.75, 2, "00003")
    story.tell("started")
    state = fold(story.events)
    assert (state.status, state.started_at) == ("running", 10.0)  # hours count from the first


def test_groups_of_one_job_that_overlap() -> None:
    """A job has as many slots as its largest group; what it was given later is as live."""
    story = Story()
    for number in range(4):
        story.tell("asked", number, params={})
    story.tell("announced", job="00001", gpus=1.0, pilot=True, trials=plans((0, 1), (1, 1)))
    story.end_attempt(0, "finished", 8)
    story.announce("00001", (2, 1))
    story.announce("00001", (3, 1))
    state = fold(story.events)
    job = state.jobs["00001"]
    assert (sorted(job.running), job.slots, len(job.groups)) == ([1, 2, 3], 2, 3)
    assert [trial.number for trial, _ in state.live_attempts()] == [1, 2, 3]
    assert all(state.is_shared(state.trials[number]) for number in (1, 2, 3))
    for number in (2, 1, 3):
        assert job.running
        story.tell("attempt_ended", number, status="failed", step=0, kind="oom_gpu", message="")
        state = fold(story.events)
        job = state.jobs["00001"]
    assert not job.running
    # One of a group of its own shared the GPU too.
    assert all(state.trials[number].is_alone for number in (1, 2, 3))
    assert [loss.gpus for loss in state.trials[2].losses] == [0.5]
    story.announce("00002", (2, 2))
    story.end_attempt(2, "interrupted", 8)
    assert fold(story.events).trials[2].is_alone  # whatever its later attempts end of


def test_a_job_of_one_trial_shares_its_gpu_with_none() -> None:
    story = Story()
    story.tell("asked", 0, params={})
    assert not fold(story.events).is_shared(fold(story.events).trials[0])
    story.announce("00001", (0, 1))
    assert not fold(story.events).is_shared(fold(story.events).trials[0])


def test_losses_in_a_row() -> None:
    story = Story()
    story.tell("asked", 0, params={})
    ends = [
        ("lost", 0, 1),
        ("lost", 0, 2),
        ("lost", 5, 0),  # got further
        ("lost", 5, 1),
        ("interrupted", 5, 1),  # says nothing of the trial: it may not even have begun
        ("lost", 3, 2),
        ("interrupted", 6, 0),
    ]
    for attempt, (status, step, expected) in enumerate(ends, start=1):
        story.announce(f"{attempt:05d}", (0, attempt))
        story.end_attempt(0, status, step)
        assert fold(story.events).trials[0].lost == expected
    assert fold(story.events).trials[0].step == 6


def test_an_attempt_that_never_began_ends_no_row_of_losses() -> None:
    """Else a trial that ends every job, of which some are refused, would be tried for ever."""
    story = Story()
    story.tell("asked", 0, params={})
    for attempt, (status, began) in enumerate(
        [("lost", True), ("interrupted", False), ("lost", True)], start=1
    ):
        story.announce(f"{attempt:05d}", (0, attempt))
        ended = {"status": status, "step": 0, "kind": None, "message": "", "began": began}
        story.tell("attempt_ended", 0, **ended)
    assert fold(story.events).trials[0].lost == 2


@pytest.mark.parametrize("others_go_on", [False, True])
def test_the_failure_of_one_of_several_programs_leaves_their_job_open(others_go_on: bool) -> None:
    story = Story()
    for number in range(2):
        story.tell("asked", number, params={})
    story.announce("00001", (0, 1), (1, 1))
    ended = {"status": "failed", "step": 4, "kind": "code", "message": ""}
    story.tell("attempt_ended", 0, **ended, others_go_on=others_go_on)
    assert fold(story.events).jobs["00001"].is_leaving == (not others_go_on)


def test_trials_count_against_the_budget_once_each() -> None:
    """One that tries a failed one again is in the place of that one."""
    story = Story()
    for number in range(3):
        assert fold(story.events).num_asked == number
        story.tell("asked", number, params={})
    story.announce("00001", (0, 1), (1, 1), (2, 1))
    story.tell_end(0, "failed", failure="error")
    assert fold(story.events).num_done == 1
    story.tell("requested", id="one", verb="retry", trials=[0])
    story.tell("asked", 3, params={}, retry_of=0)
    state = fold(story.events)
    assert (state.num_asked, state.num_done) == (3, 0)
    story.tell("asked", 4, params={}, origin=asdict(UNTRAINED))
    state = fold(story.events)
    assert (state.num_asked, state.num_done) == (3, 0)


def test_only_failures_of_training_count_as_failures() -> None:
    """Not what a user cancelled or tries again, nor a child that was never to train."""
    story = Story()
    ends: list[tuple[str, PlannedTrial | None, int]] = [
        ("error", None, 1),
        ("cancelled", None, 1),
        ("nan", None, 2),
        ("error", CHILD, 3),
        ("error", UNTRAINED, 3),
    ]
    for number, (failure, origin, expected) in enumerate(ends):
        origins = {} if origin is None else {"origin": asdict(origin)}
        story.tell("asked", number, params={}, **origins)
        story.announce(f"{number + 1:05d}", (number, 1))
        story.tell_end(number, "failed", failure=failure)
        assert fold(story.events).num_failures() == expected
    story.tell("requested", id="one", verb="retry", trials=[1, 2])  # the first counted for none
    assert fold(story.events).num_failures() == 2


def test_a_study_is_undecided_until_nothing_is_left_to_train_or_to_judge() -> None:
    story = Story()

    def bred(match: int | None, *children: PlannedTrial) -> None:
        told = {"champion": 0, "strengths": {}, "intervals": {}, "game": None, "answers": []}
        story.tell("bred", match=match, children=[asdict(child) for child in children], **told)

    def is_undecided() -> bool:
        return fold(story.events).is_undecided

    bred(None, CHILD)
    assert not is_undecided()  # the budget may be spent before it is asked for
    story.tell("asked", 0, params={}, origin=asdict(CHILD))
    assert is_undecided()
    story.announce("00001", (0, 1))
    story.tell_end(0, "finished", 0.5)
    assert is_undecided()
    story.tell("match_called", match=1, members={"0": 0}, ended=[0], archive=[])
    assert is_undecided()
    bred(1)
    assert not is_undecided()
    story.tell("closing", number=1, is_last=False, children=[asdict(UNTRAINED)])
    assert is_undecided()
    story.tell("asked", 1, params={}, origin=asdict(UNTRAINED))
    story.announce("00002", (1, 1))
    story.tell_end(1, "failed", failure="error")
    story.tell("match_called", match=2, members={"0": 0}, ended=[0], archive=[])
    bred(2)
    assert not is_undecided()
    story.tell("requested", id="one", verb="retry", trials=[1])
    assert is_undecided()


def test_a_match_that_was_lost_is_tried_as_often_again_by_the_next_driver() -> None:
    story = Story()
    story.tell("match_called", match=1, members={}, ended=[], archive=[])
    for job in ("00001", "00002"):
        story.tell("announced", job=job, trials=[], match=1)
        story.tell("job_ended", job=job, seen=True)
    assert fold(story.events).population.matches[1].failures == 2
    story.tell("started")
    assert fold(story.events).population.matches[1].failures == 0


@pytest.mark.parametrize(
    ("happened", "ended", "failures"),
    [
        ((), {"seen": True}, 1),
        ((), {"seen": True, "kind": "timeout"}, 1),
        ((), {"seen": True, "kind": "preempted"}, 0),  # the cluster's doing
        (("interrupting",), {"seen": True}, 0),
        ((), {"seen": False}, 0),  # it never reached the cluster
        (("interrupting", "match_silent"), {"seen": True}, 1),
    ],
)
def test_which_jobs_count_as_having_failed_to_play_a_match(
    happened: tuple[str, ...], ended: dict[str, Any], failures: int
) -> None:
    story = Story()
    story.tell("match_called", match=1, members={}, ended=[], archive=[])
    story.tell("announced", job="00001", trials=[], match=1)
    for kind in happened:
        story.tell(kind, job="00001")
    story.tell("job_ended", job="00001", **ended)
    match = fold(story.events).population.matches[1]
    assert (match.failures, match.waits) == (failures, True)


@pytest.mark.parametrize(
    ("status", "kind", "began", "flags"),
    [
        ("finished", None, True, ""),
        ("pruned", None, True, ""),
        ("interrupted", None, False, ""),  # its job was refused
        ("interrupted", None, True, "lost leaving"),
        ("failed", "nan", True, "lost"),  # which leaves the others of its job training
        ("failed", "diverged", True, "lost"),
        ("failed", "code", True, "lost leaving"),
        ("failed", "oom_gpu", True, "lost leaving alone"),
        ("lost", "silent", True, "lost leaving silent"),
    ],
)
def test_what_the_end_of_an_attempt_says_of_its_trial_and_its_job(
    status: str, kind: str | None, began: bool, flags: str
) -> None:
    story = Story()
    for number in range(2):
        story.tell("asked", number, params={})
    story.announce("00001", (0, 1), (1, 1))
    story.tell("attempt_ended", 0, status=status, step=8, kind=kind, message="", began=began)
    story.tell("attempt_ended", 1, status="failed", step=8, kind="nan", message="")
    state = fold(story.events)
    trial, job = state.trials[0], state.jobs["00001"]
    seen = {"lost": trial.losses, "leaving": job.is_leaving, "alone": trial.is_alone}
    seen["silent"] = job.is_silent
    assert {name for name, is_so in seen.items() if is_so} == set(flags.split())
    assert [loss.kind for loss in trial.losses] == ([kind or status] if trial.losses else [])


def test_the_step_that_was_kept_is_the_last_one_that_is_known() -> None:
    story = Story()
    story.tell("asked", 0, params={})
    ends = [({"kept": 8}, 8), ({"kept": None}, 8), ({}, 8), ({"kept": 4}, 4)]
    for attempt, (told, expected) in enumerate(ends, start=1):
        story.announce(f"{attempt:05d}", (0, attempt))
        story.tell("attempt_ended", 0, status="lost", step=8, kind="lost", message="", **told)
        assert fold(story.events).trials[0].kept == expected


def test_what_was_made_again_is_lost_by_the_attempt_before() -> None:
    story = Story()
    story.tell("asked", 0, params={})
    lost = {"message": "", "began": True}
    for attempt, (kind, seconds, repeated) in enumerate(
        (("node_fail", 2.0, 0.0), ("timeout", 5.0, 4.0), ("timeout", 1.0, 3.0)), start=1
    ):
        job = f"{attempt:05d}"
        story.tell("announced", job=job, gpus=2.0, trials=plans((0, attempt)))
        ended = {"status": "lost", "step": 0, "kind": kind}
        times = {"lost_seconds": seconds, "repeated_seconds": repeated}
        story.tell("attempt_ended", 0, **lost, **ended, **times)
    state = fold(story.events)
    assert [loss.seconds for loss in state.trials[0].losses] == [2.0 + 4.0, 5.0 + 3.0, 1.0]
    lost_by_kind = {
        kind: (lost.attempts, lost.seconds, lost.gpu_seconds)
        for kind, lost in state.tally.lost.items()
    }
    assert lost_by_kind == {"node_fail": (1, 6.0, 12.0), "timeout": (2, 9.0, 18.0)}


def random_story(rng: random.Random, length: int) -> list[Event]:
    """Return events as they may follow each other; the state tells what may come next."""
    story, state = Story(), StudyState()
    story.tell("started")
    for _ in range(length):
        state = fold(story.events)
        waiting, live = state.waiting(), list(state.live_attempts())
        match rng.randrange(7):
            case 0:
                story.tell("asked", len(state.trials), params={"x": rng.random()})
            case 1 if waiting:
                chosen = rng.sample(waiting, rng.randint(1, len(waiting)))
                name = f"{len(state.jobs) + 1:05d}"
                story.announce(name, *((trial.number, trial.attempts + 1) for trial in chosen))
            case 2 if state.live_jobs():
                story.tell("submitted", job=rng.choice(state.live_jobs()).name, id="1")
            case 3 if live:
                trial, _ = rng.choice(live)
                step, prune = len(trial.reported) + 1, rng.random() < 0.2
                told = {"value": rng.random(), "prune": prune, "rungs": step}
                story.tell("reported", trial.number, step=step, **told)
            case 4 if live:
                trial, _ = rng.choice(live)
                status = rng.choice(["lost", "interrupted", "finished"])
                story.end_attempt(trial.number, status, rng.randrange(20))
            case 5 if state.unfinished():
                trial = rng.choice(state.unfinished())
                story.tell_end(trial.number, rng.choice(["finished", "pruned", "failed"]), 0.5)
            case 6 if state.live_jobs():
                story.tell("job_ended", job=rng.choice(state.live_jobs()).name)
    return story.events


@given(st.randoms(use_true_random=False), st.data())
def test_the_state_is_the_same_however_the_events_are_cut(
    rng: random.Random, data: st.DataObject
) -> None:
    events = random_story(rng, 40)
    whole = fold(events)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(events)))))
    state = StudyState()
    for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        state.apply(events[start:end])
    assert state == whole
    assert state.last_event == events[-1].id
    asked = sum(event.kind == "asked" for event in events)
    assert sum(whole.counts().values()) == len(whole.trials) == asked
    assert all(trial.told is None for trial in whole.waiting())
