"""hpsearch replay: a schedule that a population found, from new networks on seeds held out."""

import json
from dataclasses import dataclass
from pathlib import Path

from hpsearch import files
from hpsearch.analysis.confirmation import WIDTH
from hpsearch.analysis.lineage import Ancestry, num_mixed, read_lineage, schedule_of
from hpsearch.cluster.pins import pin
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.commands.deriving import HowToTrain, trained
from hpsearch.commands.find import runs_option
from hpsearch.errors import ConflictError, HpsearchError, UsageError
from hpsearch.study.derived import begun_replay, population_of, replay_name, write_replay
from hpsearch.study.spec import Study
from hpsearch.study.view import StudyView, open_view
from hpsearch.terminal import Terminal, say

SEEDS = 5
MIN_SEEDS = 2
"""members of a population at least"""


@dataclass(frozen=True)
class ReplayArguments:
    """What a user asks for."""

    trial: int | None
    """whose schedule; None: the champion's"""
    seeds: int | None
    """trainings; None: as many as were begun, or five"""
    games: int
    """of each pair on held-out starts"""
    submit: bool
    """whether a driver without a terminal trains"""


def replay(name_or_file: str, runs: Path, wanted: ReplayArguments, *, as_json: bool) -> int:
    """Train a schedule again, and say whether it holds up."""
    from hpsearch.analysis.replay import (  # torch
        compare_replay,
        conclusion_text,
        original_checkpoint,
        plain_replay,
        print_replay,
    )

    view = open_view(name_or_file, runs)
    descent = read_lineage(view)
    trial = _trial(view, descent, wanted)
    name = view.study.spec.name
    folder = StudyDir((runs / replay_name(name, trial)).absolute())
    original = original_checkpoint(view, trial)  # before anything is trained in vain
    study = _study(view, descent, trial, folder, wanted)
    pin(view.folder, folder, [original])
    again = f"hpsearch replay {name} --trial {trial}{runs_option(runs)}"
    how = HowToTrain(runs, again, wanted.submit, Terminal(stderr=as_json))
    after = trained(study, folder, how)
    if isinstance(after, int):
        return after
    compared = compare_replay(view, trial, after, wanted.games, num_mixed(descent, trial))
    conclusion = conclusion_text(compared)
    plain = plain_replay(compared, conclusion)
    files.write_json(view.folder.replay(trial), plain)
    if as_json:
        print(json.dumps(plain, indent=1))
    else:
        print_replay(Terminal(width=max(Terminal().width, WIDTH)), compared, conclusion)
    return 0


def _trial(view: StudyView, descent: Ancestry, wanted: ReplayArguments) -> int:
    trial = descent.champion if wanted.trial is None else wanted.trial
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
    view: StudyView, descent: Ancestry, trial: int, folder: StudyDir, wanted: ReplayArguments
) -> Study:
    """Return the study that trains the schedule: what was begun, if it is what is wanted."""
    if wanted.seeds is not None and wanted.seeds < MIN_SEEDS:
        raise UsageError(
            f"one seed tells nothing of the spread over seeds; give --seeds {MIN_SEEDS} or more"
        )
    schedule = schedule_of(view, descent, trial)
    begun = begun_replay(folder)
    if begun is None:
        _say_what_is_left_out(descent, trial)
        return write_replay(view.study, trial, schedule, wanted.seeds or SEEDS, folder)
    options = population_of(begun)
    assert options is not None, "it is a replay"
    if wanted.seeds not in (None, options.members):
        raise ConflictError(
            f"{begun.spec.name} trains {options.members} seeds and cannot change to "
            f"{wanted.seeds}; leave out --seeds to go on with them, or copy {begun.path} under "
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
