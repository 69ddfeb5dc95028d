"""The trials of a study as CSV (RFC 4180), for spreadsheets and data frames."""

import csv
import json
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from hpsearch.printable import printable
from hpsearch.report.trial_list import trial_state
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial


def write_csv(view: StudyView, file: TextIO) -> None:
    """Write a header, and a row for each trial by its number; the columns are published.

    They are number, state, each objective with both ends of its 95 % interval, and each parameter
    by its dotted path. A cell is empty where there is nothing: no value yet, or a parameter that
    the trial does not have.
    """
    rows = csv.writer(file)
    metrics = [objective.metric for objective in view.study.spec.objectives]
    names = list(view.study.space.parameters)
    values = [column for name in metrics for column in (name, f"{name} low", f"{name} high")]
    rows.writerow(["number", "state", *values, *names])
    for number, trial in sorted(view.state.trials.items()):
        settings = view.study.space.decode(trial.last_params)
        cells = (_cell(settings[name]) if name in settings else "" for name in names)
        rows.writerow([number, trial_state(trial), *_values(trial, metrics), *cells])


def _values(trial: Trial, metrics: list[str]) -> Iterator[Any]:
    for name in metrics:
        measured: Mapping[str, Any] = trial.metrics.get(name, {})
        yield from (measured.get(key, "") for key in ("value", "low", "high"))


def _cell(setting: Any) -> str | int | float:
    """Return a number or a text as it is, all else (true, null, a list) as JSON."""
    if isinstance(setting, str):
        return printable(setting)
    is_number = isinstance(setting, int | float) and not isinstance(setting, bool)
    return setting if is_number else json.dumps(setting)
