"""What a check found, and how a check that fails itself becomes a finding."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.errors import HpsearchError

Level = Literal["ok", "warning", "error", "skipped"]


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str
    """of the check"""
    level: Level
    """ok, warning (works, but), error (does not work), or skipped (does not matter here)"""
    sentence: str
    """what is the case, and the remedy if it should not be"""


Check = Callable[[], Finding | Iterable[Finding]]


def examine(name: str, check: Check) -> list[Finding]:
    """Return what a check finds; one that raises has found an error, after what it found before."""
    findings: list[Finding] = []
    try:
        found = check()
        findings.extend([found] if isinstance(found, Finding) else found)
    except (HpsearchError, SchedulerSilentError) as error:
        findings.append(Finding(name, "error", " ".join(str(error).split())))
    except Exception as error:
        # A diagnosis that breaks off helps nobody, whatever the reason.
        told = f"the check itself failed ({type(error).__name__}: {error}); report this as a fault"
        findings.append(Finding(name, "error", told))
    return findings


def has_error(findings: Sequence[Finding]) -> bool:
    """Return whether a study cannot run."""
    return any(finding.level == "error" for finding in findings)
