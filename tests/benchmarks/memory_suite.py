"""The memory of a population, each in a process of its own.

What is counted is the most that the process has held: on a CPU its resident memory less that of a
process that has only imported torch and numba, on a GPU what torch has reserved there.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from own_memory import peak_megabytes
from setting import Setting
from training_suites import Trains, dqn_step, in_turn, plain_trainer, ppo_step, sizes_of

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import TrainerConfig

RUNS = 2
ALGORITHMS = {"dqn": dqn_step, "ppo": ppo_step}
SIZES = (1, 32, 128)
PLAIN, OURS = "plain eager", "hpsearch"
NOTHING = "imports alone"


def memory(setting: Setting) -> Iterator[dict[str, object]]:
    """Measure populations of learners with narrow networks."""
    for algorithm in setting.pick(full=tuple(ALGORITHMS), quick=("dqn",)):
        empty = _megabytes(setting, algorithm, NOTHING, 0)
        ways = [(PLAIN, 1), *((OURS, size) for size in SIZES)]
        ways = setting.pick(full=ways, quick=ways[:1])
        for contender, members in ways:
            used = _megabytes(setting, algorithm, contender, members) - empty
            yield setting.context() | {
                "case": f"{algorithm} memory",
                "sizes": sizes_of(_config(setting, algorithm)),
                "contender": contender,
                "members": members,
                "megabytes": f"{used:.0f}",
                "megabytes_a_member": f"{used / members:.1f}",
                "imports_megabytes": f"{empty:.0f}",
            }


def _config(setting: Setting, algorithm: str) -> TrainerConfig:
    return ALGORITHMS[algorithm](setting, setting.pick(full=32, quick=8))


def _megabytes(setting: Setting, algorithm: str, contender: str, members: int) -> float:
    """Return the most that a process held that trained so many members."""
    given = [setting.device.type, str(int(setting.quick)), algorithm, contender, str(members)]
    command = [sys.executable, __file__, *given]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    megabytes: float = json.loads(done.stdout.splitlines()[-1])
    return megabytes


def _train(device: str, quick: str, algorithm: str, contender: str, members: str) -> None:
    """Train, and print the most megabytes that were held."""
    torch.set_num_threads(1)
    setting = Setting(torch.device(device), bool(int(quick)))
    config = _config(setting, algorithm)
    configs = [replace(config, seed=seed) for seed in range(int(members))]
    trainers: dict[str, Callable[[], list[Trains]]] = {
        NOTHING: lambda: [],
        PLAIN: lambda: [plain_trainer(config) for config in configs],
        OURS: lambda: [build_trainer(configs)],
    }
    run = in_turn(trainers[contender](), config)
    for _ in range(RUNS):
        run()
    if device == "cuda":
        print(torch.cuda.max_memory_reserved() / 1e6)
    else:
        print(peak_megabytes())


if __name__ == "__main__":
    _train(*sys.argv[1:])
