"""What the last export of a study certifies, read without torch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hpsearch.analysis.verdict import certified_verdict
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.export.folder import BundleDir
from hpsearch.files import read_json
from hpsearch.schema import read_hint
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView


@dataclass(frozen=True)
class CertifiedRho:
    """rho against one opponent, or over several, as `trainers.rho.Rho`."""

    value: float
    low: float
    high: float
    capped: float
    games: int


@dataclass(frozen=True)
class CertifiedRow:
    """One player's measures against the opponents of its role, as `report.compare.Row`."""

    player: str
    role: Literal["host", "agent"]
    metrics: dict[str, CertifiedRho]
    """by metric name"""


def standing_verdict(view: StudyView, trial: Trial) -> list[str]:
    """Return how strong a trial is in sentences; none where `run` or `export` measured another one.

    The bundle is not measured again: that is what `hpsearch evaluate` does.
    """
    rows = _certified_rows(view.folder, trial.number)
    return certified_verdict(f"trial {trial.number}", rows, view.config(trial))


def _certified_rows(folder: StudyDir, trial: int) -> Sequence[Mapping[str, Any]]:
    path = BundleDir(folder.best).certificate
    try:
        data = read_json(path)
        if not isinstance(data, Mapping) or data.get("trial") != trial:
            return []
        rows = read_hint(tuple[CertifiedRow, ...], data.get("rows"), source=str(path))
    except (ConfigError, CorruptError, DiskError):
        return []
    return [asdict(row) for row in rows]
