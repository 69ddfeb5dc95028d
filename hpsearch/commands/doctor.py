"""hpsearch doctor: look whether a study can run here, before it is tried."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from hpsearch.commands.executors import build_executor
from hpsearch.doctor.finding import Finding, has_error
from hpsearch.doctor.machine import read_table
from hpsearch.doctor.preflight import examine_all
from hpsearch.terminal import Terminal

MARKS = {"ok": "✓", "warning": "!", "error": "✗", "skipped": "-"}
STYLES = {"ok": "green", "warning": "yellow", "error": "red", "skipped": "dim"}


def doctor(study: str | None, runs: Path, *, as_json: bool) -> int:
    """Print what all checks found; return 1 if something keeps a study from running."""
    findings = examine_all(study, runs, read_table(), build_executor)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        _print(Terminal(soft_wrap=True), findings)
    return 1 if has_error(findings) else 0


def _print(console: Console, findings: Sequence[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        line = f"{MARKS[finding.level]} {finding.name:{width}}  {finding.sentence}"
        console.print(line, style=STYLES[finding.level], highlight=False, markup=False)
    console.print(summary(findings), style="bold", highlight=False)


def summary(findings: Sequence[Finding]) -> str:
    """Return a sentence on the whole."""
    levels = Counter(finding.level for finding in findings)
    errors = _several(levels["error"], "error")
    warnings = _several(levels["warning"], "warning")
    if levels["error"]:
        return f"{errors} and {warnings}: put the errors right before a study is run"
    if levels["warning"]:
        return f"no error and {warnings}: a study can run, read the warnings first"
    return f"no error and no warning in {len(findings)} checks: a study can run"


def _several(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' if count > 1 else ''}"
