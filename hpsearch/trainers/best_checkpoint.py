"""Which checkpoint of a folder is the best, by a metric; it outlives newer ones."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hpsearch.atomic import write_json
from hpsearch.bounded import read_json
from hpsearch.errors import ConfigError, CorruptError
from hpsearch.schema import NonNegative, read
from hpsearch.trainers import checkpoint

RECORD = "best.json"


@dataclass(frozen=True)
class Best:
    """The best checkpoint so far."""

    step: NonNegative
    metric: str
    value: float

    def check(self) -> Iterator[str]:
        """Yield what is wrong with the metric's name."""
        if "/" not in self.metric:
            yield f"metric must say whose it is, as rho/host/random does, but is {self.metric!r}"

    def is_beaten_by(self, value: float) -> bool:
        """Return whether ``value`` is better: high for hosts, low for agents."""
        return value > self.value if is_maximized(self.metric) else value < self.value


def is_maximized(metric: str) -> bool:
    """Return whether more of a metric is better: rho is high for strong hosts and weak agents."""
    return metric.split("/")[1] == "host"


def read_best(folder: Path) -> Best | None:
    """Return the best checkpoint of ``folder``, None if none is known or it is not whole."""
    try:
        data = read_json(folder / RECORD)
        best = None if data is None else read(Best, data, source=str(folder / RECORD))
    except (CorruptError, ConfigError):
        return None
    if best is None or not checkpoint.is_whole(checkpoint.path_of(folder, best.step)):
        return None
    return best


def write_best(folder: Path, best: Best) -> None:
    """Remember which checkpoint of ``folder`` is the best; it counts once it is whole."""
    write_json(folder / RECORD, asdict(best))


def forget_best(folder: Path) -> None:
    """Let ``folder`` have no best checkpoint."""
    (folder / RECORD).unlink(missing_ok=True)


def forget_after(folder: Path, step: int) -> None:
    """Remove every checkpoint of a later step; the best one, if it is such, is forgotten first."""
    best = read_best(folder)
    if best is not None and best.step > step:
        forget_best(folder)
    checkpoint.remove_after(folder, step)
