"""hpsearch crossplay: who is how strong among players that all meet each other."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from hpsearch import files
from hpsearch.analysis.pictures import PICTURES, check_matplotlib
from hpsearch.analysis.round_robin import HowToPlay, find_players, play_round_robin
from hpsearch.analysis.standings import csv_text, plain_standings, standings
from hpsearch.analysis.standings_text import WIDTH, print_standings, write_matrix
from hpsearch.errors import UsageError
from hpsearch.terminal import Terminal

DATA = (".csv", ".json")
MIN_GAMES = 2
"""of a pair, without which nothing is known of its noise"""


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
    """Let all hosts play all agents, rate them, and print what was found.

    Args:
        players: studies, checkpoints, folders of runs and trials, and names of scripted players.
        runs: the folder of the studies.
        top: how many trials of a study play, of each role that learns.
        panel: whether the scripted panel plays on both sides too.
        games: of each pair.
        seed: of the starts, and of what is drawn.
        sampled: whether learned players draw their moves.
        device: cpu, cuda, or auto: a GPU where there is one.
        intervals: whether the matrix is printed with its intervals.
        output: where to write the matrix: a picture, .csv or .json; None writes none.
        as_json: print plain data instead of tables.
    """
    if games < MIN_GAMES:
        raise UsageError(f"--games must be at least {MIN_GAMES}, got {games}")
    _check_output(output)
    how = HowToPlay(games, seed, sampled, _device(device))
    entrants = find_players(players, runs, top=top, panel=panel, device=how.device)
    measured = standings(play_round_robin(entrants, how), seed)
    plain = plain_standings(measured, entrants, how)
    if as_json:
        print(json.dumps(plain, indent=1))
    else:
        terminal = Terminal()
        width = terminal.width if terminal.is_terminal else None
        console = Terminal(width=WIDTH)
        print_standings(console, measured, intervals=intervals, width=width)
    if output is not None and output.suffix == ".json":
        files.write_json(output, plain)
    elif output is not None and output.suffix == ".csv":
        files.write_text(output, csv_text(measured))
    elif output is not None:
        write_matrix(measured, output)
    return 0


def _check_output(path: Path | None) -> None:
    """Refuse what could not be written, before anything is played."""
    if path is None or path.suffix in DATA:
        return
    if path.suffix not in PICTURES:
        raise UsageError(
            f"the matrix is drawn as one of {', '.join(PICTURES)} or written as one of "
            f"{', '.join(DATA)}, got {str(path)!r}; change the file's name"
        )
    check_matplotlib("write the matrix as .csv or .json")


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "--device is cuda, but torch finds no CUDA device on this machine; leave it out"
        )
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)
