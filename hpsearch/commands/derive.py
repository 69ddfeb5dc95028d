"""hpsearch confirm, replay, breed: studies that are made of others, trained, and compared."""

import json
from collections.abc import Sequence
from pathlib import Path

from hpsearch import files
from hpsearch.commands.command import (
    JSON,
    RUNS,
    STUDY,
    SUBMIT,
    SUBMIT_AND_COMPARE,
    argument,
    command,
    count,
    option,
    positive,
)
from hpsearch.errors import INTERRUPTED
from hpsearch.names import option_text, runs_option

SEEDS = option(
    "--seeds N",
    "trainings of each, on new seeds; default: 5, or as many as were begun",
    positive,
)


@command(
    "train the best of a study again on held-out seeds, and say which is the best",
    *STUDY,
    JSON,
    option(
        "--top K",
        "how many of the best; default: 5, or those of a confirmation that was begun",
        positive,
    ),
    SEEDS,
    option(
        "--games G", "games of each, from starts that nothing else uses", positive, default=10_000
    ),
    option(
        "--best-response STEPS",
        "measure exploitability: train an opponent against each player for so many steps",
        positive,
    ),
    SUBMIT_AND_COMPARE,
    examples=["quickstart --top 5 --seeds 5"],
)
def confirm(
    study: str,
    runs: Path,
    *,
    top: int | None,
    seeds: int | None,
    games: int,
    best_response: int | None,
    submit: bool,
    as_json: bool,
) -> int:
    from hpsearch.analysis.confirmation import plain_confirmation, print_confirmation
    from hpsearch.api import deriving
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.terminal import Terminal

    confirmed = deriving.confirm(
        StudyReader(study, runs).view(),
        runs,
        top=top,
        seeds=seeds,
        games=games,
        best_response=best_response,
        submit=submit,
        as_json=as_json,
    )
    if isinstance(confirmed, int):
        return confirmed
    if as_json:
        print(json.dumps(plain_confirmation(confirmed), indent=1))
    else:
        print_confirmation(Terminal(), confirmed)
    return 0


@command(
    "train the schedule of a population's champion again, on held-out seeds",
    *STUDY,
    JSON,
    option(
        "--trial N",
        "trial with the schedule; default: the champion, or its last ancestor that trained",
        count,
    ),
    SEEDS,
    option(
        "--games G",
        "games of each pair, from starts that nothing else uses",
        positive,
        default=1000,
    ),
    SUBMIT_AND_COMPARE,
    examples=["population_pairs --seeds 5"],
)
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
    from hpsearch.analysis import replay as replaying
    from hpsearch.analysis.lineage import num_mixed, read_lineage
    from hpsearch.api import deriving
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.cluster.study_dir import StudyDir, pin
    from hpsearch.terminal import Terminal

    view = StudyReader(study, runs).view()
    view.require_players()
    ancestry = read_lineage(view)
    number = deriving.replayed_trial(view, ancestry, trial)
    original = replaying.original_checkpoint(view, number)  # before anything is trained in vain
    training = deriving.replay_study(view, ancestry, number, runs, seeds)
    pin(view.folder, StudyDir((runs / training.spec.name).absolute()), [original])
    options = option_text("--games", games, deriving.REPLAYED_GAMES)
    go_on = f"hpsearch replay {view.name} --trial {number}{runs_option(runs)}{options}"
    after = deriving.trained(training, runs, go_on, submit=submit, as_json=as_json)
    if isinstance(after, int):
        return after
    compared = replaying.compare_replay(view, number, after, games, num_mixed(ancestry, number))
    conclusion = replaying.conclusion_text(compared)
    plain = replaying.plain_replay(compared, conclusion)
    files.write_json(view.folder.replay(number), plain)
    if as_json:
        print(json.dumps(plain, indent=1))
    else:
        replaying.print_replay(Terminal(), compared, conclusion)
    return 0


@command(
    "train a population that begins with the best of finished studies, of any shapes",
    argument("studies", "STUDY", "study file, or name of a finished study", count="+"),
    RUNS,
    option("--name NAME", "name of the new study; default: the first study's name and -bred"),
    option("--members M", "members of the population; default: 8, or one for each study", positive),
    option(
        "--interval K",
        "steps between two matches; default: a tenth of the training of the first founder",
        positive,
    ),
    option("--trials T", "intervals in all; default: six for each member", positive),
    option(
        "--seed N", "seed of the new study; default: the first study's seed plus 500000000", count
    ),
    SUBMIT,
    examples=["dqn_small dqn_large --members 8 --submit"],
)
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
    from hpsearch.api.background import leave_to_driver
    from hpsearch.api.deriving import begin_bred
    from hpsearch.api.foreground import drive_here
    from hpsearch.api.study_reader import StudyReader
    from hpsearch.commands.ending import say_the_end
    from hpsearch.study.derived import BredSizes
    from hpsearch.terminal import Terminal

    views = [StudyReader(study, runs).view() for study in studies]
    bred = begin_bred(views, name, runs, BredSizes(members, interval, trials, seed))
    name = bred.spec.name
    if submit:
        if not leave_to_driver(bred, runs):
            print(f"{name}: nothing is left to do")
        return 0
    names = " ".join(view.name for view in views)
    command_to_go_on = f"hpsearch breed {names} --name {name}{runs_option(runs)}"
    after = drive_here(
        bred, runs, Terminal(outlives_reader=True), command_to_go_on=command_to_go_on
    )
    return INTERRUPTED if after is None else say_the_end(after, export_best=True)
