"""A cluster in virtual time: nodes with GPUs, a queue, a scheduler's states, and what goes wrong.

Time moves in `SimulatedCluster.advance` alone, from one thing that happens to the next. Everything
random is drawn from the seed: the wait in the queue and the lifetime of a job from its id, the
lifetime of a node from its number. With rate r an hour, a lifetime has the density r e^(-r t).

Simulated are first-come-first-served placement, queue waits, walltime, preemption with and without
a warning, failing nodes and their repair, processes that go on writing on a node that was given up,
crashes, and too little memory. Not simulated are priorities, other users, backfilling, partitions,
the network, and slow file systems: a job starts on the first node with room.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Protocol

HOUR = 3600.0


@dataclass(frozen=True)
class Faults:
    """How often machines and jobs fail; rates are events an hour of one running job or node."""

    queue_seconds: float = 0.0
    """mean wait of a job before it may start, beside the wait for room"""
    walltime: float = inf
    """seconds after which a job is ended"""
    preemptions: float = 0.0
    """an hour and job"""
    warned: float = 0.5
    """share of the preempted jobs that may save before they leave"""
    node_failures: float = 0.0
    """an hour and node; all its jobs vanish"""
    repair_seconds: float = 600.0
    """until the node is back"""
    zombies: float = 0.0
    """share of the jobs of a failed node that go on writing although they are given up"""
    crashes: float = 0.0
    """an hour and job that ends without a word"""
    out_of_memory: float = 0.0
    """an hour and job that is ended for the memory it takes"""
    hangs: float = 0.0
    """an hour and job that does nothing more, hears nothing, and keeps its GPUs"""


class Work(Protocol):
    """What runs in a job; times are seconds of the cluster's clock."""

    def begin(self, now: float) -> float | None:
        """Start; return the seconds until `go_on`, None if the work is over."""
        ...

    def go_on(self, now: float) -> float | None:
        """Do what is due; return the seconds until the next `go_on`, None if the work is over."""
        ...

    def leave(self, now: float) -> None:
        """Save and leave."""
        ...

    def vanish(self, now: float) -> None:
        """End in the middle of whatever it is doing."""
        ...


@dataclass
class Task:
    """A job as the scheduler knows it."""

    id: str
    name: str
    work: Work
    gpus: int
    state: str = "PENDING"
    """as squeue names it"""
    node: int = -1
    """on which it runs"""
    is_zombie: bool = False
    hangs: bool = False

    @property
    def is_live(self) -> bool:
        """Return whether it waits or runs."""
        return self.state in ("PENDING", "RUNNING")


