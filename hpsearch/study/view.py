"""The read model of a study, read from SQL and never written; the list of its trials as text."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from hpsearch import yaml_file
from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.slurm_calls import SchedulerCalls, meaning
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import (
    ConfigError,
    CorruptError,
    HpsearchError,
    NotStartedError,
    StorageError,
    UsageError,
)
from hpsearch.files import MAX_RECORD, read_json
from hpsearch.names import is_name, runs_option
from hpsearch.printable import interval_text
from hpsearch.schema import INSTALL_REMEDY
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import EventLog, Lease, Leases
from hpsearch.study.records import FAIL, Length, Trial, length
from hpsearch.study.requests import DriverStart, awaited_driver, is_dead, may_be_there
from hpsearch.study.snapshots import LINES, Stored, read_state
from hpsearch.study.space import ALGORITHM
from hpsearch.study.spec import Study, load_spec
from hpsearch.study.state import BUSY, StudyState
from hpsearch.study.stored_spec import readable_study
from hpsearch.study.url import sqlite_file, storage_url

NOT_STARTED, STARTING, INTERRUPTED = "not started", "starting", "interrupted"


@dataclass(frozen=True)
class StudyView:
    study: Study
    folder: StudyDir
    state: StudyState
    is_driven: bool  # whether a driver holds the study
    unread_faults: tuple[str, ...] = ()  # why parts of the study are left out here

    @property
    def name(self) -> str:
        return self.study.spec.name

    def whole_study(self, key: str | None = None) -> Study:
        """Return the study as its driver needs it; ConfigError if parts of it are left out.

        With a ``key``, such as executor, only those of that part count.
        """
        keys = {fault: re.split(r"[.\[ ]", fault, maxsplit=1)[0] for fault in self.unread_faults}
        faults = [fault for fault in keys if key in (None, keys[fault])]
        if faults:
            raise ConfigError(str(self.study.path), faults)
        return self.study

    @property
    def metric(self) -> str:
        return self.study.spec.objectives[0].metric

    @cached_property
    def awaited(self) -> DriverStart | None:
        """The started driver that does not hold the study; only who needs it asks for it."""
        is_missing = self.state.status in BUSY and not self.is_driven
        return find_awaited(self.folder) if is_missing else None

    @property
    def status(self) -> str:
        """Return the study's status; interrupted where a driver is missing and none is awaited."""
        if self.state.status not in BUSY or self.is_driven:
            return self.state.status
        return INTERRUPTED if self.awaited is None else STARTING

    def best(self) -> Trial | None:
        """Return the best finished trial by the first objective, or the last champion."""
        champions = self.state.population.archive
        if champions:
            return self.state.trials[champions[-1]]
        is_high = self.study.spec.objectives[0].goal == "maximize"
        best = self.state.tally.greatest if is_high else self.state.tally.least
        return None if best is None else self.state.trials[best[1]]

    @property
    def best_word(self) -> str:
        """Return champion or best: a population's champion may be worse than an earlier one."""
        return "champion" if self.state.population.archive else "best"

    def ranked(self, trials: Iterable[Trial]) -> list[Trial]:
        """Return those of some trials that have a value, best first by the first objective."""
        sign = -1.0 if self.study.spec.objectives[0].goal == "maximize" else 1.0
        valued = [(trial.value, trial) for trial in trials if trial.value is not None]
        return [trial for _, trial in sorted(valued, key=lambda pair: sign * pair[0])]

    def require_players(self) -> None:
        """Raise UsageError where trials are programs, which play no games."""
        if self.study.is_program:
            raise UsageError(
                f"the trials of {self.name} are programs, which play no games, so there are no "
                f"players to confirm, replay, compare, breed or export; hpsearch best {self.name} "
                "names the folder of the best one"
            )

    def config(self, trial: Trial) -> dict[str, Any]:
        return self.study.config_of(trial)

    def settings(self, trial: Trial) -> dict[str, Any]:
        """Return the parameters with which a trial ended, as its configuration has them."""
        return self.study.space.decode(trial.last_params)

    def steps(self, trial: Trial) -> int:
        """Return the training steps of a whole trial, without reading its configuration."""
        return self._steps(length(trial))

    def last_step(self, trial: Trial) -> int:
        """Return the step at which a finished trial ended, that of its last checkpoint."""
        return trial.step if trial.ended_by is not None else int(self.config(trial)["steps"])

    def steps_told(self) -> int:
        """Return the training steps of all trials that have been told, however far they came."""
        lengths = self.state.tally.lengths
        return sum(number * self._steps(length) for length, number in lengths.items())

    def _steps(self, length: Length) -> int:
        if isinstance(length, int):
            return length
        params = zip(("steps", ALGORITHM), length, strict=True)
        stored = {name: value for name, value in params if value is not None}
        values = self.study.space.decode(stored)
        base = self.study.bases[values.get(ALGORITHM, next(iter(self.study.bases)))]
        return int(values["steps"] if "steps" in values else base["steps"])


