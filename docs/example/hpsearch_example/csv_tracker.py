"""A tracker: a file of comma-separated values, a line for each number of each trial."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpsearch.study.options import TrackerExtension
from hpsearch.study.tracker_runs import RunStart, SentPoint

COLUMNS = ("run", "step", "name", "value")


@dataclass(frozen=True)
class CsvTracker(TrackerExtension):
    """Lines of a file in the study's folder."""

    name: Literal["csv"]
    delimiter: str = ","
    """between two values of a line"""

    def check(self) -> Iterator[str]:
        if len(self.delimiter) != 1:
            yield f"delimiter must be one character, but is {self.delimiter!r}"

    def open(self, study: str, folder: Path) -> "CsvRuns":
        folder.mkdir(parents=True, exist_ok=True)
        return CsvRuns(folder / f"{study}.csv", self.delimiter)


class CsvRuns:
    def __init__(self, path: Path, delimiter: str) -> None:
        self._path = path
        self._delimiter = delimiter
        if not path.exists():
            self._add([COLUMNS])

    def begin(self, start: RunStart, run: str | None) -> str:
        if run is None:
            self._add((start.name, 0, name, value) for name, value in start.params.items())
        return start.name

    def log(self, run: str, points: Sequence[SentPoint]) -> None:
        self._add(
            (run, point.step, name, value)
            for point in points
            for name, value in point.values.items()
        )

    def end(self, run: str, state: str, values: Mapping[str, float]) -> None:
        self._add([(run, "", state, ""), *((run, "", name, own) for name, own in values.items())])

    def close(self) -> None:
        """Do nothing: every line has been written."""

    def _add(self, lines: Iterable[Iterable[object]]) -> None:
        with self._path.open("a", newline="") as file:
            csv.writer(file, delimiter=self._delimiter).writerows(lines)
