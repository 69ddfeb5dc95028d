"""hpsearch replay: a schedule that a population found, from new networks on seeds held out."""

import json
from pathlib import Path

from hpsearch import files
from hpsearch.analysis.confirmation import WIDTH
from hpsearch.analysis.lineage import Ancestry, num_mixed, read_lineage, schedule_of
from hpsearch.cluster.pins import pin
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.deriving import HowToTrain, trained
from hpsearch.commands.find import runs_option
from hpsearch.errors import ConflictError, HpsearchError, UsageError
from hpsearch.study.derived import (
    REPLAY,
    begun_derived,
    derived_name,
    population_of,
    write_replay,
)
from hpsearch.study.spec import Study
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import Terminal, say

SEEDS = 5
MIN_SEEDS = 2
"""members of a population at least"""


def replay(
    study: str,
    runs: Path,
    *,
    trial: int | None,
    seeds: int | None,
    games: int,
    submit: bool,
    as_json: bool,
) -> int:
    """Train a schedule again, and say whether it holds up."""
    from hpsearch.analysis.replay import (  # torch
        compare_replay,
        conclusion_text,
        original_checkpoint,
        plain_replay,
        print_replay,
    )

    view = open_view(study, runs)
    descent = read_lineage(view)
    number = _trial(view, descent, trial)
    name = view.study.spec.name
    folder = StudyDir((runs / derived_name(name, f"-replay-{number}", "replayed")).absolute())
    original = original_checkpoint(view, number)  # before anything is trained in vain
    replayed = _study(view, descent, number, folder, seeds)
    pin(view.folder, folder, [original])
    again = f"hpsearch replay {name} --trial {number}{runs_option(runs)}"
    how = HowToTrain(runs, again, submit, Terminal(stderr=as_json))
    after = trained(replayed, folder, how)
    if isinstance(after, int):
        return after
    compared = compare_replay(view, number, after, games, num_mixed(descent, number))
    conclusion = conclusion_text(compared)
    plain = plain_replay(compared, conclusion)
    files.write_json(view.folder.replay(number), plain)
    if as_json:
        print(json.dumps(plain, indent=1))
    else:
        print_replay(Terminal(width=max(Terminal().width, WIDTH)), compared, conclusion)
    return 0


def _trial(view: StudyView, descent: Ancestry, wanted: int | None) -> int:
    """Return whose schedule it is: that of the wanted trial, or of the champion."""
    trial = descent.champion if wanted is None else wanted
    if trial is None:
        name = view.study.spec.name
        raise HpsearchError(
            f"no match of {name} has been judged yet, so it has no champion; look at it with: "
            f"hpsearch status {name}"
        )
    trained = [relative.trial for relative in descent.line(trial) if relative.has_trained]
    if trained[-1] != trial:
        say(
            f"trial {trial} was made of others when training was over, which is no part of a "
            f"schedule; replayed is the last one of its line that trained, trial {trained[-1]}"
        )
    return trained[-1]


def _study(
    view: StudyView, descent: Ancestry, trial: int, folder: StudyDir, seeds: int | None
) -> Study:
    """Return the study that trains the schedule: what was begun, if it is what is wanted."""
    if seeds is not None and seeds < MIN_SEEDS:
        raise UsageError(
            f"one seed tells nothing of the spread over seeds; give --seeds {MIN_SEEDS} or more"
        )
    schedule = schedule_of(view, descent, trial)
    begun = begun_derived(folder, REPLAY)
    if begun is None:
        _say_what_is_left_out(descent, trial)
        return write_replay(view.study, trial, schedule, seeds or SEEDS, folder)
    options = population_of(begun)
    assert options is not None, "it is a replay"
    if seeds not in (None, options.members):
        raise ConflictError(
            f"{begun.spec.name} trains {options.members} seeds and cannot change to "
            f"{seeds}; leave out --seeds to go on with them, or copy {begun.path} under "
            "another name, change its name and its members, and run it"
        )
    return begun


def _say_what_is_left_out(descent: Ancestry, trial: int) -> None:
    mixed = num_mixed(descent, trial)
    if mixed:
        say(
            f"in {mixed} of the {len(descent.line(trial))} intervals that led to trial {trial} an "
            "operator had changed its weights, which is no part of the schedule"
        )
