"""Options of the samplers, pruners, executors and endpoints that a study file names.

Most defaults are Optuna's. samplers.py, which imports Optuna, and api/executors.py build them.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from hpsearch.errors import shown
from hpsearch.extensions import Kind
from hpsearch.monitor.config import Port
from hpsearch.schema import NonNegative, Positive, Range

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

    from hpsearch.cluster.executor import Executor
    from hpsearch.study.tracker_runs import TrackerRuns

AtLeastTwo = Annotated[int, Range(low=2)]


@dataclass(frozen=True)
class RandomOptions:
    """Every value at random."""

    name: Literal["random"]


@dataclass(frozen=True)
class TPEOptions:
    """Tree-structured Parzen estimator: values that are likelier among the good trials."""

    name: Literal["tpe"] = "tpe"
    n_startup_trials: NonNegative = 10
    """finished trials before the first that is not random"""
    n_ei_candidates: Positive = 24
    """values that are drawn and compared for each suggestion"""
    multivariate: bool = True
    """whether parameters are modelled together; conditional ones in groups that occur together"""
    constant_liar: bool = True
    """whether running trials count as bad, which keeps new ones away from them"""


@dataclass(frozen=True)
class QMCOptions:
    """Points that fill the space evenly; a good first wave for many trials at once."""

    name: Literal["qmc"]
    sequence: Literal["sobol", "halton"] = "sobol"
    """low-discrepancy sequence, scrambled by the seed of the study"""


@dataclass(frozen=True)
class GridOptions:
    """Every configuration once, in an order that spreads over the space; then again."""

    name: Literal["grid"]


@dataclass(frozen=True)
class CMAESOptions:
    """Covariance matrix adaptation for numbers; one objective, categorical values at random."""

    name: Literal["cmaes"]
    n_startup_trials: Positive = 1
    """finished trials before the first that is not random"""
    popsize: Annotated[int, Range(low=4)] | None = None
    """trials a generation, of which half are its parents; none for 4 + 3 ln(parameters)"""


@dataclass(frozen=True)
class GPOptions:
    """Gaussian process; the cost of a suggestion grows with the cube of the trials."""

    name: Literal["gp"]
    n_startup_trials: Positive = 10
    """finished trials before the first that is not random"""


@dataclass(frozen=True)
class ListedOptions:
    """Exactly the configurations that the file names, one after another; then again."""

    name: Literal["listed"]
    configurations: tuple[dict[str, Any], ...]
    """each a value for every parameter that exists under the others"""

    def check(self) -> Iterator[str]:
        if not self.configurations:
            yield "configurations must name at least one, but the list is empty"


@dataclass(frozen=True)
class SamplerExtension(ABC):
    """A sampler of another package: what options of its own derive from, with a ``name``."""

    KIND: ClassVar[Kind] = "samplers"
    name: str

    @abstractmethod
    def build(self, seed: int) -> "BaseSampler":
        """Return a sampler that suggests by nothing but this seed and the trials in the storage.

        A new one is built for each suggestion, as a driver that was killed must ask for the same.
        """


Sampler = (
    RandomOptions
    | TPEOptions
    | QMCOptions
    | GridOptions
    | CMAESOptions
    | GPOptions
    | ListedOptions
    | SamplerExtension
)
KNOW_BEFOREHAND = (QMCOptions, GridOptions, ListedOptions, RandomOptions)
"""samplers that learn from no values"""


@dataclass(frozen=True)
class NoPruning:
    """Every trial runs to its end."""

    name: Literal["none"] = "none"


@dataclass(frozen=True)
class MedianOptions:
    """Stop a trial whose best value so far is worse than the median of the others' at its step."""

    name: Literal["median"]
    n_startup_trials: NonNegative = 5
    """finished trials before the first may be stopped"""
    n_warmup_steps: NonNegative = 0
    """steps that every trial gets, in the unit in which values are reported"""
    interval_steps: Positive = 1
    """steps between two checks"""
    n_min_trials: Positive = 1
    """trials that must have reported at a step before one is stopped there"""


