"""hpsearch audit: whether events, Optuna's tables and files of a study tell the same."""

import json
from dataclasses import asdict
from pathlib import Path

from hpsearch.audit.auditing import AuditReport, audit, locate
from hpsearch.audit.finding import Fault
from hpsearch.errors import CorruptError
from hpsearch.names import check_places


def audit_study(study: str, runs: Path, *, deep: bool, as_json: bool) -> int:
    """Print every fault of a study; return 7 if there is one. A driver may run meanwhile."""
    check_places(Path(study), runs)
    report = audit(locate(study, runs), deep=deep)
    if as_json:
        print(json.dumps({**asdict(report), "clean": not report.faults}, indent=1))
    else:
        for fault in report.faults:
            print(_line(fault))
        print(_summary(report))
    return CorruptError.exit_code if report.faults else 0


def _line(fault: Fault) -> str:
    whose = "study" if fault.trial is None else f"trial {fault.trial}"
    return f"{whose}: {fault.check}: {fault.message}"


def _summary(report: AuditReport) -> str:
    looked = (
        f"{report.study}: {report.num_trials:,} trials, {report.num_events:,} events and "
        f"{report.num_checkpoints:,} checkpoints"
    )
    count = len(report.faults)
    said = f"{count or 'no'} {'fault' if count == 1 else 'faults'}"
    going = f"; {len(report.in_flight)} in flight" if report.in_flight else ""
    return f"{looked}: {said}{going}"
