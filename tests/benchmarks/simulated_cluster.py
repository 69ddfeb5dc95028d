"""Drive a large study on a simulated cluster and see how many GPUs stand idle.

    python tests/benchmarks/simulated_cluster.py --trials 100000 --gpus 8000 [--sampler random]
    python tests/benchmarks/simulated_cluster.py --trials 400000 --gpus 16384 --members 8 [--pilots]

Question: does one driver keep a cluster of GPUs busy with trials of ten minutes (+-20 %)?

Method: the real driver and a real database, on a cluster in virtual time; one GPU a job, --members
trials at a time on it, two evaluations and checkpoints a trial. Virtual time advances by the real
seconds that the driver works, so a slow driver leaves GPUs idle, and by the poll interval after
each round; what the simulation itself takes is not counted. On a machine that has other things to
do, --clock processor counts the seconds of the processor instead, which are the same where the
files are in memory and nothing else runs. The study may hold more jobs than there are GPUs
(--waiting, a share of them), as a user of SLURM would have it: what waits in the queue starts at
once where a job ended.

    idle = 1 - busy GPU-seconds / (GPUs x seconds between the first moment at which all GPUs were
           taken and the moment at which the last trial was asked for)

and the same from the first event on, the ramp included. A look is one call of the scheduler. With
--pilots jobs take further trials, as those of a SLURM study do where its file does not say
otherwise, and keep their GPUs while they wait for some. What counts then is another share:

    places_idle = 1 - seconds of all trials / (GPUs x members x the same seconds)

Memory and writes are those of driver and simulated jobs together; a write is a file below the
study's folder that is replaced or added to. Checkpoints are empty folders here: the three files of
a real one are not counted. Rows up to 7929b0b8 count besides, twice a trial, a vain try to open a
file whose folder was still to be made. To open the study again means to read its events and all of
Optuna's trials; rows before 30 November 2026 count the events alone.

What is real: the driver, the database and its transactions, all files that driver and jobs write
and read. What is not: the scheduler, the network, learning, and, with a --folder in memory, what it
takes to write to a disk. Jobs give heartbeats at evaluations, not every two seconds.

Each row appended to reports/benchmarks/simulated_cluster.csv says when and on what it was measured;
--plot draws GPUs and latencies beside it.
"""

import argparse
import cProfile
import gc
import os
import pstats
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import optuna
import sqlalchemy

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "benchmarks")]
from ask_latency import database  # noqa: E402
from live_cluster import LiveClock, LiveExecutor, Timer, time_parts  # noqa: E402
from rows import append, commit, processor  # noqa: E402
from virtual_cluster import SimulatedCluster  # noqa: E402
from virtual_job import Course, teaches_nothing  # noqa: E402

from hpsearch import yaml_file  # noqa: E402
from hpsearch.schema import apply  # noqa: E402
from hpsearch.study.driver import Driver  # noqa: E402
from hpsearch.study.opening import open_driver  # noqa: E402
from hpsearch.study.spec import Study, load_spec  # noqa: E402
from hpsearch.trainers.config import TrainerConfig  # noqa: E402

