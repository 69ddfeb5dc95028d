"""What writing checkpoints in the background gains: seconds of steps with a save every so many.

    python tests/benchmarks/background_checkpoints.py --repeats 3 --folder /tmp --ranks 2

Two contenders take turns: one waits until each checkpoint is on disk, the other trains on. Both
write the same. It prints, of each case, the median seconds of both, the ratio in each repetition,
the seconds of steps without saves, for how long a save stopped training, and the megabytes of a
checkpoint.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from configurations import dqn_config

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.meeting import local_team
from hpsearch.cluster.member import Member, Slots
from hpsearch.cluster.records import Assignment, Fresh, Lineage
from hpsearch.cluster.schedule import CheckpointPolicy
from hpsearch.cluster.study_dir import TrialDir
from hpsearch.cluster.team import Team
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config import TrainerConfig

WIDE = {"net_arch": [1024, 1024, 1024]}
NUM_SAVES = 4


def cases(device: str, shards: int) -> dict[str, tuple[TrainerConfig, int]]:
    """Return by name a configuration, and the steps between two saves."""
    common = {"device": device, "shards": shards}
    large = {"buffer_size": 400_000, "save": True, "prioritised": None}
    return {
        "dqn, as shipped": (dqn_config(common, {}), 200),
        "dqn, 400,000 moves": (dqn_config(common | {"replay_buffer": large}, {}), 200),
        "dqn, 3 layers of 1024": (dqn_config(common, WIDE), 10),
    }


class Run:
    def __init__(self, config: TrainerConfig, folder: Path, team: Team) -> None:
        trial = TrialDir(folder)
        folder.mkdir()
        own, lineage = trial.attempt(1), Lineage(Fresh(), 0)
        member = Member(Assignment(0, 1, "t"), trial, own, config, "m", lineage, ())
        self.team, self.policy = team, CheckpointPolicy(config, team)
        self.blocked: dict[bool, list[float]] = {False: [], True: []}
        """by whether it waits: the seconds for which each save stopped training"""
        self.team.build([config])
        self.slots, self.folder = Slots([member], self.team), trial.checkpoints
        self._train(10)  # compiles, and records

    def _train(self, steps: int) -> None:
        self.team.train(steps)
        self.slots.read_steps()

    def seconds(self, interval: int, *, saves: bool, waits: bool) -> float:
        """Return what steps take with a save after each ``interval``; the last one is awaited."""
        began = time.perf_counter()
        for _ in range(NUM_SAVES):
            self._train(interval)
            saving = time.perf_counter()
            if saves:
                self.policy.save(self.slots, 0, checkpoint.PERIODIC)
            if waits:
                self.policy.wait()
            if saves:
                self.blocked[waits].append(time.perf_counter() - saving)
        self._train(interval)  # beside which the last one may be written
        self.policy.wait()
        return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1, help="processes that train together")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, help="where the checkpoints go, for a while")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with local_team(options.ranks, options.threads, StopFlag()) as team:
        compare(options, team)


def compare(options: argparse.Namespace, team: Team) -> None:
    for name, (config, interval) in cases(options.device, options.ranks).items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            run = Run(config, Path(folder) / "trial", team)
            waiting, going_on, plain = [], [], []
            for _ in range(options.repeats):
                waiting.append(run.seconds(interval, saves=True, waits=True))
                going_on.append(run.seconds(interval, saves=True, waits=False))
                plain.append(run.seconds(interval, saves=False, waits=False))
            run.policy.close()
            newest = checkpoint.newest(run.folder)
            assert newest is not None
            size = sum(file.stat().st_size for file in newest.iterdir()) / 1e6
        ratios = [f"{b / a:.2f}" for a, b in zip(waiting, going_on, strict=True)]
        times = [f"{statistics.median(every):.2f} s" for every in (waiting, going_on, plain)]
        print(f"{name}: waits {times[0]}, trains on {times[1]}, without saves {times[2]};", end=" ")
        blocked = [f"{statistics.median(run.blocked[waits]):.3f} s" for waits in (True, False)]
        print(f"ratios {', '.join(ratios)}; a save stops training for", end=" ")
        print(f"{blocked[0]}, {blocked[1]}; {size:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
