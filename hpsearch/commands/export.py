"""hpsearch export: write a trial as a folder that stands alone."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.commands.driving import say
from hpsearch.commands.find import runs_option
from hpsearch.errors import UsageError
from hpsearch.report.best import best_trial
from hpsearch.report.confirmed import read_confirmed
from hpsearch.report.text import interval_text
from hpsearch.report.view import StudyView, open_view
from hpsearch.study.records import Trial


def export(
    study: str, runs: Path, output: Path | None, number: int | None, *, as_json: bool
) -> int:
    """Export the best or another trial and print what it measures beside the scripted players."""
    view = open_view(study, runs)
    trial, remark = _chosen(view, number, runs)
    folder, measures = write_export(view, trial, output)
    if as_json:
        print(json.dumps({**measures, "folder": str(folder)}, indent=1))
    else:
        print_export(Console(), folder, measures)
    if remark is not None:
        say(remark)
    return 0


def _chosen(view: StudyView, number: int | None, runs: Path) -> tuple[Trial, str | None]:
    """Return the trial asked for, the confirmed best or the search's; and a remark on it."""
    name = view.study.spec.name
    command = f"hpsearch confirm {name}{runs_option(runs)}"
    unknown = f"{name} is not confirmed: its best may be the luckiest; compare with: {command}"
    if number is not None:
        return _trial(view, number), None if view.folder.confirmation.exists() else unknown
    best, found = best_trial(view), read_confirmed(view)
    if found is None:
        return best, unknown
    if not found.is_current:
        return best, f"the confirmation of {name} is out of date, its best are others by now"
    if found.best == best.number:
        return best, None
    what = f"exported is trial {found.best}, the best when confirmed; the search's is {best.number}"
    return view.state.trials[found.best], what


def write_export(view: StudyView, trial: Trial, output: Path | None) -> tuple[Path, dict[str, Any]]:
    """Export a trial; return the folder and what was measured."""
    # Imported here: it loads torch.
    from hpsearch.report.export import export as write

    folder = view.folder.best if output is None else output.absolute()
    return folder, write(view, trial, folder)


def print_export(console: Console, folder: Path, measures: dict[str, Any]) -> None:
    """Print the trained player beside the scripted ones, and where the export lies."""
    rows = measures["rows"]
    metrics = [name for name in rows[0]["metrics"] if name.startswith("rho")]
    table = Table(box=None, header_style="bold")
    table.add_column("player")
    for metric in metrics:
        table.add_column(metric, justify="right")
    for row in rows:
        name = f"trial {measures['trial']}" if row["player"] == "trained" else row["player"]
        values = (interval_text(row["metrics"][m]) if m in row["metrics"] else "" for m in metrics)
        table.add_row(name, *values)
    games = next(iter(rows[0]["metrics"].values()))["games"]
    console.print(f"\nOn {games:,} games from starts that the search never used, 95 % intervals:")
    console.print(table)
    console.print(f"exported to {folder}", highlight=False, markup=False, soft_wrap=True)


def _trial(view: StudyView, number: int) -> Trial:
    if number not in view.state.trials:
        there = f"only 0 to {len(view.state.trials) - 1}" if view.state.trials else "none yet"
        raise UsageError(f"the study {view.study.spec.name} has no trial {number}, {there}")
    return view.state.trials[number]
