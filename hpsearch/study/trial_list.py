"""The list of all trials as text: a line a trial, in columns, however many there are.

What a line shows of a trial that has ended is kept in the study's snapshot (`study.snapshots`), as
its cells with a tab between; so a change of them needs another `snapshots.VERSION`.

Short names of parameters, for columns and lines.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len

from hpsearch.printable import interval_text
from hpsearch.study.records import Trial
from hpsearch.study.snapshots import LINES, Stored
from hpsearch.study.spec import Study
from hpsearch.study.view import StudyView


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return a name for each dotted path: its last part, after its first where others share that.

    A key of a schedule keeps that schedule's name. Where this is not enough, the whole path: no two
    names are alike.
    """
    every = list(dict.fromkeys(paths))
    names = {path: _last_part(path) for path in every}
    longer = {path: f"{path.partition('.')[0]} {names[path]}" for path in every if "." in path}
    names = _told_apart(names, longer)
    return _told_apart(names, {path: path for path in every})


def _last_part(path: str) -> str:
    *above, last = path.split(".")
    return f"{above[-1]}.{last}" if above and above[-1].endswith("_schedule") else last


def _told_apart(names: dict[str, str], longer: dict[str, str]) -> dict[str, str]:
    counts = Counter(names.values())
    return {
        path: name if counts[name] == 1 else longer.get(path, name) for path, name in names.items()
    }


TAB = "\t"
LEFT = 1  # the one column whose cells stand at its left: the state


def trial_line(study: Study, trial: Trial) -> str:
    """Return state, value with its interval, and parameters of a trial, with tabs between."""
    return TAB.join(_cells(study, trial))


def trial_state(trial: Trial) -> str:
    """Return finished, running, waiting, pruned or failed."""
    if trial.told is not None:
        return trial.told
    return "waiting" if trial.waits else "running"


def setting_text(setting: Any) -> str:
    """Return a parameter's value, floats with four significant digits."""
    return f"{setting:.4g}" if isinstance(setting, float) else str(setting)


def _cells(study: Study, trial: Trial) -> list[str]:
    metric = study.spec.objectives[0].metric
    value = interval_text(trial.metrics[metric]) if metric in trial.metrics else ""
    settings = study.space.decode(trial.last_params)
    names = study.space.parameters
    texts = (setting_text(settings[name]) if name in settings else "" for name in names)
    return [trial_state(trial), value, *map(_printable, texts)]


def list_lines(view: StudyView) -> Iterator[str]:
    """Yield the header, and a line for each trial by its number."""
    names = short_names(view.study.space.parameters).values()
    header = ["trial", "state", view.study.spec.objectives[0].metric, *names]
    # One list of all cells: Python looks for circles in 100,000 lists, which takes a while.
    trials, cells = view.state.trials, list[str]()
    if isinstance(trials, Stored) and trials.num_stored:
        lines, trials = trials.rows.texts(LINES), trials.known
        cells = "\n".join(lines).replace("\n", TAB).split(TAB)
    for number, trial in trials.items():
        cells += [str(number), *_cells(view.study, trial)]
    columns = [cells[place :: len(header)] for place in range(len(header))]
    # What is in memory comes after what is stored of the same trial, and is newer.
    last = {number: place for place, number in enumerate(columns[0])}
    order = sorted(last.values(), key=lambda place: int(columns[0][place]))
    yield from in_columns(
        [
            [name, *(column[place] for place in order)]
            for name, column in zip(header, columns, strict=True)
        ]
    )


def in_columns(columns: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of columns beside each other, at their right ends but for the state."""
    # A character takes one place in nearly all lists, and to ask of each takes a while.
    width = len if all("".join(column).isascii() for column in columns) else cell_len
    widths = [max(map(width, column)) for column in columns]
    if width is len:
        signs = ["-" if place == LEFT else "" for place in range(len(widths))]
        form = "  ".join(f"%{sign}{size}s" for sign, size in zip(signs, widths, strict=True))
        yield from map(f" {form} ".__mod__, zip(*columns, strict=True))
        return
    for row in zip(*columns, strict=True):
        gaps = [" " * (size - cell_len(cell)) for size, cell in zip(widths, row, strict=True)]
        cells = [gap + cell for gap, cell in zip(gaps, row, strict=True)]
        cells[LEFT] = row[LEFT] + gaps[LEFT]
        yield f" {'  '.join(cells)} "


def _printable(text: str) -> str:
    """Return a text without what would end a cell, or command a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)