@dataclass(frozen=True)
class SuccessiveHalvingOptions:
    """Asynchronous successive halving: one in ``reduction_factor`` passes each rung."""

    name: Literal["successive_halving"]
    min_resource: Annotated[int, Range(low=1)] | Literal["auto"] = "auto"
    """step of the first rung; auto takes it from the first finished trial"""
    reduction_factor: AtLeastTwo = 4
    """ratio of neighbouring rungs, and of the trials that reach them"""
    min_early_stopping_rate: NonNegative = 0
    """rungs that are skipped at the start"""
    bootstrap_count: NonNegative = 0
    """trials that must have reached a rung before one passes it"""

    def check(self) -> Iterator[str]:
        if self.min_resource == "auto" and self.bootstrap_count:
            yield (
                f"bootstrap_count must be 0 while min_resource is auto, "
                f"but is {self.bootstrap_count}; give min_resource a number"
            )


@dataclass(frozen=True)
class HyperbandOptions:
    """Successive halving in several brackets, from cautious to bold."""

    name: Literal["hyperband"]
    max_resource: Positive
    """last step of a trial; required, because a guess from the history would change on restart"""
    min_resource: Positive = 1
    """step of the first rung of the boldest bracket"""
    reduction_factor: AtLeastTwo = 3
    """ratio of neighbouring rungs, and of the trials that reach them"""
    bootstrap_count: NonNegative = 0
    """trials that must have reached a rung before one passes it"""

    def check(self) -> Iterator[str]:
        if self.min_resource > self.max_resource:
            yield (
                f"min_resource must not lie above max_resource, "
                f"but {self.min_resource} > {self.max_resource}"
            )


@dataclass(frozen=True)
class PrunerExtension(ABC):
    """A pruner of another package: what options of its own derive from, with a ``name``."""

    KIND: ClassVar[Kind] = "pruners"
    name: str

    @abstractmethod
    def build(self) -> "BasePruner":
        """Return a pruner that decides by nothing but the trials in the storage."""


Pruner = NoPruning | MedianOptions | SuccessiveHalvingOptions | HyperbandOptions | PrunerExtension


@dataclass(frozen=True)
class JobNeeds:
    """What every job of a study needs, wherever it runs."""

    gpus: int
    pilot_seconds: float
    """for which a job that has trained its trials waits for more; 0 if it leaves"""
    withheld: frozenset[str]
    """environment variables that no job may get: they hold the driver's secrets"""


@dataclass(frozen=True)
class LocalOptions:
    """Jobs are processes on this machine."""

    name: Literal["local"] = "local"
    jobs: Positive = 1
    """processes at once"""
    members_per_job: Positive = 1
    """trials that train together in one process, if their shapes agree"""
    cpus_per_job: Positive | None = None
    """threads of a job, which its ranks share; none shares the machine out evenly"""
    gpus_per_job: NonNegative | None = None
    """GPUs that a job has to itself; none is what its ranks need where a trial may train on cuda,
    else 0"""
    pilot: bool = False
    """whether a process takes more trials of their shape than its first ones"""
    ranks: Positive = 1
    """processes of a job that train its trials together; divides the trainer's key shards"""
    min_ranks: Positive | None = None
    """smallest number with which a job begins where GPUs are missing; null: it waits for all"""

    def check(self) -> Iterator[str]:
        yield from _min_ranks_problems(self.ranks, self.min_ranks)

    @property
    def fewer_ranks(self) -> tuple[int, ...]:
        """With how many ranks a job may also begin, the most first."""
        lowest = self.min_ranks or self.ranks
        return tuple(n for n in range(self.ranks - 1, lowest - 1, -1) if self.ranks % n == 0)


@dataclass(frozen=True)
class SlurmOptions:
    """Jobs are jobs of a SLURM cluster."""

    name: Literal["slurm"]
    profile: str
    """path of a cluster profile, from the study file"""
    jobs: Positive
    """jobs at once, waiting ones included"""
    members_per_job: Positive = 1
    """trials that train together in one job, if their shapes agree"""
    pilot: bool = True
    """whether a job takes more trials of their shape than its first ones, until its walltime"""
    poll_seconds: Annotated[float, Range(low=1.0)] = 30.0
    """between two looks at the queue and at what jobs wrote"""
    ranks: Positive = 1
    """tasks of a job that train its trials together; divides the trainer's key shards"""
    min_ranks: Positive | None = None
    """smallest number with which a job begins where nodes are missing; null: it waits for all"""

    def check(self) -> Iterator[str]:
        yield from _min_ranks_problems(self.ranks, self.min_ranks)


