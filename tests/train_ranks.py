"""Trains the cases of a file on one of several ranks, and saves what came of them.

    python tests/train_ranks.py RANK SIZE FOLDER

A process of its own, because torch.distributed has one default group. FOLDER holds cases.json, and
is where the ranks meet; the state of each case goes to CASE-RANK.pt.
"""

import json
import sys
from pathlib import Path

import numba
import torch
from torch import distributed

from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import read_config
from hpsearch.trainers.ranks import Ranks


def main(rank: int, size: int, folder: Path) -> None:
    numba.get_num_threads()
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
    for name, case in json.loads((folder / "cases.json").read_text()).items():
        configs = [read_config(config, source="test") for config in case["configs"]]
        trainer = build(configs, Ranks(rank, size))
        trainer.train(case["steps"])
        content = {
            "state": trainer.state(),
            "places": trainer.places(),
            "statistics": trainer.statistics(),
        }
        torch.save(content, folder / f"{name}-{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
