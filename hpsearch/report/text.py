"""Summaries as text for people: tables by rich."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.report.summary import trial_state
from hpsearch.report.view import StudyView
from hpsearch.study.state import Trial

STATES = ("finished", "running", "waiting", "pruned", "failed")


def interval_text(rho: Mapping[str, float]) -> str:
    """Return a measured value with its 95 % interval."""
    return f"{rho['value']:.4f} [{rho['low']:.4f}, {rho['high']:.4f}]"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return the number of trials by state, those of which there are some."""
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state]) or "none yet"


def print_status(console: Console, view: StudyView, summary: Mapping[str, Any]) -> None:
    """Print what a study has come to."""
    counts = summary["trials"]
    console.print(f"{summary['study']}: {summary['state']}", style="bold", highlight=False)
    console.print(f"trials: {counts_text(counts)}, of {summary['budget']}", highlight=False)
    for trial in view.state.told("failed"):
        console.print(
            f"trial {trial.number} failed ({trial.failure}): {trial.message}",
            style="red",
            highlight=False,
            markup=False,
        )
    best = view.best()
    if best is not None:
        print_best(console, view, best)


def print_best(console: Console, view: StudyView, trial: Trial) -> None:
    """Print a trial's number, values and parameters."""
    metric = view.study.spec.objectives[0].metric
    value = interval_text(trial.metrics[metric])
    console.print(f"best: trial {trial.number}, {metric} {value}", style="bold", highlight=False)
    for name, setting in view.study.space.decode(trial.params).items():
        console.print(f"  {name}: {setting_text(setting)}", highlight=False, markup=False)


def setting_text(setting: Any) -> str:
    """Return a parameter's value, floats with four significant digits."""
    return f"{setting:.4g}" if isinstance(setting, float) else str(setting)


def trials_table(view: StudyView, trials: Sequence[Trial]) -> Table:
    """Return a row a trial: number, state, value with interval, parameters."""
    metric = view.study.spec.objectives[0].metric
    names = list(view.study.space.parameters)
    table = Table(box=None, header_style="bold")
    for column in ("trial", "state", metric, *(name.rpartition(".")[2] for name in names)):
        table.add_column(column, justify="left" if column == "state" else "right")
    for trial in trials:
        settings = view.study.space.decode(trial.params)
        value = interval_text(trial.metrics[metric]) if metric in trial.metrics else ""
        row = (setting_text(settings[name]) if name in settings else "" for name in names)
        table.add_row(str(trial.number), trial_state(trial), value, *row)
    return table
