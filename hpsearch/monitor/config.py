"""What of a training run is observed: the block ``monitor`` of a trainer configuration."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from hpsearch.errors import UsageError
from hpsearch.schema import Positive, Range

PositiveFloat = Annotated[float, Range(low=0.0, open_low=True)]
Port = Annotated[int, Range(low=1, high=65535)]


@dataclass(frozen=True)
class PrometheusConfig:
    """Where Prometheus finds the gauges of a job."""

    textfile: bool
    """a file for the textfile collector of node_exporter, rewritten at every reading"""
    port: Port | None
    """on 127.0.0.1, for HTTP; the first job of a machine to ask for a port has it"""

    def check(self) -> Iterator[str]:
        if not self.textfile and self.port is None:
            yield "textfile must be true where port is null; for neither write prometheus: null"


@dataclass(frozen=True)
class ProfilerConfig:
    """Steps whose operations are traced, for chrome://tracing or Perfetto."""

    first_step: Positive
    """the first step traced, counted from 1; its time includes starting the profiler"""
    steps: Positive
    """steps traced; ten give some megabytes"""


@dataclass(frozen=True)
class MonitorConfig:
    """What is observed, and how often.

    A snapshot is one transfer from the device; between two of them nothing waits for it.
    """

    interval: Positive
    """steps between two readings"""
    training_log: bool
    """one line per reading in the training log: losses, rates, and all that is switched on"""
    tensorboard: bool
    """the same for TensorBoard, and a sample game of each role after each evaluation"""
    layer_statistics: bool
    """mean and standard deviation of the weights and gradients of every layer"""
    timings: bool
    """milliseconds in each named section of a step"""
    resources: bool
    """use of CPU, memory and GPU"""
    prometheus: PrometheusConfig | None
    """gauges for Prometheus"""
    profiler: ProfilerConfig | None
    """trace of some steps"""
    max_loss: PositiveFloat | None
    """a loss above it, infinite or NaN fails the trial as diverged; null looks at no loss"""
    hang_timeout: PositiveFloat | None
    """seconds without a sign of progress after which the job fails as hung; must exceed the
    slowest step, the compilation before the first one, and the longest evaluation"""


@contextmanager
def needed(package: str) -> Iterator[None]:
    """Turn a failing import of ``package`` inside the block into a UsageError with the remedy."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"the package {package} cannot be imported ({error}); "
            "install it with: pip install 'hpsearch[monitor]'"
        ) from error
