"""What the tests of births share: parents that have learned, and children to create from them."""

from dataclasses import replace
from pathlib import Path

import torch

from hpsearch import yaml_file
from hpsearch.cluster.records import Assignment, Control, JobPlan, Lineage, Parent
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.population.operators.options import (
    AlignedAverage,
    Clone,
    Distillation,
    DistillationCrossover,
    GaussianMutation,
    HostAndAgent,
    LayerCrossover,
    SafeMutation,
    UnitCrossover,
)
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer

PAIR = {"agent": "learn"}
BIRTH = 8
"""the step of most parents"""
LEARNING = Distillation(
    num_steps=5,
    batch_size=16,
    lr=1e-2,
    beta1=0.9,
    beta2=0.999,
    eps=1e-8,
    temperature=0.1,
    value_weight=0.5,
    compare="raw",
)
ONE_PARENT = {
    "clone": Clone(),
    "gaussian_mutation": GaussianMutation("gaussian_mutation", 0.1),
    "safe_mutation": SafeMutation("safe_mutation", 0.2),
}
TWO_PARENTS = {
    "host_and_agent": HostAndAgent(),
    "layer_crossover": LayerCrossover("layer_crossover", 0.5),
    "unit_crossover": UnitCrossover("unit_crossover", 0.5),
    "aligned_average": AlignedAverage("aligned_average", 0.5),
    "distillation": DistillationCrossover("distillation", LEARNING),
}
MIXTURES = [name for name in TWO_PARENTS if name != "host_and_agent"]


def parents_in(folder: Path, configs, steps=BIRTH) -> list[Path]:
    """Train a parent of each configuration; return their checkpoints."""
    trainer = build_trainer(configs)
    trainer.train(steps)
    return [trainer.save(folder / str(member), member) for member in range(len(configs))]


def lineage(operator, parents, seed=5, **changes) -> Lineage:
    return Lineage(operator, seed, tuple(Parent(None, str(path)) for path in parents), **changes)


def give(study: StudyDir, number: int, config, origin: Lineage, attempt=1) -> Assignment:
    """Write a trial's folder as the driver does."""
    token = f"token-{number}-{attempt}"
    trial = study.trial(number)
    trial.create(yaml_file.dump(config), origin)
    trial.control.write(Control(token, None))
    return Assignment(number, attempt, token)


def job_of(study: StudyDir, assignments, name="job-1", **plan) -> JobDir:
    job = study.job(name)
    own = JobPlan(tuple(assignments), 1, pilot_seconds=0.0, refills=False)
    job.plan.write(replace(own, **plan))
    return job


def saved(trial, step: int) -> checkpoint.Checkpoint:
    return checkpoint.load(checkpoint.path_of(trial.checkpoints, step))


def assert_same_state(state, other) -> None:
    """Assert that two checkpoints hold the same, bit for bit."""
    assert state.tensors.keys() == other.tensors.keys()
    for name, tensor in state.tensors.items():
        assert torch.equal(tensor, other.tensors[name]), name
