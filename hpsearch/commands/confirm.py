"""hpsearch confirm: the best of a study again, on what none of them was chosen by."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from hpsearch import files
from hpsearch.analysis.candidates import Candidate, all_candidates, best_candidates
from hpsearch.analysis.confirmation import (
    WIDTH,
    Confirmation,
    advice_text,
    plain_confirmation,
    print_confirmation,
)
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.deriving import HowToTrain, trained
from hpsearch.commands.find import runs_option
from hpsearch.errors import ConflictError, UsageError
from hpsearch.population.options import PopulationOptions
from hpsearch.study.derived import (
    CONFIRM_SUFFIX,
    CONFIRMATION,
    begun_derived,
    configurations,
    derived_name,
    key,
    num_seeds,
    with_more_seeds,
    write_confirmation,
)
from hpsearch.study.records import COMPLETE
from hpsearch.study.spec import Study
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import Terminal, say

TOP = 5
SEEDS = 5


@dataclass(frozen=True)
class ConfirmArguments:
    """What a user asks for."""

    top: int | None
    """how many of the best; None: those of the confirmation that was begun, or five"""
    seeds: int | None
    """trainings of each; None: as many as were begun, or five"""
    games: int
    """of each on held-out starts"""
    response_steps: int | None
    """for which a best response to each trained player trains; None trains none"""
    submit: bool
    """whether a driver without a terminal trains"""


def confirm(
    study: str,
    runs: Path,
    *,
    top: int | None,
    seeds: int | None,
    games: int,
    response_steps: int | None,
    submit: bool,
    as_json: bool,
) -> int:
    """Compare the best of a study, and say which one to export."""
    wanted = ConfirmArguments(top, seeds, games, response_steps, submit)
    view = open_view(study, runs)
    _say_what_goes_on(view)
    options = view.study.spec.population
    if options is None:
        confirmation = _train_and_compare(view, runs, wanted, Terminal(stderr=as_json))
    else:
        confirmation = _play(view, options, wanted)
    if isinstance(confirmation, int):
        return confirmation
    advice = advice_text(confirmation, runs_option(runs))
    plain = plain_confirmation(confirmation, advice)
    files.write_json(view.folder.confirmation, plain)
    if as_json:
        print(json.dumps(plain, indent=1))
    else:
        print_confirmation(Terminal(width=max(Terminal().width, WIDTH)), confirmation, advice)
    return 0


def _say_what_goes_on(view: StudyView) -> None:
    if view.state.unfinished():
        say(
            f"{view.study.spec.name} is {view.status}: what has finished so far is confirmed, "
            f"{sum(trial.trains for trial in view.state.told(COMPLETE))} of "
            f"{view.study.spec.budget.trials} trials"
        )


def _play(view: StudyView, options: PopulationOptions, wanted: ConfirmArguments) -> Confirmation:
    from hpsearch.analysis.rematch import rematch  # it loads torch

    options_given = {
        "--seeds": wanted.seeds is not None,
        "--submit": wanted.submit,
        "--best-response": wanted.response_steps is not None,
    }
    if any(options_given.values()):
        given = " and ".join(name for name, is_given in options_given.items() if is_given)
        raise UsageError(
            f"{view.study.spec.name} breeds a population, whose weights are exported as they are, "
            f"so nothing is trained; leave out {given}"
        )
    return rematch(view, options, wanted.top or TOP, wanted.games)


def _train_and_compare(
    view: StudyView, runs: Path, wanted: ConfirmArguments, console: Console
) -> Confirmation | int:
    """Return what was found, or the exit code where there is nothing to compare yet."""
    name = derived_name(view.study.spec.name, CONFIRM_SUFFIX, "confirmed")
    folder = StudyDir((runs / name).absolute())
    study = _study(view, folder, wanted)
    compared = _compared(view, study)
    again = f"hpsearch confirm {view.study.spec.name}{runs_option(runs)}"
    after = trained(study, folder, HowToTrain(runs, again, wanted.submit, console))
    if isinstance(after, int):
        return after
    from hpsearch.analysis.retraining import compare_seeds  # it loads torch

    return compare_seeds(view, after, compared, wanted.games, wanted.response_steps)


def _study(view: StudyView, folder: StudyDir, wanted: ConfirmArguments) -> Study:
    """Return the study that trains again: what was begun, as far as it is what is wanted."""
    begun, name = begun_derived(folder, CONFIRMATION), view.study.spec.name
    chosen = best_candidates(view, wanted.top or TOP)
    if begun is None or not folder.spec.exists():  # it was written and never driven
        if len(chosen) < (wanted.top or TOP):
            say(f"{name} has only {len(chosen)} different configurations that have finished")
        values = [candidate.values for candidate in chosen]
        return write_confirmation(view.study, values, wanted.seeds or SEEDS, folder)
    _check_chosen(view, begun, chosen, wanted)
    if wanted.seeds is not None and wanted.seeds < num_seeds(begun):
        say(f"{begun.spec.name} goes on with the {num_seeds(begun)} seeds of each that were begun")
    elif wanted.seeds is not None and wanted.seeds > num_seeds(begun):
        return with_more_seeds(begun, wanted.seeds, folder, name)
    return begun


def _check_chosen(
    view: StudyView, begun: Study, chosen: Sequence[Candidate], wanted: ConfirmArguments
) -> None:
    """Refuse another set of configurations, where one was asked for; else say that it is older."""
    listed = {key(values) for values in configurations(begun)}
    best = best_candidates(view, wanted.top or len(listed))
    if listed == {candidate.key for candidate in best}:
        return
    numbers = ", ".join(str(candidate.trial.number) for candidate in _compared(view, begun))
    if wanted.top is None:
        say(f"the best of {view.study.spec.name} are others by now; compared are trials {numbers}")
        return
    asked = ", ".join(str(candidate.trial.number) for candidate in chosen)
    raise ConflictError(
        f"{begun.spec.name} compares trials {numbers} and cannot change to {asked}; leave out "
        f"--top to go on with them, or compare others by a study of your own: copy {begun.path} "
        "under another name, change its name and its configurations, and run it"
    )


def _compared(view: StudyView, study: Study) -> list[Candidate]:
    """Return the candidates whose configurations a study trains again."""
    known = {candidate.key: candidate for candidate in all_candidates(view)}
    keys = [key(values) for values in configurations(study)]
    if not known.keys() >= set(keys):
        raise ConflictError(
            f"{study.path} lists configurations that no finished trial of {view.study.spec.name} "
            "has; run it by its own name, or undo the change"
        )
    return [known[key] for key in keys]
