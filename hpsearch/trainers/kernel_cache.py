"""The loops of the CPU, compiled by one process, for which others wait.

numba keeps what it compiles on disk, where all jobs of this code find it. But jobs that begin
together would all compile the same, and where their processors differ, numba's index of one folder
may name the other's program.

python -m hpsearch.trainers.kernel_cache compiles what training in 3 dimensions needs, by one thread
and by several, beside each other.
"""

import hashlib
import multiprocessing
import platform
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path

import llvmlite.binding as llvm
import numba
import torch
from filelock import FileLock

from hpsearch.game import random, rules
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import cpu, cpu_loops, interface
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE
from hpsearch.game.rules import GameConfig
from hpsearch.trainers import dqn_cpu, moves_cpu, norms_cpu, policies_cpu, ppo_cpu, products_cpu
from hpsearch.trainers.config.optim import AdamArgs
from hpsearch.trainers.moves import Rings, Targets
from hpsearch.trainers.optim import Adam, TargetWeights, Update, adam_cpu
from hpsearch.trainers.ppo_loss import LossCoefficients, Moves
from hpsearch.trainers.rollouts import Transitions

GAMES = (interface, cpu_loops, random, rules, policies_cpu)
UPDATES = (adam_cpu, moves_cpu, norms_cpu, products_cpu, dqn_cpu, ppo_cpu)
LONGEST_SECONDS = 120.0
"""for which others wait: a process that is killed lets go of its lock, but one may be stopped"""


def is_compiled(dimension: int) -> bool:
    """Return whether a process has compiled what training in so many dimensions needs."""
    mark = _mark(dimension)
    return mark is not None and mark.exists()


def compile_kernels(dimension: int) -> None:
    """Compile what training in so many dimensions needs, by this process's number of threads.

    Does nothing where another process has done so, and waits where one compiles, whatever for: two
    that write numba's index of a function at once may let it name the other's program.
    """
    mark = _mark(dimension)
    if mark is None:  # numba may write nowhere, so each process compiles for itself
        _use_all(dimension)
        return
    if mark.exists():
        return
    # A marker file instead of the system's lock could outlive the process that made it.
    lock = FileLock(
        mark.with_name("compiling.lock"), timeout=LONGEST_SECONDS, fallback_to_soft=False
    )
    with suppress(OSError):  # no locks on this file system, or it took too long: compile beside it
        lock.acquire()
    try:
        _compile(dimension, mark)
    finally:
        lock.release()


def _compile(dimension: int, mark: Path) -> None:
    if not mark.exists():
        _use_all(dimension)
        with suppress(OSError):  # a full disk: the others compile for themselves
            mark.touch()


def _mark(dimension: int) -> Path | None:
    """Return the file that is there once all is compiled; None where numba has no folder."""
    folder = cpu_loops.reduce_rows.stats.cache_path  # type: ignore[attr-defined]
    if folder is None:
        return None
    total = hashlib.sha256()
    for module in (*GAMES, *UPDATES):
        total.update(Path(str(module.__file__)).read_bytes())
    # As numba does: programs of one processor are none of another one.
    about = (
        numba.__version__,
        platform.python_version(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        type(cpu_loops.unrolled(dimension)).__name__,
        dimension if dimension in cpu_loops.UNROLLED else "any",
        torch.get_num_threads() > 1 or THREADS_MAY_CHANGE.is_set(),
    )
    total.update(repr(about).encode())
    return Path(folder) / f"compiled-{total.hexdigest()[:16]}"


def _use_all(dimension: int) -> None:
    """Call every loop once, with as little as there can be."""
    config = GameConfig(
        dimension=dimension,
        max_num_points=2,
        max_value=1,
        max_steps=1,
        reposition=True,
        reward="terminal",
    )
    none = torch.zeros(1, dtype=torch.int64)
    game = FusedGame(config, none, 1, "cpu", "cpu", observes=True)
    game.step(none[None], none[None])
    subset = torch.ones(1, 1, dimension, dtype=torch.bool)
    cpu.move(game.points, subset, none[None], True)
    cpu.zeillinger(game.points)
    cpu.uniform(none, none, 1)
    weights, number = torch.zeros(1, 1), torch.zeros(1)
    update = Update(weights.clone(), number, number, torch.ones(1, dtype=torch.bool))
    adam = Adam(weights, [AdamArgs(lr=1.0, beta1=0.0, beta2=0.0, eps=1.0)])
    adam.step(weights, update, TargetWeights(weights.clone(), number))
    row, ints, true = weights, none[None], torch.ones(1, 1, dtype=torch.bool)
    rings = Rings(game.points, row[None], ints, ints, row, true, true)
    policies_cpu.chosen("values", row[None], true[None], torch.zeros(1, 1, 2), row)
    moves_cpu.write(rings, rings, none)
    moves_cpu.draw(row, none, 1, 1)
    moves_cpu.look_up(rings, 1, places=ints, weight=row, added=none, gamma=number, n_step=1)
    norms_cpu.batch_norm(row, number, number, (number.clone(), number.clone()), training=True)
    norms_cpu.derive_batch_norm(row, row, number, number, number, training=True)
    norms_cpu.derive_layer_norm(row, row, row, row)
    products_cpu.derive_biased(row, row, "none", row.clone())
    products_cpu.apply_linear(row, products_cpu.LinearViews(row, row, number), "none")
    dqn_cpu.backed_up(row[None], row[None], true[None], row, row)
    dqn_cpu.temporal_difference(row[None], Targets(ints, row, row, true, number))
    moves = Moves(row[None], true[None], ints, row, row, row, row)
    rollout = Transitions(*[row[None]] * len(Transitions._fields))  # mostly not looked at
    rollout = rollout._replace(done=true[None], truncated=true[None])
    ppo_cpu.advantages(rollout, row[None], row[None], number, number)
    ppo_cpu.losses(row[None], row, moves, LossCoefficients(row, row, number, number))


def _compile_for(num_threads: int) -> None:
    """Compile by a number of threads, without a lock: of what both need, each writes the same."""
    torch.set_num_threads(num_threads)
    mark = _mark(dimension=3)
    if mark is not None:
        _compile(3, mark)


if __name__ == "__main__":
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as processes:
        list(processes.map(_compile_for, (1, 2)))  # raises what one of them raises
