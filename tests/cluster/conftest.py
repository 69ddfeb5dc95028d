"""Study folders with trials, as the driver leaves them for a job, and pilots with their slots."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from working import work

from hpsearch import yaml_file
from hpsearch.cluster import job_training, worker
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.job_training import JobTraining
from hpsearch.cluster.member import Member
from hpsearch.cluster.records import Assignment, Control, Fresh, JobPlan, Lineage
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.cluster.team import Team
from hpsearch.monitor.snapshot import JobPlace


@pytest.fixture(scope="session")
def new_job():
    """Return a function (study folder, configurations, attempt) -> JobDir of one job."""

    def make(root, configs, attempt=1):
        study = StudyDir(root)
        assignments = []
        for number, config in enumerate(configs):
            token = f"token-{number}-{attempt}"
            trial = study.trial(number)
            trial.create(yaml_file.dump(config), Lineage(Fresh(), 0))
            trial.control.write(Control(token, None))
            assignments.append(Assignment(number, attempt, token))
        job = study.job(f"job-{attempt}")
        job.plan.write(JobPlan(tuple(assignments), 1, pilot_seconds=0.0, refills=False))
        return job

    return make


@pytest.fixture
def run(tmp_path, new_job, plain_config):
    """Return a function (changes of each member, algorithm, attempt) -> job that has run."""

    def run(*members, algorithm="dqn", attempt=1, root=tmp_path / "study"):
        job = new_job(root, [plain_config(member, algorithm) for member in members], attempt)
        work(str(job.root))
        return job

    return run


class Prepared(NamedTuple):
    """The training of a job of one trial, before it begins."""

    training: JobTraining
    job: JobDir


@pytest.fixture
def prepared(tmp_path, new_job, plain_config):
    job = new_job(tmp_path, [plain_config()])
    members = [Member.open(job.study, given) for given in job.plan.required().assignments]
    place = JobPlace("study", job.name, job.textfile, job.traces)
    heartbeats, flag = Heartbeats(job.heartbeat, 2.0), StopFlag()
    training = JobTraining(members, flag, place, heartbeats, job.timeline, Team(flag))
    return Prepared(training, job)


@pytest.fixture(scope="module", autouse=True)
def same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def no_waiting(monkeypatch):
    monkeypatch.setattr(job_training, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.01)


@pytest.fixture
def pilot(tmp_path, plain_config, no_waiting):
    """Return a function (first trials, later ones) -> a job; the later ones lie ready."""

    def make(first, later=(), *, algorithm="dqn", attempt=1, root=tmp_path / "study", **plan):
        study = StudyDir(root)
        given = []
        for number, changes in enumerate([*first, *later]):
            trial = study.trial(number)
            trial.create(yaml_file.dump(plain_config(changes, algorithm)), Lineage(Fresh(), 0))
            trial.control.write(Control(f"token-{number}-{attempt}", None))
            given.append(Assignment(number, attempt, f"token-{number}-{attempt}"))
        job = study.job(f"job-{attempt}")
        own = JobPlan(tuple(given[: len(first)]), 1, pilot_seconds=0.3, refills=True)
        job.plan.write(replace(own, **plan))
        return job, given[len(first) :]

    return make


@pytest.fixture
def alone(tmp_path, pilot):
    """Return a function (changes, algorithm) -> the trial trained by itself."""

    def train(changes, algorithm="dqn"):
        root = tmp_path / f"alone-{changes['seed']}"
        job, _ = pilot([changes], algorithm=algorithm, root=root, pilot_seconds=0.0)
        work(str(job.root))
        return job.study.trial(0)

    return train
