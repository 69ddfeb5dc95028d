"""The studies below a folder, a line each; the keys for programs are published and stay."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from hpsearch.errors import CorruptError, HpsearchError, StorageUnavailableError
from hpsearch.report.interval_text import interval_text
from hpsearch.report.view import StudyView, open_view, read_study_note, started_studies
from hpsearch.study.records import Trial

DAMAGED, UNREADABLE, UNREACHABLE = "damaged", "unreadable", "unreachable"


@dataclass(frozen=True)
class ListedStudy:
    """What a list shows of a study; of one that cannot be read, name, state and problem alone."""

    study: str
    state: str
    """as `status` says it, or damaged, unreadable, unreachable (its database does not answer)"""
    done: int | None = None
    """trials of the budget that have ended"""
    budget: int | None = None
    """trials in all"""
    metric: str | None = None
    best: dict[str, Any] | None = None
    """number and measured value of the best trial, or of a population's champion, and which"""
    problem: str | None = None
    """why it cannot be read"""


def list_studies(runs: Path) -> Iterator[ListedStudy]:
    """Yield every study that was started below a folder, by name, whatever has become of it."""
    silent: dict[str, str] = {}
    """why databases do not answer: no other study waits for the same one again"""
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
    spec, best = view.study.spec, view.best()
    metric = spec.objectives[0].metric
    return ListedStudy(
        study=spec.name,
        state=view.status,
        done=view.state.num_done,
        budget=spec.budget.trials,
        metric=metric,
        best=None if best is None else _best(view, best),
    )


def _best(view: StudyView, best: Trial) -> dict[str, Any]:
    measured = best.metrics[view.study.spec.objectives[0].metric]
    return {"trial": best.number, "is_champion": view.best_word == "champion", **measured}


def plain_list(listed: list[ListedStudy]) -> list[dict[str, Any]]:
    """Return the studies as plain data."""
    return [asdict(study) for study in listed]


def study_table(listed: list[ListedStudy]) -> Table:
    """Return a row a study: how far it is, and the best so far or why it cannot be read."""
    table = Table(box=None, header_style="bold")
    for column in ("study", "state", "trials", "best"):
        table.add_column(column, justify="right" if column == "trials" else "left")
    for study in listed:
        trials = "" if study.done is None else f"{study.done} of {study.budget}"
        table.add_row(study.study, study.state, trials, _last_cell(study))
    return table


def _last_cell(study: ListedStudy) -> str:
    if study.problem is not None:
        return study.problem
    if study.best is None:
        return "no value yet"
    whose = f"{'champion, ' if study.best['is_champion'] else ''}trial {study.best['trial']}"
    return f"{study.metric} {interval_text(study.best)} ({whose})"
