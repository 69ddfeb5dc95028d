"""Studies below a folder, a line each, and the trials of a study as CSV (RFC 4180)."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.table import Table

from hpsearch.errors import CorruptError, HpsearchError, StorageUnavailableError
from hpsearch.printable import interval_text, printable
from hpsearch.report.text import NO_VALUE
from hpsearch.study.view import StudyView, open_view, read_study_note, started_studies, trial_state
from hpsearch.terminal import text_table

DAMAGED, UNREADABLE, UNREACHABLE = "damaged", "unreadable", "unreachable"


@dataclass(frozen=True)
class ListedStudy:
    """What a list shows of a study; of one that cannot be read, name, state and problem alone."""

    study: str
    state: str  # of `status`, or damaged, unreadable, unreachable
    done: int | None = None  # trials of the budget that have ended
    budget: int | None = None  # trials in all
    metric: str | None = None
    best: dict[str, Any] | None = None  # number and value of the best trial or champion
    problem: str | None = None  # why it cannot be read


def list_studies(runs: Path) -> Iterator[ListedStudy]:
    """Yield every study that was started below a folder, by name, whatever has become of it."""
    silent: dict[str, str] = {}  # why databases do not answer, which are asked once
    for name in started_studies(runs):
        storage = None
        try:
            note = read_study_note(runs / name / "study.json")
            storage = None if note is None else note["storage"]
            if storage in silent:
                yield ListedStudy(name, UNREACHABLE, problem=silent[storage])
            else:
                yield _listed(open_view(name, runs))
        except StorageUnavailableError as error:
            silent |= {} if storage is None else {storage: str(error)}
            yield ListedStudy(name, UNREACHABLE, problem=str(error))
        except CorruptError as error:
            yield ListedStudy(name, DAMAGED, problem=str(error))
        except HpsearchError as error:
            yield ListedStudy(name, UNREADABLE, problem=str(error))
        except (ValueError, LookupError, TypeError, OSError) as error:
            # Rows that hpsearch did not write: one study that nothing can read ends no list.
            yield ListedStudy(name, DAMAGED, problem=f"{type(error).__name__}: {error}")


def _listed(view: StudyView) -> ListedStudy:
    spec, trial, best = view.study.spec, view.best(), None
    metric = spec.objectives[0].metric
    if trial is not None:
        is_champion = view.best_word == "champion"
        best = {"trial": trial.number, "is_champion": is_champion, **trial.metrics[metric]}
    done, budget = view.state.num_done, spec.budget.trials
    return ListedStudy(spec.name, view.status, done, budget, metric, best)


def study_table(listed: list[ListedStudy]) -> Table:
    rows = []
    for study in listed:
        trials = "" if study.done is None else f"{study.done} of {study.budget}"
        rows.append((study.study, study.state, trials, _last_cell(study)))
    return text_table(("study", "state", "trials", "best"), rows, left=("study", "state", "best"))


def _last_cell(study: ListedStudy) -> str:
    if study.problem is not None:
        return study.problem
    if study.best is None:
        return NO_VALUE
    whose = f"{'champion, ' if study.best['is_champion'] else ''}trial {study.best['trial']}"
    return f"{study.metric} {interval_text(study.best)} ({whose})"


def write_csv(view: StudyView, file: TextIO) -> None:
    """Write the table of trials; texts of parameters have no control characters."""
    rows = csv.writer(file)
    columns, *trials = table_rows(view)
    rows.writerow(columns)
    num_settings = len(view.study.space.parameters)
    for row in trials:
        settings = ("" if value is None else _cell(value) for value in row[-num_settings:])
        rows.writerow([*("" if v is None else v for v in row[:-num_settings]), *settings])


def table_rows(view: StudyView) -> Iterator[list[Any]]:
    """Yield the columns, which are published, then a row a trial, None where it has no value.

    They are number, state, the objectives, each with the ends low and high of its 95 % interval,
    and the parameters by their dotted paths.
    """
    metrics = [objective.metric for objective in view.study.spec.objectives]
    names = list(view.study.space.parameters)
    columns = [column for name in metrics for column in (name, f"{name} low", f"{name} high")]
    yield ["number", "state", *columns, *names]
    for number, trial in sorted(view.state.trials.items()):
        settings = view.settings(trial)
        values = []
        for name in metrics:
            measured = trial.metrics.get(name, {})
            values += [measured.get(key) for key in ("value", "low", "high")]
        yield [number, trial_state(trial), *values, *(settings.get(name) for name in names)]


def _cell(setting: Any) -> str | int | float:
    if isinstance(setting, str):
        return printable(setting)
    is_number = isinstance(setting, int | float) and not isinstance(setting, bool)
    return setting if is_number else json.dumps(setting)
