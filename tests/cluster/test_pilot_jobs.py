"""Pilots: jobs that train what they are given while they run, and leave when there is no more."""

import os
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest
from working import work

from hpsearch.cluster import team, worker
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.member import Member
from hpsearch.cluster.records import Control, Fresh, Lineage
from hpsearch.cluster.study_dir import JobDir
from hpsearch.cluster.team import Team
from hpsearch.trainers.algorithms import build_trainer


@pytest.fixture
def pilot(tmp_path, new_job, plain_config):
    """A job of the first trial that waits for more; the second trial lies ready."""
    configs = [plain_config({"seed": 1, "steps": 12}), plain_config({"seed": 2, "steps": 14})]
    job = new_job(tmp_path, configs)
    plan = job.plan.required()
    job.plan.write(replace(plan, assignments=plan.assignments[:1], pilot_seconds=30.0))
    return job, plan.assignments[1]


def ended(job, number: int) -> str | None:
    result = job.study.trial(number).attempt(1).read_result()
    return None if result is None else result.status


def test_a_pilot_trains_what_it_is_given_until_there_is_no_more(pilot) -> None:
    job, second = pilot
    job.write_next(1, [second])
    job.write_next(2, [])
    work(str(job.root))
    assert [ended(job, 0), ended(job, 1)] == ["finished", "finished"]


def test_a_pilot_builds_one_trainer_for_all_trials_of_a_shape(pilot, monkeypatch) -> None:
    """What was compiled for the first serves the second, which begins afresh."""
    job, second = pilot
    job.write_next(1, [second])
    job.write_next(2, [])
    built = []
    monkeypatch.setattr(
        team, "build_trainer", lambda *parts: built.append(build_trainer(*parts)) or built[0]
    )
    work(str(job.root))
    assert [ended(job, 0), ended(job, 1)] == ["finished", "finished"]
    assert len(built) == 1
    assert built[0].configs[0].seed == Member.open(job.study, second).config.seed


def test_a_pilot_that_is_given_nothing_leaves(pilot) -> None:
    job, _ = pilot
    job.plan.write(replace(job.plan.required(), pilot_seconds=0.5))
    work(str(job.root))
    assert [ended(job, 0), ended(job, 1)] == ["finished", None]


def test_a_pilot_waits_for_what_comes_in_its_time(pilot, monkeypatch) -> None:
    job, second = pilot
    times, to_come = SimpleNamespace(now=100.0), [([second], 1), ([], 2)]

    def sleep(seconds: float) -> None:
        times.now += 10.0
        if to_come:
            assignments, number = to_come.pop(0)
            job.write_next(number, assignments)

    clock = SimpleNamespace(monotonic=lambda: times.now, sleep=sleep)
    monkeypatch.setattr(worker, "time", clock)
    work(str(job.root))
    assert [ended(job, 0), ended(job, 1)] == ["finished", "finished"]


@pytest.mark.parametrize("given", [{"match": 7}, {}], ids=["a match", "the end"])
def test_a_pilot_waits_no_longer_than_until_a_match_or_the_end_comes(pilot, monkeypatch, given):
    """Which comes while it sleeps for the second time of four."""
    job, _ = pilot
    queue = TrialQueue(job, replace(job.plan.required(), assignments=()), Member.open)
    flag, slept = StopFlag(), []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            job.write_next(1, **given)

    clock = SimpleNamespace(monotonic=lambda: 100.0 + sum(slept), sleep=sleep)
    monkeypatch.setattr(worker, "time", clock)
    team, heard = Team(flag), []
    monkeypatch.setattr(team, "listen", lambda: heard.append("heard"))
    worker._wait(queue, 2.0, flag, team)
    assert slept == [0.5] * 2
    assert len(heard) == 2  # so that a signal to any rank reaches all
    assert queue.waiting == []


def test_a_pilot_that_waits_leaves_when_it_is_asked_to(pilot, monkeypatch) -> None:
    job, _ = pilot
    look = JobDir.read_next

    def stop_and_look(self, number):
        os.kill(os.getpid(), signal.SIGTERM)
        return look(self, number)

    monkeypatch.setattr(JobDir, "read_next", stop_and_look)
    work(str(job.root))
    assert [ended(job, 0), ended(job, 1)] == ["finished", None]


def test_a_pilot_ends_its_next_trials_as_a_job_of_their_own_would(pilot, tmp_path, new_job) -> None:
    job, second = pilot
    job.write_next(1, [second])
    job.write_next(2, [])
    work(str(job.root))
    alone = new_job(tmp_path / "alone", [])
    trial = alone.study.trial(second.trial)
    trial.create(job.study.trial(second.trial).config.read_text(), Lineage(Fresh(), 0))
    trial.control.write(Control(second.token, None))
    alone.plan.write(replace(alone.plan.required(), assignments=(second,)))
    work(str(alone.root))
    results = [run.study.trial(second.trial).attempt(1).read_result() for run in (job, alone)]
    assert results[0] == results[1]