REPORTS = TESTS.parent / "reports/benchmarks"
GPUS_PER_NODE = 8
TRIAL_SECONDS, SPREAD = 600.0, 0.2
TRAINER = {"steps": 1000, "evaluation.interval": 500, "checkpoint.interval": 500}
METRIC = "rho/host/choose_first"
STORAGE = "HPSEARCH_SIMULATED_STORAGE"
SPACE = {
    "host.optim.args.lr": {"type": "float", "low": 1e-4, "high": 3e-3, "log": True},
    "host.gamma": {"type": "float", "low": 0.8, "high": 0.97},
    "host.steps_before_update_target": {"type": "int", "low": 20, "high": 200, "log": True},
    "host.er_schedule.steps": {"type": "int", "low": 300, "high": 1500},
}
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def main() -> None:
    """Drive one study; append a row and draw its plot."""
    arguments = _arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with _folder(arguments) as folder, database(arguments.database, folder) as (url, version):
        run = Run(arguments, folder, url, version)
        run.drive()
        if arguments.profile:
            pstats.Stats(run.profile).sort_stats(arguments.profile).print_stats(60)
        row = run.row()
        append(arguments.table, [row])
        print(row)
        if arguments.plot:
            run.draw(arguments.table.with_suffix(".png"))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--gpus", type=int, default=100)
    parser.add_argument("--sampler", default="random")
    parser.add_argument("--members", type=int, default=1, help="trials that a job trains at a time")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--waiting", type=float, default=0.1, help="jobs in the queue, by GPUs")
    parser.add_argument("--pilots", action="store_true", help="jobs take further trials")
    parser.add_argument("--poll", type=float, default=30.0, help="seconds between two rounds")
    parser.add_argument("--folder", help="of the study; a temporary one if not given")
    parser.add_argument("--keep", action="store_true", help="leave the study's folder there")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--table", type=Path, default=REPORTS / "simulated_cluster.csv")
    parser.add_argument("--plot", action="store_true")
    parser.add_argument("--profile", help="how cProfile's table is sorted, such as tottime")
    return parser.parse_args()


@contextmanager
def _folder(arguments: argparse.Namespace) -> Iterator[Path]:
    """Give a new folder, inside the given one, that is removed afterwards unless it is kept."""
    folder = Path(tempfile.mkdtemp(prefix="simulated-cluster-", dir=arguments.folder))
    try:
        yield folder
    finally:
        if arguments.keep:
            print(f"the study is in {folder}")
        else:
            shutil.rmtree(folder)


def new_study(folder: Path, arguments: argparse.Namespace) -> Study:
    """Write a study file and return what it says."""
    quickstart = yaml_file.load(TESTS.parent / "studies/trainers/choose_first.yaml")
    (folder / "base.yaml").write_text(yaml_file.dump(apply(quickstart, TRAINER)))
    jobs = round(arguments.gpus * (1 + arguments.waiting))
    executor = {"name": "local", "jobs": jobs, "members_per_job": arguments.members}
    if arguments.pilots:
        executor |= {"name": "slurm", "profile": str(TESTS.parent / "slurm/a100.yaml")}
    given = {
        "name": "simulated",
        "seed": 1,
        "storage": f"env:{STORAGE}",
        "base": "base.yaml",
        "objectives": [{"metric": METRIC, "goal": "maximize"}],
        "space": SPACE,
        "sampler": {"name": arguments.sampler},
        "budget": {"trials": arguments.trials},
        "executor": executor,
    }
    (folder / "study.yaml").write_text(yaml_file.dump(given))
    return load_spec(folder / "study.yaml")


def seconds_of(config: TrainerConfig) -> float:
    """Return what a trial takes: ten minutes, up to a fifth more or less."""
    return TRIAL_SECONDS * Random(config.seed).uniform(1 - SPREAD, 1 + SPREAD)


def value_of(config: TrainerConfig, step: int) -> float:
    """Return a value that grows with the steps, best at lr = 0.001 and gamma = 0.9."""
    host: Any = config.host
    far = abs(host.optim.args.lr - 1e-3) * 100 + abs(host.gamma - 0.9)
    return round(step / config.steps / (1 + far), 6)