def executor_key(sections: Mapping[str, Any]) -> str:
    """Return the key of the executor that stands for all: several agree, or that is a problem."""
    return "executors[0]" if sections.get("executors") else "executor"


def executors_problems(executors: Sequence[SlurmOptions]) -> Iterator[str]:
    """Yield why executors cannot take the trials of one study."""
    named: dict[str, set[int | bool | None]] = {
        "members_per_job": {executor.members_per_job for executor in executors},
        "pilot": {executor.pilot for executor in executors},
        "ranks": {executor.ranks for executor in executors},
        "min_ranks": {executor.min_ranks for executor in executors},
    }
    for key, values in named.items():
        if len(values) > 1:
            told = " and ".join(sorted(map(shown, values)))
            yield f"executors must agree in {key}, but name {told}"
    profiles = [executor.profile for executor in executors]
    if len(set(profiles)) < len(profiles):
        yield f"executors must name each profile once, but name {', '.join(profiles)}"


def _min_ranks_problems(ranks: int, min_ranks: int | None) -> Iterator[str]:
    if min_ranks is not None and ranks % min_ranks:
        yield f"min_ranks must divide ranks={ranks}, but is {min_ranks}"


@dataclass(frozen=True)
class ExecutorExtension(ABC):
    """An executor of another package: what options of its own derive from, with a ``name``.

    Its jobs go on when their driver has gone, as those of a cluster do.
    """

    KIND: ClassVar[Kind] = "executors"
    ranks: ClassVar[int] = 1
    min_ranks: ClassVar[int | None] = None

    name: str
    jobs: Positive = 1
    """jobs at once, waiting ones included"""
    members_per_job: Positive = 1
    """trials that train together in one job, if their shapes agree"""
    pilot: bool = True
    """whether a job takes more trials of their shape than its first ones, until its walltime"""
    poll_seconds: Annotated[float, Range(low=0.1)] = 30.0
    """between two looks at the jobs and at what they wrote"""

    @abstractmethod
    def build(self, study: Path, folder: Path, needs: JobNeeds) -> "Executor":
        """Return the executor of a study file, whose jobs lie below ``folder``."""


@dataclass(frozen=True)
class PsijOptions(ExecutorExtension):
    """Jobs are those of PBS, LSF, Flux or another scheduler that the PSI/J library knows."""

    name: Literal["psij"]
    scheduler: Literal["cobalt", "flux", "local", "lsf", "pbs", "pbs_classic", "slurm"] = "pbs"
    """as PSI/J calls it; local: processes of this machine, to try this"""
    walltime_minutes: Positive = 60
    """of a job, which saves its trials when the scheduler asks it to end"""
    cpus_per_job: Positive = 1
    """cores of a job, each for a thread"""
    queue: str | None = None
    """queue or partition; null: the scheduler's default"""
    account: str | None = None
    """account or project that pays; null: the scheduler's default"""
    custom: dict[str, str] = field(default_factory=dict)
    """further options of a job by PSI/J's names, such as pbs.l"""
    setup: tuple[str, ...] = ()
    """lines of the shell that a job runs first"""

    def build(self, study: Path, folder: Path, needs: JobNeeds) -> "Executor":
        from hpsearch.cluster.psij import PsijExecutor

        return PsijExecutor(
            self.scheduler,
            num_threads=self.cpus_per_job,
            gpus=needs.gpus,
            walltime=timedelta(minutes=self.walltime_minutes),
            queue=self.queue,
            account=self.account,
            custom=self.custom,
            setup=self.setup,
            pilot_seconds=needs.pilot_seconds,
            withheld=needs.withheld,
        )


ExecutorOptions = LocalOptions | SlurmOptions | PsijOptions | ExecutorExtension


