"""Two ranks, of which the second one fails or is asked to stop: prints what the first learns.

Prints a line for each case; one that fails ends the process, so it comes last.
"""

import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

from hpsearch import yaml_file
from hpsearch.cluster.failures import RankLostError, StopFlag, stop_flag
from hpsearch.cluster.meeting import local_team
from hpsearch.cluster.records import JobHeartbeat
from hpsearch.cluster.team import Team
from hpsearch.errors import HpsearchError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import read_config
from hpsearch.trainers.trainer import AnyTrainer


def fail(trainer: AnyTrainer) -> None:
    if trainer.ranks.rank == 1:
        raise MemoryError("too much")


def terminate_later(trainer: AnyTrainer) -> None:
    if trainer.ranks.rank == 1:
        Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()


def ask_for_save(trainer: AnyTrainer) -> None:
    if trainer.ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGUSR1)


def save_on_a_broken_disk(trainer: AnyTrainer, folder: str) -> None:
    """Save where the second rank cannot write, in a call of all ranks."""
    if trainer.ranks.rank == 1:
        checkpoint.write_tensors = partial(_raise, OSError(28, "No space left on device"))
    trainer.save(Path(folder), 0)


def _raise(error: Exception, *arguments: object) -> None:
    raise error


def rank(trainer: AnyTrainer) -> int:
    return trainer.ranks.rank


def slow_down(trainer: AnyTrainer) -> None:
    if trainer.ranks.rank == 1:
        learn = trainer._learn
        # Longer than other programs keep a rank waiting for a core.
        trainer._learn = lambda: (time.sleep(1.0), learn())


def main(config: str, *cases: str) -> None:
    with stop_flag() as flag, local_team(2, 1, flag) as team:
        team.build([read_config(yaml_file.parse(config), source="test")])
        for case in cases:
            began = time.monotonic()
            try:
                told = what_comes_of(case, team, flag)
            except (HpsearchError, OSError) as error:
                kind = error.kind if isinstance(error, RankLostError) else None
                notes = getattr(error, "__notes__", [])
                told = {"kind": kind, "message": str(error), "notes": notes}
                print(json.dumps(told | {"seconds": time.monotonic() - began}))
                sys.stdout.flush()
                os._exit(0)  # as after any error, the others are left to learn of it by themselves
            print(json.dumps(told | {"is_stopped": flag.is_set, "rank": team.do(rank)}))


def what_comes_of(case: str, team: Team, flag: StopFlag) -> dict[str, object]:
    match case:
        case "memory":
            team.do(fail)
        case "wait":
            team.do(terminate_later)
            while not flag.is_set:
                team.listen()
        case "save":
            team.do(ask_for_save)
            return {"is_save_asked": flag.is_save_asked}
        case "full":
            with TemporaryDirectory() as folder:
                team.do_together(save_on_a_broken_disk, folder)
        case "slow":
            team.do(slow_down)
            team.train(10)
            ranks = tuple(team.heartbeats)
            beat = JobHeartbeat(0.0, "", 0, False, 1.0, (), ranks)
            return {"straggler": beat.straggler, "steps": [rank.step for rank in ranks]}
    return {}
