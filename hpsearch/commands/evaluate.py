"""hpsearch evaluate: everything that can be measured of a player."""

import json
from pathlib import Path

import torch
from rich.console import Console

from hpsearch import atomic
from hpsearch.errors import UsageError
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.philox import derive_key
from hpsearch.report.blowup_tree import Tree, tree_text
from hpsearch.report.contestants import Contestant, find_contestant
from hpsearch.report.evaluation_text import WIDTH, plain_report, print_report
from hpsearch.report.examination import CPU, Plan, examine
from hpsearch.report.host_tree import host_tree
from hpsearch.report.picture_files import PICTURES
from hpsearch.report.tree_picture import write_picture
from hpsearch.trainers.policies import ScriptedAgentPolicy, ScriptedHostPolicy
from hpsearch.trainers.transcript import record_game, transcript

TEXT_SUFFIX = ".txt"


def evaluate(
    checkpoint: Path,
    *,
    match_steps: int | None,
    num_games: int,
    sample_games: int,
    tree: Path | None,
    tree_start: str,
    as_json: bool,
) -> int:
    """Measure a player and print what was found.

    Args:
        checkpoint: a checkpoint, a folder of some, or the name of a scripted player.
        match_steps: moves of a match; None plays none.
        num_games: games an opponent and mode.
        sample_games: games to print move by move.
        tree: where to write the host's blow-up tree: a picture, or text (.txt); None draws none.
        tree_start: the start of the tree, a name of the ADE table.
        as_json: print plain data instead of tables.
    """
    contestant = find_contestant(checkpoint, CPU)
    drawn = None if tree is None else _tree(contestant, tree, tree_start)
    report = examine(contestant, Plan(num_games=num_games, match_moves=match_steps))
    shown = _sample_games(contestant, sample_games)
    if as_json:
        print(json.dumps({**plain_report(report), "sample_games": shown}, indent=1))
    else:
        print_report(Console(width=max(Console().width, WIDTH)), report)
        for game in shown:
            print(f"\n{game}")
    if tree is not None and drawn is not None:
        _write_tree(drawn, f"{tree_start}, {contestant.name}", tree)
    return 0


def _sample_games(contestant: Contestant, count: int) -> list[str]:
    """Play games that show the contestant: host against agent where it is both."""
    if count == 0:
        return []
    keys = torch.tensor([derive_key("sample games")])
    starts = FusedGame(contestant.game, keys, count, CPU, "cpu", observes=False).points[0]
    host = contestant.host or ScriptedHostPolicy("zeillinger")
    agent = contestant.agent or ScriptedAgentPolicy("choose_first")
    return [
        transcript(
            record_game(
                host,
                agent,
                start,
                max_steps=contestant.max_steps,
                reposition=contestant.game.reposition,
                exploration=(0.0, 0.0),
                key=derive_key("sample game", number),
            )
        )
        for number, start in enumerate(starts)
    ]


def _tree(contestant: Contestant, path: Path, start: str) -> Tree:
    """Return the host's blow-up tree; refuse what has none before anything is measured."""
    if path.suffix not in (*PICTURES, TEXT_SUFFIX):
        kinds = ", ".join(PICTURES)
        raise UsageError(
            f"a tree is drawn as one of {kinds} or written as {TEXT_SUFFIX}, got {str(path)!r}; "
            "change the file's name"
        )
    return host_tree(contestant, start)


def _write_tree(tree: Tree, title: str, path: Path) -> None:
    if path.suffix == TEXT_SUFFIX:
        atomic.write_text(path, f"{title}\n{tree_text(tree)}\n")
    else:
        write_picture(tree, title, path)
