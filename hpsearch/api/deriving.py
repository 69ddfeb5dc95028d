"""Studies that are made of another one: begun or continued, and trained here or by a driver."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

from hpsearch import files
from hpsearch.analysis.candidates import Candidate, all_candidates
from hpsearch.analysis.confirmation import Confirmation, advice_text, plain_confirmation
from hpsearch.analysis.lineage import Ancestry, num_mixed, schedule_of
from hpsearch.api.background import leave_to_driver
from hpsearch.api.driving import failure_of
from hpsearch.api.foreground import drive_here
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import INTERRUPTED, ConflictError, HpsearchError, UsageError
from hpsearch.names import NAME_RULE, is_name, option_text, runs_option
from hpsearch.study import derived
from hpsearch.study.records import COMPLETE
from hpsearch.study.spec import Study
from hpsearch.study.state import FAILED, FINISHED, StudyState
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import Terminal, say

TOP = 5
SEEDS = 5
CONFIRMED_GAMES = 10_000  # of each training, or of each pair of a population
REPLAYED_GAMES = 1000  # of each pair
MIN_SEEDS = 2  # members of a population at least
MIN_MEMBERS = 2


def trained(
    study: Study, runs: Path, command_to_go_on: str, *, submit: bool, as_json: bool
) -> StudyView | int:
    """Train what is not trained, here or by ``submit``; return the study then, or an exit code."""
    name = study.spec.name
    after = open_view(name, runs) if StudyDir((runs / name).absolute()).spec.exists() else None
    if after is not None:
        refuse_driven(after, runs)
    if after is None or not _is_over(after.state, study.spec.budget.trials):
        if not submit:
            console = Terminal(stderr=as_json, outlives_reader=True)
            after = drive_here(study, runs, console, command_to_go_on=command_to_go_on)
        else:
            # Where JSON is asked for, nothing else may stand in its place.
            with redirect_stdout(sys.stderr if as_json else sys.stdout):
                if leave_to_driver(study, runs):
                    print(f"when it has finished, compare with: {command_to_go_on}")
                    return 0
            after = open_view(name, runs)
    if after is None:
        return INTERRUPTED
    _say_what_is_missing(after)
    return after


def _is_over(state: StudyState, trials: int) -> bool:
    return state.status == FINISHED and state.num_asked >= trials and not state.unfinished()


def refuse_driven(view: StudyView, runs: Path) -> None:
    if view.is_driven:
        look = f"hpsearch status {view.name} --watch{runs_option(runs)}"
        raise ConflictError(
            f"{view.name} is being trained by another driver; look at it with: {look}, and "
            "give the same command again when it has finished"
        )


def _say_what_is_missing(view: StudyView) -> None:
    status, name = view.state.status, view.name
    failure = failure_of(view) if status == FAILED else None
    if not view.state.told(COMPLETE):
        nothing = f"{name} is {status}, and none of its trials has finished to compare"
        raise failure or HpsearchError(nothing)
    if failure is not None:
        say(f"{failure}")
    elif status != FINISHED:
        say(f"{name} is {status}; compared is what has finished")


def say_what_goes_on(view: StudyView) -> None:
    if view.state.unfinished():
        say(
            f"{view.name} is {view.status}: what has finished so far is confirmed, "
            f"{sum(trial.trains for trial in view.state.told(COMPLETE))} of "
            f"{view.study.spec.budget.trials} trials"
        )


def confirm(
    view: StudyView,
    runs: Path,
    *,
    top: int | None,
    seeds: int | None,
    games: int,
    best_response: int | None,
    submit: bool,
    as_json: bool,
) -> Confirmation | int:
    """Return which of the best is the best, and keep it in the study's folder.

    Trains them again, here or by ``submit``, of a population reruns the last match. Returns an exit
    code where that has not ended.
    """
    view.require_players()
    say_what_goes_on(view)
    population = view.study.spec.population
    if population is not None:
        from hpsearch.analysis.held_out import rerun_last_match  # it loads torch

        options = {"--seeds": seeds, "--submit": submit or None, "--best-response": best_response}
        listed = " and ".join(name for name, value in options.items() if value is not None)
        if listed:
            raise UsageError(
                f"{view.name} breeds a population, whose weights are exported as they are, "
                f"so nothing is trained; leave out {listed}"
            )
        view.whole_study()  # without a player of the panel it would be another match
        confirmed = rerun_last_match(view, population, top or TOP, games)
    else:
        go_on = f"hpsearch confirm {view.name}{runs_option(runs)}"
        go_on += option_text("--games", games, CONFIRMED_GAMES)
        go_on += option_text("--best-response", best_response, None)
        training = confirmation_study(view, runs, top, seeds)
        candidates = compared(view, training)
        after = trained(training, runs, go_on, submit=submit, as_json=as_json)
        if isinstance(after, int):
            return after
        from hpsearch.analysis.held_out import compare_seeds  # it loads torch

        confirmed = compare_seeds(view, after, candidates, games, best_response)
    confirmed = replace(confirmed, advice=advice_text(confirmed, runs_option(runs)))
    files.write_json(view.folder.confirmation, plain_confirmation(confirmed))
    return confirmed


def confirmation_study(view: StudyView, runs: Path, top: int | None, seeds: int | None) -> Study:
    """Return the study that trains the best again: the one begun, if it fits, or a new one."""
    name = derived.derived_name(view.name, derived.CONFIRM_SUFFIX, "confirmed")
    folder = StudyDir((runs / name).absolute())
    begun = derived.begun_derived(folder, derived.CONFIRMATION)
    chosen = all_candidates(view)[: top or TOP]
    if begun is None or not folder.spec.exists():  # it was written and never driven
        if len(chosen) < (top or TOP):
            say(f"{view.name} has only {len(chosen)} different configurations that have finished")
        values = [candidate.values for candidate in chosen]
        return derived.write_confirmation(view.whole_study(), values, seeds or SEEDS, folder)
    _check_chosen(view, begun, chosen, top)
    num_begun = derived.num_seeds(begun)
    if seeds is not None and seeds < num_begun:
        say(f"{begun.spec.name} goes on with the {num_begun} seeds of each that were begun")
    elif seeds is not None and seeds > num_begun:
        return derived.with_more_seeds(begun, seeds, folder, view.name)
    return begun


def _check_chosen(
    view: StudyView, begun: Study, chosen: Sequence[Candidate], top: int | None
) -> None:
    """Refuse another set of configurations, where one was asked for; else say that it is older."""
    listed = {derived.key(values) for values in derived.configurations(begun)}
    best = all_candidates(view)[: top or len(listed)]
    if listed == {candidate.key for candidate in best}:
        return
    numbers = ", ".join(str(candidate.trial.number) for candidate in compared(view, begun))
    if top is None:
        say(f"the best of {view.name} are others by now; compared are trials {numbers}")
        return
    asked = ", ".join(str(candidate.trial.number) for candidate in chosen)
    raise ConflictError(
        f"{begun.spec.name} compares trials {numbers} and cannot change to {asked}; leave out "
        f"--top to go on with them, or compare others by a study of your own: copy {begun.path} "
        "under another name, change its name and its configurations, and run it"
    )


def compared(view: StudyView, study: Study) -> list[Candidate]:
    known = {candidate.key: candidate for candidate in all_candidates(view)}
    keys = [derived.key(values) for values in derived.configurations(study)]
    if not known.keys() >= set(keys):
        raise ConflictError(
            f"{study.path} lists configurations that no finished trial of {view.name} "
            "has; run it by its own name, or undo the change"
        )
    return [known[key] for key in keys]


def replayed_trial(view: StudyView, ancestry: Ancestry, asked: int | None) -> int:
    """Return whose schedule it is: that of the trial that was asked for, or of the champion."""
    trial = ancestry.champion if asked is None else asked
    if trial is None:
        raise HpsearchError(
            f"no match of {view.name} has been judged yet, so it has no champion; look at it with: "
            f"hpsearch status {view.name}"
        )
    trained = [relative.trial for relative in ancestry.line(trial) if relative.has_trained]
    if trained[-1] != trial:
        say(
            f"trial {trial} was created in the closing, without training; replaying its last "
            f"trained ancestor, trial {trained[-1]}"
        )
    return trained[-1]


def replay_study(
    view: StudyView, ancestry: Ancestry, trial: int, runs: Path, seeds: int | None
) -> Study:
    """Return the study that trains a schedule: what was begun, if it fits what is asked for."""
    if seeds is not None and seeds < MIN_SEEDS:
        raise UsageError(
            f"one seed tells nothing of the spread over seeds; give --seeds {MIN_SEEDS} or more"
        )
    schedule = schedule_of(view, ancestry, trial)
    name = derived.derived_name(view.name, f"-replay-{trial}", "replayed")
    folder = StudyDir((runs / name).absolute())
    begun = derived.begun_derived(folder, derived.REPLAY)
    if begun is None:
        mixed = num_mixed(ancestry, trial)
        if mixed:
            say(
                f"in {mixed} of the {len(ancestry.line(trial))} intervals that led to trial "
                f"{trial} an operator changed the weights; the replay does not repeat this"
            )
        return derived.write_replay(view.whole_study(), trial, schedule, seeds or SEEDS, folder)
    options = derived.population_of(begun)
    assert options is not None, "it is a replay"
    if seeds not in (None, options.members):
        raise ConflictError(
            f"{begun.spec.name} trains {options.members} seeds and cannot change to "
            f"{seeds}; leave out --seeds to go on with them, or copy {begun.path} under "
            "another name, change its name and its members, and run it"
        )
    return begun


def begin_bred(
    views: Sequence[StudyView], name: str | None, runs: Path, sizes: derived.BredSizes
) -> Study:
    """Return the study of a population that begins with the best of others, a new one or begun."""
    names = [view.name for view in views]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{', '.join(twice)} is named twice; name each study once")
    name = f"{names[0]}{derived.BRED_SUFFIX}" if name is None else name
    if not is_name(name):
        raise UsageError(f"a name {NAME_RULE}, but this is {name!r}; give another one")
    folder = StudyDir((runs / name).absolute())
    bred = bred_study(views, folder, sizes)
    if folder.spec.exists():
        refuse_driven(open_view(name, runs), runs)
    return bred


def bred_study(views: Sequence[StudyView], folder: StudyDir, numbers: derived.BredSizes) -> Study:
    from hpsearch.analysis.players import choose_founders  # it loads torch

    begun = derived.begun_derived(folder, derived.BRED)
    if begun is not None:
        _check_begun(begun, views, numbers)
        return begun
    members = max(derived.MEMBERS, len(views)) if numbers.members is None else numbers.members
    least = max(MIN_MEMBERS, len(views))
    if members < least:
        raise UsageError(
            f"members must be at least {least}, one for each study and two in all, but is {members}"
        )
    if numbers.trials is not None and numbers.trials < members:
        raise UsageError(
            f"trials must be at least members, {members}, an interval of each, but is "
            f"{numbers.trials}"
        )
    founders = choose_founders(views, members)
    return derived.write_bred(folder, [view.whole_study() for view in views], founders, numbers)


def _check_begun(begun: Study, views: Sequence[StudyView], numbers: derived.BredSizes) -> None:
    options, name = begun.spec.population, begun.spec.name
    assert options is not None, "it has founders"
    folders = {view.folder.root for view in views}
    of_others = folders != {Path(place).parents[3] for place in options.founders}
    known = {
        "members": (numbers.members, options.members),
        "interval": (numbers.interval, options.interval),
        "trials": (numbers.trials, begun.spec.budget.trials),
        "seed": (numbers.seed, begun.spec.seed),
    }
    other = [f"{key} {has}" for key, (asked, has) in known.items() if asked not in (None, has)]
    if of_others or other:
        what = "breeds the best of other studies" if of_others else f"has {', '.join(other)}"
        raise ConflictError(
            f"{name} {what}; go on with it by: hpsearch run {name}, or give another name"
        )