def open_view(name_or_file: str, runs: Path) -> StudyView:
    """Look at the study of a file, or of a name under ``runs``; UsageError if there is none."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml"):
        name, storage = study_of_file(path, runs)
        return _look(name, storage_url(name, storage), path, runs)
    where = read_study_note(StudyDir(runs / name_or_file).spec)
    if where is None:
        names = started_studies(runs)
        if path.is_dir():
            raise UsageError(f"{path} is a folder; name a study file in it, or a started study")
        there = f"there are: {', '.join(names)}" if names else f"there are none under {runs}"
        raise UsageError(
            f"no study {name_or_file!r}; {there}. Start one with: hpsearch run STUDY.yaml"
        )
    url = storage_url(where["name"], where["storage"])
    return _look(where["name"], url, Path(where["file"]), runs)


def study_of_file(path: Path, runs: Path) -> tuple[str, str]:
    """Return name and storage of a file's study, of a started one also without its packages."""
    try:
        spec = load_spec(path).spec
        return spec.name, spec.storage
    except ConfigError as error:
        # All that is wrong must be parts of packages that are not here.
        if not all(problem.endswith(INSTALL_REMEDY) for problem in error.problems):
            raise
        name = str(yaml_file.load(path).get("name"))
        note = read_study_note(StudyDir(runs / name).spec) if is_name(name) else None
        if note is None or Path(note["file"]) != path.absolute():
            raise
        return note["name"], note["storage"]


def unstarted_view(path: Path, runs: Path) -> StudyView:
    """Look at the study of a file as it will be when it begins."""
    study = load_spec(path)
    folder = StudyDir((runs / study.spec.name).absolute())
    return StudyView(study, folder, StudyState(status=NOT_STARTED), is_driven=False)


def started_studies(runs: Path) -> list[str]:
    return sorted(note.parent.name for note in runs.glob("*/study.json"))


def read_study_note(path: Path) -> dict[str, str] | None:
    """Return name, file and storage of a study by its folder; CorruptError if damaged."""
    keys = ("name", "file", "storage")
    try:
        note = read_json(path, MAX_RECORD)
    except CorruptError:
        note = {}
    if note is None:
        return None
    is_whole = isinstance(note, dict) and all(isinstance(note.get(key), str) for key in keys)
    if not is_whole or note["name"] != path.parent.name:
        raise CorruptError(f"{path} is damaged; run the study file again, which writes it anew")
    return {key: note[key] for key in keys}


def _look(name: str, url: str, path: Path, runs: Path) -> StudyView:
    folder = StudyDir((runs / name).absolute())
    not_started = f"the study {name} has not been started; start it with: hpsearch run {path}"
    file = sqlite_file(url)
    if file and not Path(file).exists() and not folder.spec.exists():
        raise NotStartedError(not_started)
    check_database(name, url)
    with closing(Database.open(url)) as database:
        record = StudyRecords(database).get(name)
        if record is None:
            raise NotStartedError(not_started)
        state = read_state(database, record.id)
        is_driven = _is_held(Leases(database).current(record.id))
    study, unread_faults = readable_study(record.spec, path)
    return StudyView(study, folder, state, is_driven, unread_faults)


def check_database(name: str, url: str) -> None:
    """Raise StorageError if the database of a started study is a file that is missing."""
    file = sqlite_file(url)
    if file and not Path(file).exists():
        raise StorageError(
            f"the database of the study {name} is not at {Path(file).absolute()}; run the command "
            "in the folder in which the study was started, or restore the file"
        )


def _is_held(lease: Lease | None) -> bool:
    return lease is not None and lease.expires_at > time.time() and not is_dead(lease.holder)


def find_awaited(folder: StudyDir) -> DriverStart | None:
    start = awaited_driver(folder, time.time())
    if start is None or start.slurm_job is None:
        return start
    try:
        question = ["squeue", "--noheader", f"--job={start.slurm_job}", "--format=%T"]
        state = SchedulerCalls(max_per_minute=1).run(question)
    except SchedulerSilentError as error:
        is_gone = "invalid job id" in str(error).lower()
        return start if not is_gone and may_be_there(folder, start, time.time()) else None
    return start if state and meaning(state.strip())[0] != "ended" else None


