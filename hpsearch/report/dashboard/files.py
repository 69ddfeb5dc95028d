"""Files of a study as the dashboard's artifacts: what it was started from, and its best trials'."""

import json
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn
from uuid import NAMESPACE_URL, uuid5

from optuna.artifacts.exceptions import ArtifactNotFound

from hpsearch.bounded import open_file
from hpsearch.errors import CorruptError, UsageError
from hpsearch.report.view import StudyView

NUM_TRIALS: Final = 20
"""whose files are offered: the best ones"""
PREFIX: Final = "artifacts:"
"""as Optuna names the attributes that tell of artifacts"""
PLAIN: Final = (".yaml", ".jsonl", ".log")
"""that a browser shows as text"""


@dataclass(frozen=True)
class File:
    """A file that is offered."""

    path: Path

    @property
    def id(self) -> str:
        """Return its name in the dashboard's addresses."""
        return str(uuid5(NAMESPACE_URL, self.path.as_uri()))

    def attr(self) -> tuple[str, str]:
        """Return the attribute by which the dashboard knows it."""
        kind = "text/plain" if self.path.suffix in PLAIN else mimetypes.guess_type(self.path)[0]
        told = {
            "artifact_id": self.id,
            "filename": self.path.name,
            "mimetype": kind or "application/octet-stream",
            "encoding": None,
        }
        return PREFIX + self.id, json.dumps(told)


class OfferedFiles:
    """An artifact store that holds what is offered, and takes nothing."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._paths: dict[str, Path] = {}

    def offer(self, files: Sequence[File]) -> dict[str, Any]:
        """Offer files, where they are; return the attributes that tell of them."""
        there = [one for one in files if one.path.is_file()]
        self._paths |= {one.id: one.path for one in there}
        return dict(one.attr() for one in there)

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """Open a file.

        Raises:
            ArtifactNotFound: if it is not offered, or gone.
        """
        try:
            return open_file(self._paths[artifact_id])
        except (KeyError, OSError, CorruptError) as error:
            raise ArtifactNotFound(f"no file {artifact_id} is offered any more") from error

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:
        """Refuse."""
        _refuse()

    def remove(self, artifact_id: str) -> None:
        """Refuse."""
        _refuse()


def study_files(view: StudyView) -> list[File]:
    """Return the files that tell of the whole study."""
    folder = view.folder
    paths = (view.study.path, folder.log, folder.confirmation)
    return [File(path.absolute()) for path in paths]


def trial_files(view: StudyView) -> Mapping[int, list[File]]:
    """Return files of the best trials, by number: configuration, curve and result."""
    found = {}
    for number in _best(view):
        files = view.folder.trial(number)
        found[number] = [File(path) for path in (files.config, files.metrics, files.result)]
    return found


def _best(view: StudyView) -> Iterator[int]:
    yield from view.state.population.archive[-1:]
    yield from (one.number for one in view.ranked(view.state.trials.values())[:NUM_TRIALS])


def _refuse() -> NoReturn:
    raise UsageError("the dashboard offers files for reading alone")
