"""hpsearch breed: a population that begins with the best checkpoints of finished studies."""

from collections.abc import Sequence
from pathlib import Path

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.deriving import refuse_driven
from hpsearch.commands.find import runs_option
from hpsearch.commands.run import drive_here, say_the_end
from hpsearch.commands.submit import leave_to_driver
from hpsearch.errors import INTERRUPTED, ConflictError, UsageError
from hpsearch.names import NAME_RULE, is_name
from hpsearch.study.bred import BRED, BRED_SUFFIX, MEMBERS, Numbers, write_bred
from hpsearch.study.derived import begun_derived
from hpsearch.study.spec import Study
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import Terminal

MIN_MEMBERS = 2


def breed(
    studies: Sequence[str],
    runs: Path,
    *,
    name: str | None,
    members: int | None,
    interval: int | None,
    trials: int | None,
    seed: int | None,
    submit: bool,
) -> int:
    """Breed the best of studies to the end, or until Ctrl-C; the same command goes on."""
    numbers = Numbers(members, interval, trials, seed)
    views = [open_view(study, runs) for study in studies]
    names = [view.study.spec.name for view in views]
    _check_names(names)
    name = name or f"{names[0]}{BRED_SUFFIX}"
    if not is_name(name):
        raise UsageError(f"a name {NAME_RULE}, but this is {name!r}; give --name another one")
    folder = StudyDir((runs / name).absolute())
    study = _study(views, folder, numbers)
    if folder.spec.exists():
        refuse_driven(open_view(name, runs), runs)
    if submit:
        if not leave_to_driver(study, folder, runs):
            print(f"{name}: nothing is left to do")
        return 0
    again = f"hpsearch breed {' '.join(names)} --name {name}{runs_option(runs)}"
    view = drive_here(study, runs, Terminal(), again=again)
    return INTERRUPTED if view is None else say_the_end(view, export_best=True)


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)} is named twice; name each study once")


def _study(views: Sequence[StudyView], folder: StudyDir, numbers: Numbers) -> Study:
    """Return the study that breeds: what was begun, if it is what is wanted."""
    from hpsearch.analysis.players import choose_founders  # it loads torch

    begun = begun_derived(folder, BRED)
    if begun is not None:
        _check_begun(begun, views, numbers)
        return begun
    members = max(MEMBERS, len(views)) if numbers.members is None else numbers.members
    if members < max(MIN_MEMBERS, len(views)):
        raise UsageError(
            f"--members must be at least {max(MIN_MEMBERS, len(views))}, one for each study and "
            f"two in all, but is {members}"
        )
    if numbers.trials is not None and numbers.trials < members:
        raise UsageError(
            f"--trials must be at least --members, {members}, an interval of each, but is "
            f"{numbers.trials}"
        )
    founders = choose_founders(views, members)
    return write_bred(folder, [view.study for view in views], founders, numbers)


def _check_begun(begun: Study, views: Sequence[StudyView], numbers: Numbers) -> None:
    """Refuse to go on with a population of other founders, or of other numbers."""
    options, name = begun.spec.population, begun.spec.name
    assert options is not None, "it has founders"
    wanted = {view.folder.root for view in views}
    of_others = wanted != {Path(place).parents[3] for place in options.founders}
    known = {
        "--members": (numbers.members, options.members),
        "--interval": (numbers.interval, options.interval),
        "--trials": (numbers.trials, begun.spec.budget.trials),
        "--seed": (numbers.seed, begun.spec.seed),
    }
    other = [f"{key} {has}" for key, (asked, has) in known.items() if asked not in (None, has)]
    if of_others or other:
        what = "breeds the best of other studies" if of_others else f"has {', '.join(other)}"
        raise ConflictError(
            f"{name} {what}; go on with it by: hpsearch run {name}, or give --name another name"
        )
