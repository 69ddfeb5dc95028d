"""The arguments of the command that lets players meet."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.arguments.adding import add_command, add_json, add_runs, count, positive

if TYPE_CHECKING:
    from hpsearch.arguments.adding import Commands

EXAMPLE = "hpsearch crossplay quickstart runs/ppo_20x3 zeillinger --top 5 -o matrix.svg"


def add_crossplay(commands: "Commands") -> None:
    """Add it."""
    summary = "every host against every agent: a matrix, ratings, cycles"
    parser = add_command(commands, "crossplay", _crossplay, summary, example=EXAMPLE)
    parser.add_argument(
        "players",
        nargs="+",
        metavar="PLAYER",
        help="study (its best trials), checkpoint, folder of a run or a trial (its newest "
        "checkpoint), or name of a scripted player",
    )
    add_runs(parser)
    _add_who(parser)
    _add_how(parser)
    parser.add_argument(
        "--intervals", action="store_true", help="print the matrix with its 95 %% intervals"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the matrix: .png, .svg or .pdf, .csv, or .json",
    )
    add_json(parser)


def _add_who(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--top",
        type=positive,
        default=3,
        metavar="K",
        help="trials of a study, of each role that learns; default: 3",
    )
    parser.add_argument(
        "--panel",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="let the scripted players play too, on both sides; default: yes",
    )


def _add_how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--games",
        type=positive,
        default=1000,
        metavar="N",
        help="games a pair, from the same starts for all; default: 1000",
    )
    parser.add_argument(
        "--seed", type=count, default=0, metavar="N", help="of the starts; default: 0"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--greedy",
        dest="sampled",
        action="store_false",
        default=False,
        help="learned players play what they hold best; the default",
    )
    mode.add_argument(
        "--sampled",
        action="store_true",
        help="they draw moves as often as evaluation.er of their configuration says",
    )
    parser.add_argument(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU if any"
    )


def _crossplay(options: argparse.Namespace) -> int:
    from hpsearch.commands.crossplay import crossplay

    return crossplay(
        options.players,
        options.runs,
        top=options.top,
        panel=options.panel,
        num_games=options.games,
        seed=options.seed,
        sampled=options.sampled,
        device=options.device,
        intervals=options.intervals,
        output=options.output,
        as_json=options.json,
    )
