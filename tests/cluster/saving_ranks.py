"""Two ranks that save, and into which faults are put: prints what the first one sees of it."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from hpsearch import yaml_file
from hpsearch.cluster.failures import RankLostError, StopFlag
from hpsearch.cluster.meeting import local_team
from hpsearch.cluster.member import Member, Slots
from hpsearch.cluster.records import Assignment, Fresh, Lineage
from hpsearch.cluster.schedule import CheckpointPolicy
from hpsearch.cluster.study_dir import JobDir, TrialDir
from hpsearch.cluster.team import Team
from hpsearch.cluster.worker import run_job
from hpsearch.monitor.monitor import JobMonitor
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import read_config
from hpsearch.trainers.dqn import DQNTrainer
from hpsearch.trainers.trainer import AnyTrainer, Trainer

WRITE = checkpoint.write_tensors
FREE = threading.Event()


def hold_disk(trainer: AnyTrainer) -> None:
    """Let the second rank's writes wait until `free_disk`."""

    def held(path, tensors):
        FREE.wait(60)
        WRITE(path, tensors)

    if trainer.ranks.rank == 1:
        checkpoint.write_tensors = held


def free_disk(trainer: AnyTrainer) -> None:
    FREE.set()


def fill_disk(trainer: AnyTrainer) -> None:
    def full(path, tensors):
        raise OSError(28, "No space left on device")

    if trainer.ranks.rank == 1:
        checkpoint.write_tensors = full


def save_at_once(trainer: AnyTrainer, folder: Path) -> None:
    trainer.save(folder, 0)


def kill_later(trainer: AnyTrainer) -> None:
    if trainer.ranks.rank == 1:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()


def files_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


class Saving:
    def __init__(self, team: Team, folder: Path, config: str) -> None:
        own = read_config(yaml_file.parse(config), source="test")
        trial = TrialDir(folder / "trial")
        given, lineage = Assignment(0, 1, "t"), Lineage(Fresh(), 0)
        member = Member(given, trial, trial.attempt(1), own, "m", lineage, ())
        team.build([own])
        self.team, self.folder = team, trial.checkpoints
        self.slots, self.policy = Slots([member], team), CheckpointPolicy(own, team)

    def train(self, steps: int) -> None:
        self.team.train(steps)
        self.slots.read_steps()

    def save(self) -> None:
        self.policy.save(self.slots, 0, checkpoint.PERIODIC)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name[0] != ".")


def beside(team: Team, folder: Path, config: str) -> dict:
    saving, at_once = Saving(team, folder, config), folder / "at once"
    saving.train(3)
    team.do_together(save_at_once, at_once)
    team.do(hold_disk)
    saving.save()
    saving.train(4)  # changes every tensor in place
    saving.policy.settle()
    told = {"held": [saving.names(), [*saving.policy.saved]]}
    team.do(free_disk)
    saving.save()  # which waits for the one before
    told["next"] = [saving.names()[:1], [*saving.policy.saved.values()]]
    saving.policy.wait()
    told["saved"] = [saving.names(), [*saving.policy.saved.values()]]
    expected = files_of(checkpoint.path_of(at_once, 3))
    told["files"] = sorted(expected)
    told["is_same"] = files_of(checkpoint.path_of(saving.folder, 3)) == expected
    team.do(fill_disk)
    saving.train(1)
    saving.save()
    try:
        saving.policy.wait()
    except OSError as error:
        told["full"] = str(error)
    saving.policy.close()
    return told | {"left": sorted(path.name for path in saving.folder.iterdir())}


def lost(team: Team, folder: Path, config: str) -> dict:
    saving = Saving(team, folder, config)
    saving.train(3)
    team.do(hold_disk)
    saving.save()
    team.do(kill_later)
    try:
        saving.policy.wait()
    except RankLostError as error:
        saving.policy.close()
        left = sorted(path.name for path in saving.folder.iterdir())
        return {"message": str(error), "left": left}
    return {}


# Jobs in which something fails.

FAULTS = {
    "of the first rank alone": (JobMonitor, "after_steps", (0,)),
    "of all ranks alike": (Trainer, "evaluate", (0, 1)),
    "of the second rank alone": (Trainer, "evaluate", (1,)),
    "of all ranks within a step": (DQNTrainer, "_learn", (0, 1)),
}


def put_fault(team: Team, case: str) -> None:
    """Let the third call fail."""
    owner, name, ranks = FAULTS[case]
    action, calls = getattr(owner, name), []

    def failing(*arguments, **options):
        calls.append(name)
        if len(calls) == 3:
            raise ZeroDivisionError("division by zero")
        return action(*arguments, **options)

    if team.ranks.rank in ranks:
        setattr(owner, name, failing)


def main(case: str, folder: str, config: str) -> None:
    with local_team(2, 1, StopFlag()) as team:
        if case == "beside":
            print(json.dumps(beside(team, Path(folder), config)))
        elif case == "lost":
            print(json.dumps(lost(team, Path(folder), config)))
            sys.stdout.flush()
            os._exit(0)  # what is lost is not waited for
        else:
            team.together(put_fault, case)
            run_job(JobDir(Path(folder)), StopFlag(), team)
