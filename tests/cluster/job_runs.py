"""What the tests of a job's training share: rules, and what a job has left."""

import json

import torch

from hpsearch.errors import DiskError
from hpsearch.trainers import checkpoint

METRIC = "rho/host/choose_first"
SAVING = {"checkpoint.interval": 2, "checkpoint.keep_last": 99}


def result(job, number=0, attempt=1):
    return job.study.trial(number).attempt(attempt).read_result()


def tensors_of(job, number: int, step: int) -> dict:
    folder = job.study.trial(number).checkpoints
    return checkpoint.load(checkpoint.path_of(folder, step)).tensors


def equal(tensors: dict, other: dict) -> bool:
    return tensors.keys() == other.keys() and all(
        torch.equal(tensors[name].view(torch.uint8), other[name].view(torch.uint8))
        if tensors[name].dim()
        else torch.equal(tensors[name], other[name])
        for name in tensors
    )


def steps_of(job, number: int = 0) -> list[int]:
    return sorted(checkpoint.valid_steps(job.study.trial(number).checkpoints))


def log_steps(job, number: int = 0) -> list[int]:
    lines = job.study.trial(number).training_log.read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def full_disk():
    raise DiskError("the disk is full")
