"""hpsearch gc: free the disk space of what a study does not need any more."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.cluster.garbage import KINDS, EndedTrials, Garbage, find_garbage, remove
from hpsearch.cluster.pins import pinned
from hpsearch.study.breeding.lineage import dead_ends
from hpsearch.study.records import COMPLETE, FAIL, PRUNED
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import Terminal


def gc(study: str, runs: Path, *, dry_run: bool, traces: bool, as_json: bool) -> int:
    """Remove what belongs to ended trials and jobs, or only show it; a driver may run meanwhile."""
    view = open_view(study, runs)
    garbage = find_garbage(view.folder, _ended(view), now=time.time(), traces=traces)
    if not dry_run:
        for leftover in garbage:
            remove(leftover.path)
    kept = {name: len(some) for name, some in pinned(view.folder).items()}
    name = view.study.spec.name
    summary = {"study": name, "dry_run": dry_run, **_summary(garbage), "pinned": kept}
    if as_json:
        print(json.dumps(summary, indent=1))
    else:
        _print(Terminal(), summary)
    return 0


def _ended(view: StudyView) -> EndedTrials:
    state = view.state
    ends = frozenset(dead_ends(state))
    finished = [trial.number for trial in state.told(COMPLETE)]
    given_up = [trial.number for how in (PRUNED, FAIL) for trial in state.told(how)]
    return EndedTrials(
        finished=tuple(number for number in finished if number not in ends),
        given_up=(*given_up, *sorted(ends)),
        matches=tuple(match.number for match in state.population.matches.values() if match.is_over),
        jobs=tuple(job.name for job in state.jobs.values() if job.ended),
        live_ids=frozenset(job.id for job in state.live_jobs()),
        is_driven=view.is_driven,
    )


def _summary(garbage: Sequence[Garbage]) -> dict[str, Any]:
    """Return count and bytes by kind and in all; the keys are published and stay."""
    by_kind = {kind: [leftover for leftover in garbage if leftover.kind == kind] for kind in KINDS}
    return {
        "kinds": {kind: _count(some) for kind, some in by_kind.items()},
        "total": _count(garbage),
    }


def _count(some: Sequence[Garbage]) -> dict[str, int]:
    return {"count": len(some), "bytes": sum(leftover.size for leftover in some)}


def _print(console: Console, summary: dict[str, Any]) -> None:
    for name, number in summary["pinned"].items():
        what = "1 checkpoint" if number == 1 else f"{number} checkpoints"
        console.print(f"kept for {name}, which needs them: {what}")
    total, verb = summary["total"], "would be freed" if summary["dry_run"] else "freed"
    if total["count"] == 0:
        console.print(f"nothing to free in {summary['study']}", highlight=False)
        return
    table = Table(box=None, header_style="bold")
    for column in ("kind", "count", "size", "bytes"):
        table.add_column(column, justify="left" if column == "kind" else "right")
    for kind, some in (*summary["kinds"].items(), ("total", total)):
        if some["count"]:
            size = size_text(some["bytes"])
            table.add_row(kind, f"{some['count']:,}", size, f"{some['bytes']:,}")
    console.print(table)
    console.print(f"{size_text(total['bytes'])} {verb}", highlight=False)


def size_text(num_bytes: int) -> str:
    """Return a number of bytes with three digits or so and its unit."""
    size, unit = float(num_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
