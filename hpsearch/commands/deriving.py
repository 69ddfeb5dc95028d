"""Training a study that is made of another one: here or by a driver, begun or gone on with."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.driving import broken
from hpsearch.commands.find import runs_option
from hpsearch.commands.run import drive_here
from hpsearch.commands.submit import leave_to_driver
from hpsearch.errors import INTERRUPTED, ConflictError, HpsearchError
from hpsearch.study.records import COMPLETE
from hpsearch.study.spec import Study
from hpsearch.study.state import FAILED, FINISHED
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import say


@dataclass(frozen=True)
class HowToTrain:
    """How a derived study is trained."""

    runs: Path
    """the folder of the studies' folders"""
    again: str
    """the command that goes on, and compares when all is trained"""
    submit: bool
    """whether a driver without a terminal trains"""
    console: Console
    """shows how far it is"""


def trained(study: Study, folder: StudyDir, how: HowToTrain) -> StudyView | int:
    """Train what has not been trained; return how the study is then, or the exit code."""
    before = open_view(study.spec.name, how.runs) if folder.spec.exists() else None
    if before is not None:
        refuse_driven(before, how.runs)
    if before is not None and _is_trained(before, study):
        after = before
    elif how.submit and leave_to_driver(study, folder, how.runs):
        print(f"when it has finished, compare with: {how.again}")
        return 0
    elif how.submit:
        after = open_view(study.spec.name, how.runs)
    else:
        driven = drive_here(study, how.runs, how.console, again=how.again)
        if driven is None:
            return INTERRUPTED
        after = driven
    _say_what_is_missing(after)
    return after


def refuse_driven(view: StudyView, runs: Path) -> None:
    """Refuse a study that is trained already.

    Raises:
        ConflictError: if a driver holds it.
    """
    if view.is_driven:
        name = view.study.spec.name
        look = f"hpsearch status {name} --watch{runs_option(runs)}"
        raise ConflictError(
            f"{name} is being trained by another driver; look at it with: {look}, and "
            "give the same command again when it has finished"
        )


def _is_trained(view: StudyView, study: Study) -> bool:
    has_all = view.state.num_asked >= study.spec.budget.trials
    return view.state.status == FINISHED and has_all and not view.state.unfinished()


def _say_what_is_missing(view: StudyView) -> None:
    """Say why trainings are missing.

    Raises:
        HpsearchError: if nothing can be compared.
    """
    status, name = view.state.status, view.study.spec.name
    if not view.state.told(COMPLETE):
        if status == FAILED:
            raise broken(view)
        raise HpsearchError(f"{name} is {status}, and none of its trials has finished to compare")
    if status == FAILED:
        say(f"{broken(view)}")
    elif status != FINISHED:
        say(f"{name} is {status}; compared is what has finished")
