"""The commands about populations that make a study of their own."""

import argparse
from typing import TYPE_CHECKING

from hpsearch.arguments.adding import Call, add_command, add_json, add_runs, count, positive

if TYPE_CHECKING:
    from hpsearch.arguments.adding import Commands


def add_population_commands(commands: "Commands") -> None:
    """Add all of them."""
    _add_replay(commands)
    _add_breed(commands)


def _add(
    commands: "Commands", name: str, call: Call, summary: str, example: str
) -> argparse.ArgumentParser:
    parser = add_command(commands, name, call, summary, example=example)
    add_runs(parser)
    return parser


def _add_replay(commands: "Commands") -> None:
    summary = "the schedule that led to a population's champion again, on held-out seeds"
    example = "hpsearch replay population_pairs --seeds 5"
    parser = _add(commands, "replay", _replay, summary, example)
    parser.add_argument("study", metavar="STUDY", help="study file, or name of a started study")
    add_json(parser)
    parser.add_argument(
        "--trial",
        type=count,
        metavar="N",
        help="whose schedule; default: the champion's, or of whom a closing made it",
    )
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="S",
        help="trainings, on seeds of their own; default: 5, or as many as were begun",
    )
    parser.add_argument(
        "--games",
        type=positive,
        default=1000,
        metavar="G",
        help="games of each pair, from starts that nothing else uses; default: 1000",
    )
    parser.add_argument(
        "--submit",
        action="store_true",
        help="leave the training to a driver without a terminal; the same command later compares",
    )


def _add_breed(commands: "Commands") -> None:
    summary = "a population that begins with the best of finished studies, of any shapes"
    example = "hpsearch breed dqn_small dqn_large --members 8 --submit"
    parser = _add(commands, "breed", _breed, summary, example)
    parser.add_argument(
        "studies", nargs="+", metavar="STUDY", help="study file, or name of a finished study"
    )
    parser.add_argument("--name", metavar="NAME", help="default: the first study's and -bred")
    parser.add_argument(
        "--members", type=positive, metavar="M", help="default: 8, or one for each study"
    )
    parser.add_argument(
        "--interval",
        type=positive,
        metavar="K",
        help="steps between two matches; default: a tenth of the training of the first founder",
    )
    parser.add_argument(
        "--trials", type=positive, metavar="T", help="intervals in all; default: six of each member"
    )
    parser.add_argument(
        "--seed", type=count, metavar="N", help="default: the first study's and 500000000"
    )
    parser.add_argument(
        "--submit", action="store_true", help="leave it to a driver without a terminal"
    )


def _replay(options: argparse.Namespace) -> int:
    from hpsearch.commands.replay import Wanted, replay

    wanted = Wanted(options.trial, options.seeds, options.games, options.submit)
    return replay(options.study, options.runs, wanted, as_json=options.json)


def _breed(options: argparse.Namespace) -> int:
    from hpsearch.commands.breed import Wanted, breed
    from hpsearch.study.bred import Numbers

    numbers = Numbers(options.members, options.interval, options.trials, options.seed)
    return breed(options.studies, options.runs, Wanted(options.name, numbers, options.submit))
