"""What a study's confirmation says of the trial to export, if it belongs to the study as it is."""

from dataclasses import dataclass
from typing import Any

from hpsearch.atomic import read_json
from hpsearch.errors import CorruptError
from hpsearch.report.candidates import best_candidates
from hpsearch.report.view import StudyView


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
    except (KeyError, TypeError, ValueError) as error:
        name = view.study.spec.name
        raise CorruptError(
            f"{path} is damaged; write it anew with: hpsearch confirm {name}"
        ) from error


def last_match(view: StudyView) -> int | None:
    """Return the number of a population's last judged match."""
    judged = [one.number for one in view.state.population.matches.values() if one.is_over]
    return judged[-1] if judged else None


def _is_current(view: StudyView, data: Any) -> bool:
    if view.study.spec.population is not None:
        return bool(data["match"] == last_match(view))
    compared = {one["trial"] for one in data["trials"]}
    return compared == {one.trial.number for one in best_candidates(view, data["top"])}