class Run:
    """One study, driven to its end."""

    def __init__(
        self, arguments: argparse.Namespace, folder: Path, storage: str, version: str
    ) -> None:
        self.arguments = arguments
        self.cluster = SimulatedCluster(
            -(-arguments.gpus // GPUS_PER_NODE), GPUS_PER_NODE, now=time.time()
        )
        self.clock = LiveClock(self.cluster, CLOCKS[arguments.clock])
        self.course = Course(seconds_of, value_of, teaches_nothing)
        seconds = 3 * arguments.poll if arguments.pilots else 0.0  # as a SLURM study has it
        self.executor = LiveExecutor(self.cluster, self.course, self.clock, pilot_seconds=seconds)
        self.timer = Timer(self.clock)
        self.profile = cProfile.Profile()
        self.began = self.cluster.now
        self.rounds: list[float] = []
        self.looks = 0
        self.last_ask = self.cluster.now
        self._folder = folder
        self._root = str(folder)
        self._database = storage
        self._version = version
        os.environ[STORAGE] = storage
        self._study = new_study(folder, arguments)
        self.num_writes = 0
        sys.addaudithook(self._count_write)

    def _count_write(self, event: str, given: tuple[Any, ...]) -> None:
        """Count the files below the study's folder that driver and jobs replace or add to."""
        if event == "os.rename":
            path = os.fspath(given[1])
        elif event == "open" and given[2] & os.O_CREAT and not given[2] & os.O_EXCL:
            path = given[0]
        else:
            return
        if isinstance(path, str) and path.startswith(self._root):
            self.num_writes += 1

    def drive(self) -> None:
        """Drive the study to its end, and open it again as a driver that resumes it."""
        began = time.perf_counter()
        self._drive_once()
        self.real_seconds = time.perf_counter() - began
        gc.collect()  # the driver before, which another process would not have in memory
        began = time.perf_counter()
        with self._opened() as driver:
            driver._trials._storage.get_all_trials(driver._trials._study_id, deepcopy=False)
            self.reopen_seconds = time.perf_counter() - began

    def _drive_once(self) -> None:
        with self._opened() as driver:
            driver.start()
            time_parts(driver, self.timer)
            while driver.is_busy:
                self._round(driver)
            assert driver.state.counts()["finished"] == self.arguments.trials

    @contextmanager
    def _opened(self) -> Iterator[Driver]:
        runs = self._folder / "runs"
        with open_driver(
            self._study, runs, self.executor, on_event=lambda event: None, clock=self.clock
        ) as driver:
            yield driver

    def _round(self, driver: Driver) -> None:
        before, asked = self.cluster.now, len(driver.state.trials)
        if self.arguments.profile:
            self.profile.enable()
        with self.clock.works():
            driver.tick()
        self.profile.disable()
        self.rounds.append(self.cluster.now - before)
        if len(driver.state.trials) > asked:
            self.last_ask = self.cluster.now
        if len(self.rounds) % 20 == 0:
            told = driver.state.num_told.total()
            hours = (self.cluster.now - self.began) / 3600
            work = 1000 * sum(self.rounds) / max(1, told)
            print(
                f"{told} told after {hours:.2f} h, round {self.rounds[-1]:.1f} s, "
                f"{work:.1f} ms a trial, idle {self.idle_since(self._full()):.4f}",
                flush=True,
            )
        if not driver.is_hurried:
            self.cluster.advance(max(0.0, self.arguments.poll - self.rounds[-1]))

    def row(self) -> dict[str, object]:
        """Return a row of the table."""
        arguments, asks = self.arguments, sorted(self.timer.seconds["ask"])
        minutes = Counter(int((at - self.began) // 60) for at in self.executor.calls)
        per_trial = {
            f"{part}_ms_a_trial": _ms(sum(seconds) / arguments.trials)
            for part, seconds in self.timer.seconds.items()
        }
        return {
            "date": datetime.now().date().isoformat(),
            "commit": commit(),
            "machine": processor(),
            "versions": f"optuna {optuna.__version__}, SQLAlchemy {sqlalchemy.__version__}, "
            f"{self._version}",
            "sampler": arguments.sampler,
            "trials": arguments.trials,
            "gpus": self.cluster.num_gpus,
            "jobs": self._study.spec.executor.jobs,
            "members": arguments.members,
            "poll_s": arguments.poll,
            "clock": arguments.clock,
            "files": "memory" if str(self._folder).startswith("/dev/shm") else "disk",
            "idle": f"{self.idle_since(self._full()):.4f}",
            "idle_with_ramp": f"{self.idle_since(self.began):.4f}",
            "ask_median_ms": _ms(statistics.median(asks)),
            "ask_p95_ms": _ms(asks[int(0.95 * len(asks))]),
            "ask_max_ms": _ms(asks[-1]),
            "driver_ms_a_trial": _ms(sum(self.rounds) / arguments.trials),
            **per_trial,
            "round_median_s": f"{statistics.median(self.rounds):.2f}",
            "round_max_s": f"{max(self.rounds):.2f}",
            "looks_a_round": f"{len(self.timer.seconds['look']) / len(self.rounds):.2f}",
            "calls_a_minute": f"{60 * len(self.executor.calls) / self.duration:.2f}",
            "calls_a_minute_max": max(minutes.values()),
            "writes_a_second_of_100_members": f"{self._writes_a_second():.2f}",
            "peak_gib": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}",
            "database_mb": f"{self._database_bytes() / 1e6:.1f}",
            "events": self._num_events(),
            "virtual_s": f"{self.duration:.0f}",
            "real_s": f"{self.real_seconds:.0f}",
            "reopen_s": f"{self.reopen_seconds:.1f}",
            "pilots": "yes" if arguments.pilots else "no",
            "places_idle": f"{self._places_idle_since(self._full()):.4f}",
        }

    @property
    def duration(self) -> float:
        """Return the virtual seconds of the whole study."""
        return self.cluster.now - self.began

    def idle_since(self, start: float) -> float:
        """Return the share of idle GPU-seconds from ``start`` to the last trial asked for."""
        return self._unused(self.cluster.busy, self.cluster.num_gpus, start)

    def _places_idle_since(self, start: float) -> float:
        """Return the same share of the seconds that all GPUs' places for trials have."""
        num_places = self.cluster.num_gpus * self.arguments.members
        return self._unused(self.course.training, num_places, start)

    def _unused(self, used: Sequence[tuple[float, int]], all_there: int, start: float) -> float:
        if self.last_ask <= start:
            return 0.0
        seconds = 0.0
        changes = [*used, (self.last_ask, 0)]
        for (at, number), (until, _) in pairwise(changes):
            seconds += number * max(0.0, min(until, self.last_ask) - max(at, start))
        return 1 - seconds / (all_there * (self.last_ask - start))

    def _full(self) -> float:
        """Return the first moment at which all GPUs were taken."""
        num_gpus = self.cluster.num_gpus
        return next((at for at, busy in self.cluster.busy if busy == num_gpus), self.cluster.now)

    def _writes_a_second(self) -> float:
        members = self.cluster.num_gpus * self.arguments.members
        return self.num_writes / self.duration / members * 100

    def _database_bytes(self) -> int:
        path = sqlalchemy.make_url(self._database).database or ""
        if self.arguments.database == "sqlite":
            return Path(path).stat().st_size
        return int(self._ask("SELECT pg_database_size(current_database())"))

    def _num_events(self) -> int:
        return int(self._ask("SELECT COUNT(*) FROM hpsearch_events"))

    def _ask(self, query: str) -> Any:
        engine = sqlalchemy.create_engine(self._database)
        with engine.connect() as connection:
            found = connection.exec_driver_sql(query).scalar()
        engine.dispose()
        return found

    def draw(self, path: Path) -> None:
        """Draw GPUs over time and the latency of asks over trials."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, (above, below) = pyplot.subplots(2, 1, figsize=(9, 6), layout="constrained")
        hours = [(at - self.began) / 3600 for at, _ in self.cluster.busy]
        above.step(hours, [busy for _, busy in self.cluster.busy], where="post", linewidth=0.8)
        above.set(
            xlabel="hours, virtual", ylabel="busy GPUs", ylim=(0, 1.05 * self.cluster.num_gpus)
        )
        latencies = [1000 * seconds for seconds in self.timer.seconds["ask"]]
        below.plot(latencies, ".", markersize=1)
        below.set(xlabel="trial", ylabel="ask, ms", yscale="log")
        arguments = self.arguments
        figure.suptitle(
            f"{arguments.trials:,} trials on {self.cluster.num_gpus:,} GPUs, {arguments.sampler}"
        )
        figure.savefig(path, dpi=120)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f}"


if __name__ == "__main__":
    main()
