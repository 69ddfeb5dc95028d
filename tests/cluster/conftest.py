"""A study folder with trials, as the driver leaves it for a job."""

import pytest
import torch

from hpsearch import yaml_file
from hpsearch.cluster.messages import Assignment, Control, JobPlan
from hpsearch.cluster.study_dir import StudyDir


@pytest.fixture(scope="session")
def new_job():
    """Return a function (study folder, configurations, attempt) -> JobDir of one job."""

    def make(root, configs, attempt=1):
        study = StudyDir(root)
        assignments = []
        for number, config in enumerate(configs):
            token = f"token-{number}-{attempt}"
            trial = study.trial(number)
            trial.create(yaml_file.dump(config), {"parents": []})
            trial.write_control(Control(token, None))
            assignments.append(Assignment(number, attempt, token))
        job = study.job(f"job-{attempt}")
        job.write(JobPlan(tuple(assignments), 1, pilot_seconds=0.0, refills=False))
        return job

    return make


@pytest.fixture(scope="module", autouse=True)
def same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
