"""hpsearch doctor, gc, audit: whether a study can run here, what it leaves behind, what it says."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpsearch.commands.command import JSON, RUNS, STUDY, argument, command, flag
from hpsearch.errors import CorruptError
from hpsearch.names import check_places

if TYPE_CHECKING:
    from hpsearch.cluster.garbage import EndedTrials, Garbage
    from hpsearch.doctor.finding import Finding
    from hpsearch.study.view import StudyView

MARKS = {"ok": "✓", "warning": "!", "error": "✗", "skipped": "-"}
STYLES = {"ok": "green", "warning": "yellow", "error": "red", "skipped": "dim"}


@command(
    "look whether this machine, or a study on it, is ready to run",
    argument("study", "STUDY", STUDY[0].settings["help"], count="?"),
    RUNS,
    JSON,
    examples=["", "studies/quickstart.yaml"],
)
def doctor(study: str | None, runs: Path, *, as_json: bool) -> int:
    from hpsearch.api.executors import build_executor
    from hpsearch.doctor.finding import has_error
    from hpsearch.doctor.machine import read_mounts
    from hpsearch.doctor.preflight import examine_all
    from hpsearch.terminal import Terminal

    findings = examine_all(study, runs, read_mounts(), build_executor)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    else:
        console = Terminal(soft_wrap=True)
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            line = f"{MARKS[finding.level]} {finding.name:{width}}  {finding.sentence}"
            console.print(line, style=STYLES[finding.level], highlight=False, markup=False)
        console.print(findings_text(findings), style="bold", highlight=False)
    return 1 if has_error(findings) else 0


def findings_text(findings: Sequence["Finding"]) -> str:
    levels = [finding.level for finding in findings]
    errors = _several(levels.count("error"), "error")
    warnings = _several(levels.count("warning"), "warning")
    if "error" in levels:
        return f"{errors} and {warnings}: put the errors right before a study is run"
    if "warning" in levels:
        return f"no error and {warnings}: a study can run, read the warnings first"
    return f"no error and no warning in {len(findings)} checks: a study can run"


def _several(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' if number > 1 else ''}"


@command(
    "check that events, Optuna's tables and files of a study agree",
    *STUDY,
    JSON,
    flag("--deep", "read every checkpoint, not the newest and needed alone"),
    examples=["quickstart", "quickstart --deep --json"],
)
def audit(study: str, runs: Path, *, deep: bool, as_json: bool) -> int:
    """Print every fault of a study; return 7 if there is one. A driver may run meanwhile."""
    from hpsearch.audit import auditing

    check_places(Path(study), runs)
    report = auditing.audit(study, runs, deep=deep)
    if as_json:
        print(json.dumps({**asdict(report), "clean": not report.faults}, indent=1))
    else:
        for fault in report.faults:
            place = "study" if fault.trial is None else f"trial {fault.trial}"
            print(f"{place}: {fault.check}: {fault.message}")
        number = len(report.faults)
        faults = f"{number or 'no'} {'fault' if number == 1 else 'faults'}"
        in_flight = f"; {len(report.in_flight)} in flight" if report.in_flight else ""
        print(
            f"{report.study}: {report.num_trials:,} trials, {report.num_events:,} events and "
            f"{report.num_checkpoints:,} checkpoints: {faults}{in_flight}"
        )
    return CorruptError.exit_code if report.faults else 0


@command(
    "free disk space: what ended trials and jobs don't need",
    *STUDY,
    JSON,
    flag("--dry-run", "show what would be freed, free nothing"),
    flag("--traces", "remove TensorBoard's and the profiler's files too"),
    examples=["quickstart --dry-run"],
)
def gc(study: str, runs: Path, *, dry_run: bool, traces: bool, as_json: bool) -> None:
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.cluster.garbage import KINDS, find_garbage, remove
    from hpsearch.cluster.study_dir import pinned

    view = StudyReader(study, runs).view()
    garbage = find_garbage(view.folder, ended_trials(view), now=time.time(), traces=traces)
    if not dry_run:
        for leftover in garbage:
            remove(leftover.path)
    by_kind = {kind: [leftover for leftover in garbage if leftover.kind == kind] for kind in KINDS}
    summary = {
        "study": view.name,
        "dry_run": dry_run,
        "kinds": {kind: _sizes(leftovers) for kind, leftovers in by_kind.items()},
        "total": _sizes(garbage),
        "pinned": {name: len(paths) for name, paths in pinned(view.folder).items()},
    }
    if as_json:
        print(json.dumps(summary, indent=1))
    else:
        _print_freed(summary)


def ended_trials(view: "StudyView") -> "EndedTrials":
    from hpsearch.cluster.garbage import EndedTrials
    from hpsearch.study.breeding.lineage import unreferenced
    from hpsearch.study.records import COMPLETE, FAIL, PRUNED

    state = view.state
    unneeded = sorted(unreferenced(state))
    finished = {trial.number for trial in state.told(COMPLETE)} - {*unneeded}
    given_up = [trial.number for how in (PRUNED, FAIL) for trial in state.told(how)]
    return EndedTrials(
        finished=tuple(sorted(finished)),
        given_up=(*given_up, *unneeded),
        matches=tuple(match.number for match in state.population.matches.values() if match.is_over),
        jobs=tuple(job.name for job in state.jobs.values() if job.ended),
        live_ids=frozenset(job.id for job in state.live_jobs()),
        is_driven=view.is_driven,
    )


def _sizes(garbage: Sequence["Garbage"]) -> dict[str, int]:
    return {"count": len(garbage), "bytes": sum(leftover.size for leftover in garbage)}


def _print_freed(summary: dict[str, Any]) -> None:
    from hpsearch.terminal import Terminal, text_table

    console = Terminal()
    for name, number in summary["pinned"].items():
        what = "1 checkpoint" if number == 1 else f"{number} checkpoints"
        console.print(f"kept for {name}, which needs them: {what}")
    total, verb = summary["total"], "would be freed" if summary["dry_run"] else "freed"
    if total["count"] == 0:
        console.print(f"nothing to free in {summary['study']}", highlight=False)
        return
    rows = [
        (kind, f"{sizes['count']:,}", size_text(sizes["bytes"]), f"{sizes['bytes']:,}")
        for kind, sizes in (*summary["kinds"].items(), ("total", total))
        if sizes["count"]
    ]
    console.print(text_table(("kind", "count", "size", "bytes"), rows))
    console.print(f"{size_text(total['bytes'])} {verb}", highlight=False)


def size_text(num_bytes: int) -> str:
    size, units = float(num_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"
