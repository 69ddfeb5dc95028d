"""The threads of a process that trains on a CPU: as many as other programs leave cores.

Threads that spin while they wait share short work well where they have their cores to themselves.
Where another program needs a core too, they are several times slower than one thread. So training
looks at the cores again and again, and its number of threads follows, where it changes no digit.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from hpsearch.cluster.threads import may_spin
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE, threads
from hpsearch.trainers.trainer import AnyTrainer

SHORTEST_SECONDS = 0.2
"""between two looks: over less, the system's clock of idle cores says little"""
ENOUGH_OF_A_CORE = 0.75
"""what must be left of a core for a thread on it; monitors and shells take little"""
_IDLE = slice(3, 5)
"""where a line of /proc/stat has the time in which a core did nothing, or waited for a disk"""


class TrainingThreads:
    """The threads of a process that trains."""

    def __init__(self, most: int) -> None:
        """Let torch have ``most`` threads, and fewer within `adapted`.

        Their number stays where a user says how threads wait, and where the system does not tell
        how long cores are idle.
        """
        torch.set_num_threads(most)
        self._most = most
        self._cores: CoresLeft | None = None
        if most > 1 and may_spin() and hasattr(os, "sched_getaffinity"):
            cores = sorted(os.sched_getaffinity(0))
            if idle_seconds(cores) is not None:
                self._cores = CoresLeft(cores)
                THREADS_MAY_CHANGE.set()

    @contextmanager
    def adapted(self, trainer: AnyTrainer) -> Iterator[None]:
        """Have as many threads in the block as ``trainer`` should have now."""
        with threads(self._number_for(trainer)):
            yield

    def _number_for(self, trainer: AnyTrainer) -> int:
        if self._cores is None or not trainer.config.can_change_threads():
            return self._most
        number = min(self._most, int(self._cores.look() + 1 - ENOUGH_OF_A_CORE))
        if not all(learner.net.has_layers_by_member for learner in trainer.learners):
            number = min(number, trainer.num_members)  # each one's products by one thread
        return max(1, number)


class CoresLeft:
    """How many of some cores other programs leave to this process."""

    def __init__(self, cores: Sequence[int]) -> None:
        self._cores, self._left = cores, float(len(cores))
        self._seen_at, self._not_others = time.monotonic(), self._seconds_not_of_others()

    def look(self) -> float:
        """Return how many there have been on average since the last look, all at the beginning.

        A look just after another one returns the same.
        """
        now = time.monotonic()
        if now - self._seen_at >= SHORTEST_SECONDS:
            not_others = self._seconds_not_of_others()
            self._left = (not_others - self._not_others) / (now - self._seen_at)
            self._seen_at, self._not_others = now, not_others
        return self._left

    def _seconds_not_of_others(self) -> float:
        """Return for how long in total the cores have been idle, or this process's."""
        return (idle_seconds(self._cores) or 0.0) + time.process_time()


def idle_seconds(cores: Sequence[int]) -> float | None:
    """Return for how long in total these cores have been idle; None where the system tells not."""
    try:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        ticks = {name: sum(map(int, numbers[_IDLE])) for name, *numbers in lines}
        return sum(ticks[f"cpu{core}"] for core in cores) / os.sysconf("SC_CLK_TCK")
    except (OSError, KeyError):  # another system, or a container that hides the machine's cores
        return None