class SimulatedCluster:
    """Nodes, a queue and a clock.

    Attributes:
        now: seconds since the epoch, as far as anybody on the cluster knows.
        num_gpus: of all nodes.
        busy: (time, GPUs that are taken from then on), a pair for each change.
        tasks: all jobs that were ever submitted, by id.
        live: those that wait or run.
    """

    def __init__(
        self,
        num_nodes: int,
        gpus_per_node: int,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        now: float = 1_000_000.0,
    ) -> None:
        """Begin with all nodes up and nothing to do."""
        self.now = now
        self.num_gpus = num_nodes * gpus_per_node
        self.tasks: dict[str, Task] = {}
        self.live: dict[str, Task] = {}
        self.busy: list[tuple[float, int]] = [(now, 0)]
        self._faults = faults or Faults()
        self._seed = seed
        self._gpus_per_node = gpus_per_node
        self._room = dict.fromkeys(range(num_nodes), gpus_per_node)
        """free GPUs of the nodes that are up and have some"""
        self._on_node: list[dict[str, Task]] = [{} for _ in range(num_nodes)]
        self._queue: deque[Task] = deque()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._num_planned = 0
        for node in range(num_nodes):
            self._plan_failure(node)

    def clock(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let so much time pass, and do what falls into it."""
        end = self.now + seconds
        while self._agenda and self._agenda[0][0] <= end:
            at, _, action = heapq.heappop(self._agenda)
            self.now = max(self.now, at)
            action()
        self.now = max(self.now, end)

    def submit(self, names: Sequence[str], works: Sequence[Work], gpus: int) -> list[str]:
        """Put jobs into the queue and return their ids."""
        tasks = [
            Task(f"{len(self.tasks) + index + 1}", name, work, gpus)
            for index, (name, work) in enumerate(zip(names, works, strict=True))
        ]
        for task in tasks:
            self.tasks[task.id] = self.live[task.id] = task
            self._plan(self._wait(task), lambda task=task: self._enqueue(task))  # type: ignore[misc]
        self.advance(0.0)
        return [task.id for task in tasks]

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after so many seconds."""
        self._plan(seconds, action)

    def terminate(self, task: Task) -> None:
        """Let a running job save and leave; one that waits is taken out of the queue."""
        if task.state != "RUNNING":
            self.cancel(task)
        elif not task.hangs:
            task.work.leave(self.now)
            self._end(task, "COMPLETED")

    def cancel(self, task: Task) -> None:
        """End a job at once."""
        if task.state == "RUNNING":
            task.work.vanish(self.now)
        if task.is_live:
            self._end(task, "CANCELLED")

    def lose_power(self) -> None:
        """End every process at once, in the middle of whatever it is doing."""
        for task in self.tasks.values():
            task.is_zombie = False
        for task in list(self.live.values()):
            self._break(task, "NODE_FAIL")

    # Starting.

    def _wait(self, task: Task) -> float:
        mean = self._faults.queue_seconds
        return self._random("queue", task.id).expovariate(1 / mean) if mean > 0 else 0.0

    def _enqueue(self, task: Task) -> None:
        if task.is_live:
            self._queue.append(task)
            self._fill()

    def _fill(self) -> None:
        """Start jobs as long as the first in the queue has room."""
        while self._queue:
            task = self._queue[0]
            if task.is_live:
                node = next((n for n, free in self._room.items() if free >= task.gpus), None)
                if node is None:
                    return
                self._queue.popleft()
                self._start(task, node)
            else:
                self._queue.popleft()

    def _start(self, task: Task, node: int) -> None:
        task.state, task.node = "RUNNING", node
        self._on_node[node][task.id] = task
        self._take(node, task.gpus)
        self._plan_faults(task)
        self._next(task, task.work.begin(self.now))

    def _next(self, task: Task, seconds: float | None) -> None:
        if seconds is not None:
            self._plan(seconds, lambda: self._go_on(task))
        elif task.state == "RUNNING":
            self._end(task, "COMPLETED")

    def _go_on(self, task: Task) -> None:
        if (task.state == "RUNNING" and not task.hangs) or task.is_zombie:
            self._next(task, task.work.go_on(self.now))

    # Ending.

    def _end(self, task: Task, state: str) -> None:
        if task.state == "RUNNING":
            del self._on_node[task.node][task.id]
            self._take(task.node, -task.gpus)
        task.state = state
        del self.live[task.id]
        self._fill()

    def _take(self, node: int, gpus: int) -> None:
        """Take GPUs of a node, or give them back."""
        self._room[node] = self._room.get(node, 0) - gpus
        if not self._room[node]:
            del self._room[node]
        self.busy.append((self.now, self.busy[-1][1] + gpus))

    def _break(self, task: Task, state: str) -> None:
        """End a running job without a word."""
        if task.state == "RUNNING":
            task.work.vanish(self.now)
            self._end(task, state)

    def _preempt(self, task: Task, *, warned: bool) -> None:
        if task.state == "RUNNING" and warned and not task.hangs:
            task.work.leave(self.now)
            self._end(task, "PREEMPTED")
        else:
            self._break(task, "PREEMPTED")

    def _hang(self, task: Task) -> None:
        if task.state == "RUNNING":
            task.work.vanish(self.now)
            task.hangs = True

    def _plan_faults(self, task: Task) -> None:
        """Draw what will become of a job that starts, should nothing else come first."""
        faults, random = self._faults, self._random("job", task.id)
        warned = random.random() < faults.warned
        moments: list[tuple[float, Callable[[], None]]] = [
            (_lifetime(random, faults.preemptions), lambda: self._preempt(task, warned=warned)),
            (_lifetime(random, faults.crashes), lambda: self._break(task, "FAILED")),
            (_lifetime(random, faults.out_of_memory), lambda: self._break(task, "OUT_OF_MEMORY")),
            (_lifetime(random, faults.hangs), lambda: self._hang(task)),
        ]
        seconds, action = min(moments, key=lambda moment: moment[0])
        if seconds < inf:
            self._plan(seconds, action)
        if faults.walltime < inf:
            self._plan(faults.walltime, lambda: self._break(task, "TIMEOUT"))

    # Nodes.

    def _plan_failure(self, node: int) -> None:
        random = self._random("node", f"{node} from {self.now}")
        seconds = _lifetime(random, self._faults.node_failures)
        if seconds < inf:
            self._plan(seconds, lambda: self._fail(node, random))

    def _fail(self, node: int, random: Random) -> None:
        tasks = list(self._on_node[node].values())
        self._room.pop(node, None)
        for task in tasks:
            task.is_zombie = random.random() < self._faults.zombies
            if not task.is_zombie:
                task.work.vanish(self.now)
            task.state = "NODE_FAIL"
            del self.live[task.id]
        self._on_node[node].clear()
        gpus = sum(task.gpus for task in tasks)
        self.busy.append((self.now, self.busy[-1][1] - gpus))
        self._plan(self._faults.repair_seconds, lambda: self._repair(node))

    def _repair(self, node: int) -> None:
        self._room[node] = self._gpus_per_node
        self._plan_failure(node)
        self._fill()

    def _plan(self, seconds: float, action: Callable[[], None]) -> None:
        self._num_planned += 1  # of two things at the same time, the one planned first comes first
        heapq.heappush(self._agenda, (self.now + seconds, self._num_planned, action))

    def _random(self, purpose: str, which: str) -> Random:
        return Random(f"{self._seed}/{purpose}/{which}")


def _lifetime(random: Random, rate: float) -> float:
    """Return seconds until something that happens ``rate`` times an hour."""
    return random.expovariate(rate / HOUR) if rate > 0 else inf