@dataclass(frozen=True)
class PrometheusOptions:
    """Metrics of the study for Prometheus, at http://HOST:PORT/metrics while it is driven."""

    port: Port
    """of the machine where the driver runs; each study there needs its own"""
    host: str = "127.0.0.1"
    """address that the driver listens on; all but those of the loopback interface need a token"""
    token: str | None = None
    """what Prometheus must show: path, from the study file, of a file that you alone can read, or
    env: and the name of an environment variable; null: nothing, which other users of the machine
    can do too"""

    @property
    def is_local(self) -> bool:
        """Return whether the host is one of the loopback interface; other names may not be."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def check(self) -> Iterator[str]:
        if not self.host.strip():
            yield "host must be a name or an address of the machine, but is empty"
        if self.token is not None and not self.token.removeprefix("env:").strip():
            yield (
                "token must be the path of a file, or env: and the name of an environment "
                f"variable, but is {self.token!r}"
            )


Occasion = Literal["ended", "failed", "stalled", "best"]


@dataclass(frozen=True)
class AddressNotice:
    """A message to an address of the Apprise library: a chat, mail, a telephone, a web hook."""

    name: Literal["address"]
    to: str
    """env: and the name of the environment variable that holds the address, a secret"""
    on: tuple[Occasion, ...] = ("ended", "failed", "stalled")
    """when it is sent: the study ends, fails, stalls, or has a new best"""
    stalled_hours: Annotated[float, Range(low=0.0, open_low=True)] = 1.0
    """hours without any event after which the study has stalled"""

    def check(self) -> Iterator[str]:
        if not re.fullmatch(r"env:[A-Za-z_][A-Za-z0-9_]*", self.to):
            yield (  # without what it is: it may be the secret
                "to must be env: and the name of the environment variable that holds the "
                "address, since addresses hold passwords; write to: env:NAME"
            )


@dataclass(frozen=True)
class CommandNotice:
    """A command, run in the study file's folder, that reads the message."""

    name: Literal["command"]
    command: tuple[str, ...]
    """program and arguments, which are kept in the database and shown in reports, so no secrets;
    HPSEARCH_STUDY and HPSEARCH_OCCASION say what the message is of"""
    on: tuple[Occasion, ...] = ("ended", "failed", "stalled")
    """when it is run: the study ends, fails, stalls, or has a new best"""
    stalled_hours: Annotated[float, Range(low=0.0, open_low=True)] = 1.0
    """hours without any event after which the study has stalled"""

    def check(self) -> Iterator[str]:
        if not self.command:
            yield "command must name a program"


Notice = AddressNotice | CommandNotice


@dataclass(frozen=True)
class MlflowTracker:
    """Runs of MLflow, one for each trial."""

    SECRETS: ClassVar[tuple[str, ...]] = (
        "MLFLOW_TRACKING_USERNAME",
        "MLFLOW_TRACKING_PASSWORD",
        "MLFLOW_TRACKING_TOKEN",
    )

    name: Literal["mlflow"]
    uri: str
    """address of the server, or sqlite:///FILE; passwords and tokens stand in MLflow's variables"""
    experiment: str | None = None
    """to which the runs belong, made if it is not there; null: the name of the study"""

    def check(self) -> Iterator[str]:
        if not self.uri.strip():
            yield "uri must be the address of a server, or sqlite:///FILE, but is empty"
        elif re.search(r"://[^/]*@", self.uri):
            yield (
                "uri must not hold a name, password or token; set MLFLOW_TRACKING_USERNAME and "
                "MLFLOW_TRACKING_PASSWORD where the driver runs"
            )


@dataclass(frozen=True)
class WandbTracker:
    """Runs of Weights & Biases, one for each trial."""

    SECRETS: ClassVar[tuple[str, ...]] = ("WANDB_API_KEY",)

    name: Literal["wandb"]
    project: str
    entity: str | None = None
    """user or team; null: the one that WANDB_API_KEY belongs to"""

    def check(self) -> Iterator[str]:
        if not self.project.strip():
            yield "project must not be empty"


@dataclass(frozen=True)
class TrackerExtension(ABC):
    """A tracker of another package: what options of its own derive from, with a ``name``.

    Attributes:
        SECRETS: environment variables by which it knows its users, which jobs do not get.
    """

    KIND: ClassVar[Kind] = "trackers"
    SECRETS: ClassVar[tuple[str, ...]] = ()
    name: str

    @abstractmethod
    def open(self, study: str, folder: Path) -> "TrackerRuns":
        """Return where the runs of a study go; ``folder`` is for files of the tracker's own."""


Tracker = MlflowTracker | WandbTracker | TrackerExtension