def best_trial(view: StudyView) -> Trial:
    best = view.best()
    name, failed = view.name, view.state.told(FAIL)
    if best is not None:
        return best
    if failed and not view.state.unfinished():
        causes = ", ".join(sorted({f"{trial.failure}: {trial.message}" for trial in failed}))
        raise HpsearchError(f"no trial of {name} has finished, {len(failed)} failed ({causes})")
    look = f"hpsearch status {name}"
    raise HpsearchError(f"no trial of {name} has finished yet; look at it with: {look}")


def counts_text(counts: Mapping[str, int], untrained: int = 0, tried_again: int = 0) -> str:
    """Return the number of trials by state, without those beyond the budget."""
    left = {**counts, "failed": counts["failed"] - tried_again}
    states = ("finished", "running", "waiting", "pruned", "failed")
    parts = [f"{left[state]} {state}" for state in states if left[state]]
    parts += [f"{untrained} of them untrained"] if untrained else []
    again = f" ({tried_again} more failed and were tried again)" if tried_again else ""
    return (", ".join(parts) or "none yet") + again


def standing_text(state: StudyState) -> str:
    return counts_text(state.counts(), state.num_untrained, state.num_retries)


def standing_line(view: StudyView) -> str:
    """Return a study's name, the status that its driver gave it, and its trials by state."""
    return f"{view.name}: {view.state.status}, {standing_text(view.state)}"


def unfinished_text(view: StudyView) -> str:
    """Return who finishes what has begun in a study that is to stop and has no driver."""
    where = runs_option(view.folder.root.parent)
    drive, cancel = (f"hpsearch {verb} {view.name}{where}" for verb in ("drive", "cancel"))
    packages = ""
    if not view.study.is_whole:
        packages = f"install the packages that hpsearch status {view.name}{where} names, and "
    return (
        f"it is to stop, but no driver is there to finish what has begun; {packages}let one do "
        f"that, by {drive}, or end it at once by {cancel}"
    )


class Followed:
    """A started study that is looked at again and again; only what is new is read."""

    def __init__(self, name_or_file: str, runs: Path) -> None:
        """Look at it for the first time; raises as `open_view`."""
        self.view = open_view(name_or_file, runs)
        spec = self.view.study.spec
        self.database = Database.open(storage_url(spec.name, spec.storage))
        record = StudyRecords(self.database).get(spec.name)
        assert record is not None, "open_view has found it"
        self._id = record.id

    def look(self) -> None:
        """Take in what has happened since; StorageUnavailableError if it cannot be read now."""
        state = self.view.state
        is_driven = _is_held(Leases(self.database).current(self._id))
        state.apply(EventLog(self.database).read(self._id, after_id=state.last_event))
        self.view = replace(self.view, is_driven=is_driven)

    def close(self) -> None:
        self.database.close()


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return a name for each dotted path: its last part, longer where others share that."""
    names = {path: _last_part(path) for path in paths}
    longer = {path: f"{path.partition('.')[0]} {names[path]}" for path in names if "." in path}
    for others in (longer, {path: path for path in names}):
        counts = Counter(names.values())
        names |= {path: others.get(path, name) for path, name in names.items() if counts[name] > 1}
    return names


def _last_part(path: str) -> str:
    *above, last = path.split(".")
    return f"{above[-1]}.{last}" if above and above[-1].endswith("_schedule") else last


TAB = "\t"
LEFT = 1  # the one column whose cells stand at its left: the state


def trial_line(study: Study, trial: Trial) -> str:
    """Return state, value with its interval, and parameters of a trial, with tabs between.

    Snapshots keep these lines, so a change of them needs another `snapshots.VERSION`.
    """
    return TAB.join(_cells(study, trial))


def trial_state(trial: Trial) -> str:
    if trial.told is not None:
        return trial.told
    return "waiting" if trial.waits else "running"


def setting_text(setting: Any) -> str:
    return f"{setting:.4g}" if isinstance(setting, float) else str(setting)


def _cells(study: Study, trial: Trial) -> list[str]:
    metric = study.spec.objectives[0].metric
    value = interval_text(trial.metrics[metric]) if metric in trial.metrics else ""
    settings = study.space.decode(trial.last_params)
    names = study.space.parameters
    texts = (setting_text(settings[name]) if name in settings else "" for name in names)
    return [trial_state(trial), value, *map(_printable, texts)]


def list_lines(view: StudyView) -> Iterator[str]:
    names = short_names(view.study.space.parameters).values()
    header = ["trial", "state", view.metric, *names]
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
    named = zip(header, columns, strict=True)
    ordered = [[name, *(column[place] for place in order)] for name, column in named]
    yield from in_columns(ordered)


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
