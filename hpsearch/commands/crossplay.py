"""hpsearch crossplay: who is how strong among players that all meet each other."""

import json
from argparse import BooleanOptionalAction
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpsearch import files
from hpsearch.commands.command import (
    JSON,
    RUNS,
    Argument,
    argument,
    check_output,
    command,
    count,
    flag,
    option,
    positive,
)
from hpsearch.errors import UsageError

if TYPE_CHECKING:
    import torch

    from hpsearch.analysis.standings import Standings

MIN_GAMES = 2  # of a pair, without which nothing is known of its noise


@command(
    "every host against every agent: a matrix, ratings, cycles",
    argument(
        "players",
        "PLAYER",
        "study (its best trials), checkpoint, folder of a run or a trial (its newest checkpoint), "
        "or name of a scripted player",
        count="+",
    ),
    RUNS,
    option("--top K", "trials of a study, of each role that learns", positive, default=3),
    Argument(
        ("--panel",),
        {
            "action": BooleanOptionalAction,
            "default": True,
            "help": "let the scripted players play too, on both sides; default: yes",
        },
    ),
    option("--games N", "games a pair, from the same starts for all", positive, default=1000),
    option("--seed N", "of the starts", count, default=0),
    (
        Argument(
            ("--greedy",),
            {
                "dest": "sampled",
                "action": "store_false",
                "default": False,
                "help": "learned players play what they hold best; the default",
            },
        ),
        flag("--sampled", "they draw moves as often as evaluation.er of their configuration says"),
    ),
    option("--device", "default: a GPU if any", choices=("auto", "cpu", "cuda"), default="auto"),
    flag("--intervals", "print the matrix with its 95 %% intervals"),
    option("-o --output FILE", "write the matrix: .png, .svg or .pdf, .csv, or .json", Path),
    JSON,
    examples=["quickstart runs/ppo_20x3 zeillinger --top 5 -o matrix.svg"],
)
def crossplay(
    players: Sequence[str],
    runs: Path,
    *,
    top: int,
    panel: bool,
    games: int,
    seed: int,
    sampled: bool,
    device: str,
    intervals: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    from hpsearch.analysis.players import HowToPlay, find_players, play_round_robin
    from hpsearch.analysis.standings import plain_standings, print_standings, standings
    from hpsearch.terminal import Terminal

    if games < MIN_GAMES:
        raise UsageError(f"--games must be at least {MIN_GAMES}, got {games}")
    check_output(output, "the matrix", (".csv", ".json"))
    how = HowToPlay(games, seed, sampled, _device(device))
    entrants = find_players(players, runs, top=top, panel=panel, device=how.device)
    measured = standings(play_round_robin(entrants, how), seed)
    plain = plain_standings(measured, entrants, how)
    if as_json:
        print(json.dumps(plain, indent=1))
    else:
        width = Terminal().width if Terminal().is_terminal else None
        print_standings(Terminal(), measured, intervals=intervals, width=width)
    if output is not None:
        _write_output(output, measured, plain)
    return 0


def _write_output(output: Path, measured: "Standings", plain: Mapping[str, Any]) -> None:
    from hpsearch.analysis.standings import csv_text, write_matrix

    if output.suffix == ".json":
        files.write_json(output, plain)
    elif output.suffix == ".csv":
        files.write_text(output, csv_text(measured))
    else:
        write_matrix(measured, output)


def _device(name: str) -> "torch.device":
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "--device is cuda, but torch finds no CUDA device on this machine; leave it out"
        )
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)
