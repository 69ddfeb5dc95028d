"""Finding the study that a command should drive."""

from pathlib import Path

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, UsageError
from hpsearch.names import check_places
from hpsearch.study.requests import load_study
from hpsearch.study.spec import Budget, Study, spec_hash
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import say


def find_study(
    name_or_file: str, runs: Path, *, trials: int | None = None
) -> tuple[Study, StudyDir]:
    """Return the study of a file as it is now, or a started one as it was; and its folder.

    With ``trials`` in place of the file's total, it is as its file is now, however it is named.

    Raises:
        UsageError: if more trials than ``trials`` have begun, unless that is the file's own number.
    """
    path = Path(name_or_file)
    check_places(path, runs)
    if path.suffix not in (".yaml", ".yml"):
        view = open_view(name_or_file, runs)
        if trials is None:
            return view.study, view.folder
        path = view.study.path
    study = load_study(path, runs, trials)
    folder = StudyDir((runs / study.spec.name).absolute())
    if trials is None:
        _say_total(study)
    elif folder.spec.exists():
        _check_total(study, open_view(study.spec.name, runs))
    return study, folder


def _check_total(study: Study, view: StudyView) -> None:
    """Refuse a total below what has begun, but the file's own, which withdraws an earlier one."""
    trials, begun = study.spec.budget.trials, view.state.num_asked
    if trials < begun and trials != study.trials_in_file:
        raise UsageError(
            f"{view.study.spec.name} has begun {begun} trials, so a total of {trials} is too low; "
            f"give --trials {begun} or more"
        )


def study_to_resume(view: StudyView) -> Study:
    """Return a started study as its file is now, with a budget that was raised, for instance.

    It is returned as it was, which is said, where the file is missing, wrong or searches something
    else.
    """
    was, path = view.study, view.study.path
    goes_on = f"{was.spec.name} goes on as it was started"
    try:
        now = load_study(path, view.folder.root.parent)
    except ConfigError as error:
        say(f"{error}; {goes_on}")
        return was
    places = (was.spec.name, was.spec.storage), (now.spec.name, now.spec.storage)
    if places[0] != places[1] or spec_hash(now) != spec_hash(was):
        say(f"{path} searches something else by now, or keeps it elsewhere; {goes_on}")
        return was
    _say_total(now)
    return now


def _say_total(study: Study) -> None:
    """Tell of a total that is not the file's, which a user may have forgotten."""
    if study.trials_in_file is not None:
        say(
            f"{study.spec.name} has {study.spec.budget.trials} trials in all, as --trials said; "
            f"change budget.trials in {study.path}, now {study.trials_in_file}, for another total"
        )


def grows(before: Study, after: Study) -> bool:
    """Return whether a study has become allowed more of anything that its budget counts."""
    was, now = _limits(before.spec.budget), _limits(after.spec.budget)
    return any(new > old for old, new in zip(was, now, strict=True))


def _limits(budget: Budget) -> tuple[float, ...]:
    hours = (budget.wall_hours, budget.gpu_hours)
    return (budget.trials, *(float("inf") if cap is None else cap for cap in hours))
