"""A simulated cluster on which time passes as the driver works; what the driver's parts take."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from virtual_cluster import SimulatedCluster, SimulatedExecutor
from virtual_job import Course

from hpsearch.cluster.executor import JobStatus
from hpsearch.cluster.study_dir import JobDir
from hpsearch.study.driver import Driver
from hpsearch.study.jobs import Jobs
from hpsearch.study.results import Results
from hpsearch.study.trials import Trials

PARTS = ("ask", "submit", "look", "tell")


class LiveClock:
    """Lets virtual time pass as the driver works, without what the simulation takes."""

    def __init__(self, cluster: SimulatedCluster, seconds: Callable[[], float]) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._mark: float | None = None

    def __call__(self) -> float:
        """Return the time, as long as the driver has worked since."""
        if self._mark is not None:
            self._cluster.advance(self._seconds() - self._mark)
            self._mark = self._seconds()
        return self._cluster.now

    @contextmanager
    def works(self) -> Iterator[None]:
        """Let time pass during the block."""
        self._mark = self._seconds()
        yield
        self()
        self._mark = None

    @contextmanager
    def stands(self) -> Iterator[None]:
        """Let no time pass during the block, where the driver works."""
        self()
        yield
        self._mark = self._seconds()


class LiveExecutor(SimulatedExecutor):
    """Is called at the moment that the driver has reached, and notes when."""

    def __init__(
        self, cluster: SimulatedCluster, course: Course, clock: LiveClock, *, pilot_seconds: float
    ) -> None:
        super().__init__(cluster, course, pilot_seconds=pilot_seconds)
        self._clock = clock
        self.calls: list[float] = []

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        """Submit, in no time."""
        with self._clock.stands():
            self.calls.append(self._cluster.now)
            return super().submit(jobs)

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Look, in no time."""
        with self._clock.stands():
            if jobs:
                self.calls.append(self._cluster.now)
            return super().look(jobs)


@dataclass
class Timer:
    """Seconds that calls took, without what virtual time stood still for.

    Attributes:
        seconds: of each call, by part.
    """

    clock: LiveClock
    seconds: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in PARTS})

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def timed(*given: Any, **named: Any) -> Any:
            began = self.clock()
            try:
                return function(*given, **named)
            finally:
                self.seconds[part].append(self.clock() - began)

        return timed

    def around_parts(
        self, part: str, function: Callable[..., Iterator[Any]]
    ) -> Callable[..., Iterator[Any]]:
        """Return a function that yields, timed while it works; each call counts once."""

        def timed(*given: Any, **named: Any) -> Iterator[Any]:
            seconds, yielded = 0.0, function(*given, **named)
            try:
                while True:
                    began = self.clock()
                    try:
                        value = next(yielded)
                    except StopIteration:
                        return
                    finally:
                        seconds += self.clock() - began
                    yield value
            finally:
                self.seconds[part].append(seconds)

        return timed


def time_parts(driver: Driver, timer: Timer) -> None:
    """Time the four parts of a round of one driver."""
    trials: Trials = driver._trials
    jobs: Jobs = driver._jobs
    results: Results = driver._results
    patched: list[tuple[object, str, str]] = [
        (trials, "ask", "ask"),
        (jobs, "submit", "submit"),
        (results, "report", "tell"),
        (results, "end_attempts", "tell"),
    ]
    for owner, name, part in patched:
        setattr(owner, name, timer.around(part, getattr(owner, name)))
    observer = driver._observer
    setattr(observer, "observe", timer.around_parts("look", observer.observe))  # noqa: B010
