"""Trains cases on several ranks, stage after stage, and saves what came of them.

    python tests/train_ranks.py RANK FOLDER

A process of its own, because torch.distributed has one default group. FOLDER holds stages.json, and
is where the ranks meet; the state of each case goes to STAGE/CASE-RANK.pt.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import numba
import torch
from torch import distributed

from hpsearch.population.crossplay import PlayerGroup, crossplay, scripted_groups
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.policies import FixedRatePolicy
from hpsearch.trainers.ranks import Ranks
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.trainer import AnyTrainer


def train(case: dict, ranks: Ranks) -> dict:
    trainer = build_trainer(
        [read_config(config, source="test") for config in case["configs"]], ranks
    )
    members = range(trainer.num_members)
    if "load" in case:
        for member in members:
            path = checkpoint.newest(Path(case["load"]) / str(member))
            assert path is not None
            trainer.load(path, member)
    trainer.train(case["steps"])
    if "save" in case:
        for member in members:
            trainer.save(Path(case["save"]) / str(member), member)
    return {
        "state": trainer.state(),
        "places": trainer.places(),
        "statistics": trainer.statistics(),
        "evaluation": repr(trainer.evaluate(num_games=5, split="test")),
        "match": match(trainer),
    }


@torch.no_grad()
def match(trainer: AnyTrainer) -> tuple[list, list]:
    """Return moves and ends of games between all members, or with a scripted player.

    They draw moves, so the games depend on the noise too.
    """
    sides = []
    for role, policy in zip(ROLES, (trainer.host_policy, trainer.agent_policy), strict=True):
        if role in trainer.config.learning():
            names = tuple(map(str, range(trainer.num_members)))
            sides.append((PlayerGroup(names, FixedRatePolicy(policy, 0.5)),))
        else:
            sides.append(scripted_groups(["random"]))
    played = crossplay(
        *sides,
        game_config(trainer.config),
        num_games=5,
        max_steps=20,
        split="match",
        device=trainer.device,
        ranks=trainer.ranks,
    )
    return played.moves.tolist(), played.finished.tolist()


def main(rank: int, folder: Path) -> None:
    numba.get_num_threads()
    torch.set_num_threads(1)
    for stage, plan in json.loads((folder / "stages.json").read_text()).items():
        if rank >= plan["size"]:
            continue
        distributed.init_process_group(
            "gloo",
            init_method=f"file://{folder / stage}-meeting",
            rank=rank,
            world_size=plan["size"],
            timeout=timedelta(seconds=1400),
        )
        (folder / stage).mkdir(exist_ok=True)
        for name, case in plan["cases"].items():
            torch.save(train(case, Ranks(rank, plan["size"])), folder / stage / f"{name}-{rank}.pt")
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
