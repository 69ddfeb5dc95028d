"""hpsearch evaluate: everything that can be measured of a player."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from hpsearch import atomic
from hpsearch.commands.certificate import evaluate_bundles
from hpsearch.errors import UsageError
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.philox import derive_key
from hpsearch.report.blowup_tree import Tree, tree_text
from hpsearch.report.bundle.reading import bundles_in
from hpsearch.report.contestants import Contestant, find_contestant
from hpsearch.report.evaluation_text import WIDTH, plain_report, print_report
from hpsearch.report.examination import CPU, Plan, examine
from hpsearch.report.host_tree import host_tree
from hpsearch.report.picture_files import PICTURES
from hpsearch.report.terminal import Terminal
from hpsearch.report.tree_picture import write_picture
from hpsearch.trainers.policies import ScriptedAgentPolicy, ScriptedHostPolicy
from hpsearch.trainers.transcript import record_game, transcript

NUM_GAMES = 4000
MATCH_MOVES = 10_000
TREE_START = "E6"
TEXT_SUFFIX = ".txt"


@dataclass(frozen=True)
class Asked:
    """What a command line asks for; None where it leaves the choice to us."""

    match_steps: int | None
    """moves of a match; 0 plays none"""
    num_games: int | None
    """games an opponent and mode"""
    response_steps: int | None
    """for which a best response trains; None trains none"""
    sample_games: int
    """games to print move by move"""
    tree: Path | None
    """where to write the host's blow-up tree: a picture, or text (.txt); None draws none"""
    tree_start: str | None
    """the start of the tree, a name of the ADE table"""


NOTHING_MORE: Final = Asked(
    match_steps=None,
    num_games=None,
    response_steps=None,
    sample_games=0,
    tree=None,
    tree_start=None,
)


def evaluate(player: Path, asked: Asked, signers: Path | None, *, as_json: bool) -> int:
    """Measure a player and print what was found.

    Args:
        player: a checkpoint, a folder of some, a bundle, or the name of a scripted player.
        asked: what is measured; of a bundle always what it certifies.
        signers: the file that lists who may have signed a bundle; None asks for no signature.
        as_json: print plain data instead of tables.
    """
    if bundles := bundles_in(player):
        if asked != NOTHING_MORE:
            raise UsageError(
                f"{player} is a bundle, of which what it certifies is measured again and nothing "
                "else; name the folder of its trial instead, such as runs/STUDY/trials/0, or leave "
                "out every option but --json and --signers"
            )
        return evaluate_bundles(bundles, signers, as_json=as_json)
    if signers is not None:
        raise UsageError(f"{player} is no bundle, and only bundles are signed; leave out --signers")
    return _examine(player, asked, as_json=as_json)


def _examine(player: Path, asked: Asked, *, as_json: bool) -> int:
    tree, tree_start = asked.tree, asked.tree_start or TREE_START
    contestant = find_contestant(player, CPU)
    if asked.response_steps is not None and contestant.checkpoint is None:
        raise UsageError(
            f"{contestant.name} is scripted, and a best response learns by the configuration of "
            "the player that it learns against; name a checkpoint, or leave out --best-response"
        )
    drawn = None if tree is None else _tree(contestant, tree, tree_start)
    report = examine(contestant, _plan(asked))
    shown = _sample_games(contestant, asked.sample_games)
    if as_json:
        print(json.dumps({**plain_report(report), "sample_games": shown}, indent=1))
    else:
        print_report(Terminal(width=max(Terminal().width, WIDTH)), report)
        for game in shown:
            print(f"\n{game}")
    if tree is not None and drawn is not None:
        _write_tree(drawn, f"{tree_start}, {contestant.name}", tree)
    return 0


def _plan(asked: Asked) -> Plan:
    moves = MATCH_MOVES if asked.match_steps is None else asked.match_steps
    games = asked.num_games or NUM_GAMES
    return Plan(games, match_moves=moves or None, response_steps=asked.response_steps)


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
