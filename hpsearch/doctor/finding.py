"""What a check found, in one sentence."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.errors import HpsearchError

Level = Literal["ok", "warning", "error", "skipped"]  # a warning works, skipped does not matter


@dataclass(frozen=True)
class Finding:
    name: str  # of the check; `examine` replaces an empty one
    level: Level
    sentence: str  # what is the case, and the remedy if it should not be


Check = Callable[[], Finding | Iterable[Finding]]


def _finding(level: Level, sentence: str, name: str = "") -> Finding:
    return Finding(name, level, sentence)


ok, warning = partial(_finding, "ok"), partial(_finding, "warning")
error, skipped = partial(_finding, "error"), partial(_finding, "skipped")


def examine(checks: Mapping[str, Check]) -> list[Finding]:
    """Return the findings of checks, by name; an exception is the last finding of its check."""
    findings: list[Finding] = []
    for name, check in checks.items():
        try:
            outcome = check()
            for finding in [outcome] if isinstance(outcome, Finding) else outcome:
                findings.append(replace(finding, name=finding.name or name))
        except (HpsearchError, SchedulerSilentError) as fault:
            findings.append(error(" ".join(str(fault).split()), name))
        except Exception as fault:
            # A diagnosis that breaks off is no help, whatever the reason.
            words = f"the check itself failed ({type(fault).__name__}: {fault})"
            findings.append(error(f"{words}; report this as a fault", name))
    return findings


def has_error(findings: Sequence[Finding]) -> bool:
    return any(finding.level == "error" for finding in findings)
