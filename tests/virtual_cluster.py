"""An executor whose jobs run on a simulated cluster, for tests of the driver and its benchmarks.

The cluster is in `simulated_cluster`, what its jobs do in `simulated_job`; here are the calls of
the scheduler and what goes wrong with them. They cost virtual time, stay without an answer whether
or not they had an effect, are refused, and tell what was true a moment ago, or the same job twice.
`tests/contract/test_executors.py` holds it against the executors of this machine.

A cluster in virtual time: nodes with GPUs, a queue, a scheduler's states, and what goes wrong.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random
from typing import Protocol

from virtual_job import Course, SimulatedJob

from hpsearch.cluster.executor import JobStatus, SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.slurm_calls import meaning
from hpsearch.cluster.study_dir import JobDir

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
        now: seconds since the epoch, as far as the cluster's nodes know.
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


_ORDER = ("queued", "running", "ended")


@dataclass(frozen=True)
class CallFaults:
    """What goes wrong with calls of the scheduler; shares of the calls, and seconds."""

    slow: float = 0.0
    """that take up to `slow_seconds`"""
    slow_seconds: float = 20.0
    lost: float = 0.0
    """that get no answer; half of them have an effect all the same"""
    late_seconds: float = 60.0
    """within which jobs of such a submission appear"""
    refused: float = 0.0
    """submissions that are refused"""
    stale: float = 0.0
    """looks that tell what the look before told, without what was submitted since"""
    repeated: float = 0.0
    """looks that tell every job twice, once as it was at the look before"""


class SimulatedExecutor:
    """Jobs of one study on a simulated cluster."""

    max_jobs: int | None = None

    def __init__(
        self,
        cluster: SimulatedCluster,
        course: Course,
        *,
        seed: int = 0,
        faults: CallFaults | None = None,
        max_batch: int = 1000,
        patience: float = 120.0,
        gpus_per_job: int = 1,
        pilot_seconds: float = 0.0,
    ) -> None:
        """Submit to ``cluster`` jobs whose trials take the given course."""
        self.max_batch = max_batch
        self.patience = patience
        self.num_threads = self.ranks = 1
        self._strays: list[Task] = []
        self.pilot_seconds = pilot_seconds
        self.gpus_per_job = float(gpus_per_job)
        self.num_calls = 0
        self._cluster = cluster
        self._course = course
        self._faults = faults or CallFaults()
        self._random = Random(f"{seed}/calls")
        self._by_name: dict[str, Task] = {}
        self._before: dict[str, JobStatus] = {}
        """what was true at the last look"""

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        """Put the jobs into the queue by one call."""
        is_lost = self._call()
        if self._happens(self._faults.refused):
            raise SubmissionRefusedError("the limit of jobs of this user is reached")
        if is_lost:
            if self._happens(0.5):
                late = self._random.uniform(0.0, self._faults.late_seconds)
                self._cluster.later(late, lambda: self._enter(jobs))
            raise SchedulerSilentError("sbatch gave no answer")
        self._enter(jobs)
        return {job.name: self._by_name[job.name].id for job in jobs}

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Ask once for all jobs."""
        if not jobs:
            return {}
        if self._call():
            raise SchedulerSilentError("squeue gave no answer")
        wanted = {job.name for job, _ in jobs}
        before, self._before = self._before, self._statuses(wanted)
        if self._happens(self._faults.stale):
            return {name: status for name, status in before.items() if name in wanted}
        self._strays = [task for task in self._cluster.live.values() if task.name not in wanted]
        answers = [self._before, before] if self._happens(self._faults.repeated) else [self._before]
        return _furthest(
            (name, status)
            for answer in answers
            for name, status in answer.items()
            if name in wanted
        )

    def cancel_strays(self) -> None:
        """End the jobs that the driver had not asked about."""
        for task in self._strays:
            self._cluster.cancel(task)
        self._strays = []

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Take those that wait out of the queue, then let running jobs save and leave."""
        for task in sorted(self._reached(jobs), key=lambda task: task.state != "PENDING"):
            if task.is_live:
                self._cluster.terminate(task)

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End the jobs at once."""
        for task in self._reached(jobs):
            self._cluster.cancel(task)

    def log(self, job: JobDir, job_id: str) -> Path:
        """Return the name of a file that is never written."""
        return job.root / f"{job_id}_0_log.out"

    def _enter(self, jobs: Sequence[JobDir]) -> None:
        works = [self._work(job) for job in jobs]
        names = [job.name for job in jobs]
        ids = self._cluster.submit(names, works, int(self.gpus_per_job))
        for name, job_id in zip(names, ids, strict=True):
            self._by_name[name] = self._cluster.tasks[job_id]

    def _work(self, job: JobDir) -> Work:
        """Return what runs in a job."""
        return SimulatedJob(job, self._course)

    def _statuses(self, names: set[str]) -> dict[str, JobStatus]:
        known = (self._by_name[name] for name in sorted(names) if name in self._by_name)
        return {task.name: JobStatus(task.id, *meaning(task.state)) for task in known}

    def _reached(self, jobs: Sequence[tuple[JobDir, str]]) -> Iterator[Task]:
        """Yield the jobs that a call reaches; a lost one may reach them all the same."""
        if not jobs:
            return
        is_lost = self._call()
        if not is_lost or self._happens(0.5):
            yield from (self._by_name[job.name] for job, _ in jobs if job.name in self._by_name)
        if is_lost:
            raise SchedulerSilentError("scancel gave no answer")

    def _call(self) -> bool:
        """Count a call, let it take its time, and return whether its answer is lost."""
        self.num_calls += 1
        if self._happens(self._faults.slow):
            self._cluster.advance(self._random.uniform(0.0, self._faults.slow_seconds))
        return self._happens(self._faults.lost)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._random.random() < share


def _furthest(rows: Iterator[tuple[str, JobStatus]]) -> dict[str, JobStatus]:
    """Return one status a job, the furthest of those that are told of it."""
    statuses: dict[str, JobStatus] = {}
    for name, status in rows:
        known = statuses.get(name)
        if known is None or _ORDER.index(known.phase) < _ORDER.index(status.phase):
            statuses[name] = status
    return statuses
