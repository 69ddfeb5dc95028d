"""Where a bundle comes from: who its player descends from, and by what it was made."""

import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import hpsearch
from hpsearch.cluster.code_snapshot import commit_of
from hpsearch.report.lineage import read_lineage
from hpsearch.report.provenance import versions
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial


@dataclass(frozen=True)
class Made:
    """By whom a bundle is written."""

    command: str
    """the command line"""
    at: datetime


def made_by(arguments: Iterable[str]) -> Made:
    """Return that it is made now, by a command with these arguments."""
    return Made(" ".join(("hpsearch", *arguments)), datetime.now(UTC))


def provenance(made: Made, trained_on: str) -> dict[str, Any]:
    """Return by what a bundle was made: command, code, versions, machine.

    Args:
        made: command and time.
        trained_on: "cpu" or "cuda", as the configuration says.
    """
    return {
        "command": made.command,
        "at": made.at.isoformat(timespec="seconds"),
        "commit": commit_of(Path(hpsearch.__file__).parent),
        "versions": versions(),
        "platform": platform.platform(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "trained_on": trained_on,
    }


def lineage(view: StudyView, trial: Trial) -> dict[str, Any] | None:
    """Return who a population's trial descends from, the oldest first; None for a search.

    Of a trial whose interval has not been written into the graph of descent, such as one that ended
    a moment ago, the line is empty.
    """
    if view.study.spec.population is None:
        return None
    descent = read_lineage(view)
    line = descent.line(trial.number) if trial.number in descent.relatives else []
    return {
        "trial": trial.number,
        "champion": descent.champion == trial.number,
        "origin": None if trial.origin is None else asdict(trial.origin),
        "line": [asdict(one) for one in line],
    }
