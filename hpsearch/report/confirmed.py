"""What a study's confirmation says of the trial to export, if it belongs to the study as it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hpsearch.bounded import read_json
from hpsearch.errors import ConfigError, CorruptError
from hpsearch.report.candidates import best_candidates
from hpsearch.report.view import StudyView
from hpsearch.schema import field_hints, read


@dataclass(frozen=True)
class ConfirmedTrial:
    """A candidate, as the file has it."""

    trial: int
    search: dict[str, float | None]
    mean: float | None
    low: float | None
    high: float | None
    chance: float | None
    seeds: tuple[dict[str, Any], ...]

    def check(self) -> Iterator[str]:
        """Yield what is missing of what the search believed, and of seeds."""
        if "value" not in self.search:
            yield "search must hold a value"
        if not all(type(one.get("trial")) is int for one in self.seeds):
            yield "seeds must name a trial each"


@dataclass(frozen=True)
class ConfirmationFile:
    """What readers rely on of what `confirm` wrote."""

    best: int
    trained_by: str | None
    metric: str
    games: int
    advice: str
    trials: tuple[ConfirmedTrial, ...]


@dataclass(frozen=True)
class Confirmed:
    """What was confirmed."""

    best: int
    """trial"""
    is_current: bool
    """whether those that were compared are the study's best still"""


def read_confirmed(view: StudyView) -> Confirmed | None:
    """Return what was confirmed, None if nothing was.

    Raises:
        CorruptError: if the file that says so is damaged.
    """
    path = view.folder.confirmation
    data = read_json(path)
    if data is None:
        return None
    try:
        return Confirmed(int(data["best"]), _is_current(view, data))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(view) from error


def whole_confirmation(view: StudyView) -> Mapping[str, Any]:
    """Return all that the file of a confirmation says, which has been found there.

    Raises:
        CorruptError: if it lacks something that readers rely on.
    """
    data = read_json(view.folder.confirmation)
    try:
        _check(data, str(view.folder.confirmation))
    except ConfigError as error:
        raise _damaged(view) from error
    return cast(Mapping[str, Any], data)


def _damaged(view: StudyView) -> CorruptError:
    return CorruptError(
        f"{view.folder.confirmation} is damaged; write it anew with: "
        f"hpsearch confirm {view.study.spec.name}"
    )


def _check(data: Any, source: str) -> None:
    """Check that the file holds what readers rely on; it may hold more.

    Raises:
        ConfigError: if it does not.
    """
    known = _known(ConfirmationFile, data)
    if isinstance(known, dict) and isinstance(known.get("trials"), list):
        known["trials"] = [_known(ConfirmedTrial, entry) for entry in known["trials"]]
    read(ConfirmationFile, known, source=source)


def _known(kind: type, data: Any) -> Any:
    """Return what a mapping holds of the fields of ``kind``."""
    names = field_hints(kind)
    return {k: v for k, v in data.items() if k in names} if isinstance(data, dict) else data


def last_match(view: StudyView) -> int | None:
    """Return the number of a population's last judged match."""
    judged = [one.number for one in view.state.population.matches.values() if one.is_over]
    return judged[-1] if judged else None


def _is_current(view: StudyView, data: Any) -> bool:
    if view.study.spec.population is not None:
        return bool(data["match"] == last_match(view))
    compared = {one["trial"] for one in data["trials"]}
    return compared == {one.trial.number for one in best_candidates(view, data["top"])}
