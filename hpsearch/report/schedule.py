"""The schedule of a trial: the hyperparameters of each interval on the line that led to it.

Where there are islands, of each local generation.
"""

from typing import Any

from hpsearch.errors import UsageError
from hpsearch.report.lineage import Descent
from hpsearch.report.view import StudyView


def schedule_of(view: StudyView, found: Descent, trial: int) -> list[dict[str, Any]]:
    """Return the values of the hyperparameters in each interval, the oldest first.

    Raises:
        UsageError: if the trial has not finished, is no trial of the population, or if its line
            began with what another study has learned, or has networks that grew.
    """
    options, line = view.study.spec.population, found.line(trial)
    assert options is not None, "whoever has descent is of a population"
    if line[0].founder is not None:
        raise UsageError(
            f"trial {trial} of {view.study.spec.name} descends from a founder, "
            f"{line[0].founder.checkpoint}; what that one had learned is no part of "
            "the schedule, which can be tried from new networks alone: replay the study of the "
            "founder, or a trial whose line began with new networks"
        )
    grown = [one.trial for one in line if one.operator == "grow"]
    if grown:
        raise UsageError(
            f"networks grew on the line that led to trial {trial} of {view.study.spec.name}, in "
            f"trial {grown[0]}, but members that follow a schedule keep their networks: replay a "
            "trial before that one"
        )
    return [
        view.study.space.decode(one.params)
        for one in line
        for _ in range((one.step - one.begin) // options.steps_of_schedule)
    ]


def num_mixed(found: Descent, trial: int) -> int:
    """Return in how many intervals of the line an operator had changed the first parent."""
    line = found.line(trial)
    made = [one for one in line if one.operator not in ("fresh", "clone")]
    return sum(one.adopted is not False for one in made)
