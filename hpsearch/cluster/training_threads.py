"""The threads of a process that trains on a CPU: as many as other programs leave cores.

Threads that spin while they wait share short work well where they have their cores to themselves.
Where another program needs a core too, they are several times slower than one thread. So training
looks at the cores again and again, and its number of threads follows, where it changes no digit.
"""

import os
import time

import psutil
import torch

from hpsearch.cluster.machine import num_cores
from hpsearch.cluster.threads import may_spin
from hpsearch.game.kernels.threads import MAY_CHANGE
from hpsearch.trainers.trainer import AnyTrainer

SHORTEST_SECONDS = 0.2
"""between two looks: over less, the system's clock of idle cores says little"""
ENOUGH_OF_A_CORE = 0.75
"""what must be left of a core for a thread on it; monitors and shells take little"""


class TrainingThreads:
    """The threads of a process that trains."""

    def __init__(self, most: int) -> None:
        """Let torch have ``most`` threads, and fewer later where other programs need the cores.

        Where the environment says how threads wait, as a user may, their number stays.
        """
        torch.set_num_threads(most)
        self._most, self._cores = most, CoresLeft()
        self._may_change = most > 1 and may_spin()
        if self._may_change:
            MAY_CHANGE.set()

    def adapt(self, trainer: AnyTrainer) -> None:
        """Have the number of threads with which ``trainer`` should make its next steps."""
        if not self._may_change:
            return
        count = self._most
        if trainer.config.can_change_threads():
            left = self._cores.look()
            if left is None:
                return
            if not all(learner.net.has_layers_by_member for learner in trainer.learners):
                count = min(count, trainer.num_members)  # each one's products by one thread
            count = max(1, min(count, int(left + 1 - ENOUGH_OF_A_CORE)))
        torch.set_num_threads(count)


class CoresLeft:
    """How many of its cores other programs leave to this process."""

    def __init__(self) -> None:
        self._seen_at, self._not_others = time.monotonic(), _seconds_not_of_others()

    def look(self) -> float | None:
        """Return how many there were on average since the last look; None if that was just now."""
        now = time.monotonic()
        if now - self._seen_at < SHORTEST_SECONDS:
            return None
        seconds, not_others = now - self._seen_at, _seconds_not_of_others()
        left = (not_others - self._not_others) / seconds
        self._seen_at, self._not_others = now, not_others
        return left


def _seconds_not_of_others() -> float:
    """Return for how long this process's cores have been idle or its own, in total."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(num_cores())
    times = psutil.cpu_times(percpu=True)
    idle = sum(times[core].idle for core in cores if core < len(times))
    return float(idle) + time.process_time()
