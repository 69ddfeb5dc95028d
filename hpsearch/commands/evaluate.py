"""hpsearch evaluate: everything that can be measured of a player, or a bundle certified again."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from rich.console import Console

from hpsearch import files
from hpsearch.analysis.blowup_tree import Tree, host_tree, tree_text, write_picture
from hpsearch.analysis.evaluation_text import WIDTH, plain_report, print_report
from hpsearch.analysis.examination import CPU, ExaminationPlan, ExaminedPlayer, examine, find_player
from hpsearch.analysis.pictures import PICTURES
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.export.folder import shown
from hpsearch.export.reading import Bundle, bundles_in, read_bundle, reproduce
from hpsearch.export.rebuilding import uncompared
from hpsearch.export.text import print_rows, print_verdict
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.random import derive_key
from hpsearch.terminal import Terminal
from hpsearch.trainers.playing import record_game, transcript
from hpsearch.trainers.policies import ScriptedPolicy

NUM_GAMES = 4000
MATCH_MOVES = 10_000
TREE_START = "E6"
TEXT_SUFFIX = ".txt"
MOST_LINES: Final = 100
"""of what differs"""


def evaluate(
    player: Path,
    *,
    match_steps: int | None,
    games: int | None,
    response_steps: int | None,
    show_games: int,
    tree: Path | None,
    tree_start: str | None,
    signers: Path | None,
    as_json: bool,
) -> int:
    """Measure a player and print what was measured.

    Args:
        player: a checkpoint, a folder of some, a bundle, or the name of a scripted player.
        match_steps: moves of a match; 0 plays none; None: the published number.
        games: games an opponent and mode; None: as many as by default.
        response_steps: for which a best response trains; None trains none.
        show_games: games to print move by move.
        tree: where to write the host's blow-up tree: a picture, or text; None draws none.
        tree_start: the start of the tree, a name of the ADE table; None: E6.
        signers: the file that lists who may have signed a bundle; None asks for no signature.
        as_json: print plain data instead of tables.
    """
    if bundles := bundles_in(player):
        choices = (match_steps, games, response_steps, tree, tree_start)
        if show_games or any(choice is not None for choice in choices):
            raise UsageError(
                f"{player} is a bundle, of which what it certifies is measured again and nothing "
                "else; name the folder of its trial instead, such as runs/STUDY/trials/0, or leave "
                "out every option but --json and --signers"
            )
        return evaluate_bundles(bundles, signers, as_json=as_json)
    if signers is not None:
        raise UsageError(f"{player} is no bundle, and only bundles are signed; leave out --signers")
    moves = MATCH_MOVES if match_steps is None else match_steps
    plan = ExaminationPlan(
        games or NUM_GAMES, match_moves=moves or None, response_steps=response_steps
    )
    return examine_player(player, plan, show_games, tree, tree_start or TREE_START, as_json=as_json)


def evaluate_bundles(folders: Sequence[Path], signers: Path | None, *, as_json: bool) -> int:
    """Measure what bundles certify again, and print it.

    Args:
        folders: of the bundles.
        signers: the file that lists who may have signed them; None asks for no signature.
        as_json: print plain data instead of tables.

    Raises:
        CorruptError: if one is not signed by them, a file is missing or not as it was written, or
            anything else lies there.
        HpsearchError: if anything is not as certified; it lists what.
    """
    reproduced = {folder: _reproduced(folder, signers) for folder in folders}
    if as_json:
        print(json.dumps([_plain(*item) for item in reproduced.items()], indent=1))
    else:
        for folder, (bundle, differences) in reproduced.items():
            if not differences:
                _print(Terminal(), folder, bundle)
    wrong = {folder: differences for folder, (_, differences) in reproduced.items() if differences}
    if wrong:
        lines = [line for item in wrong.items() for line in _lines(*item)]
        reason = "not everything is as certified; export again to certify it:"
        raise HpsearchError("\n".join([reason, *lines]))
    return 0


def _reproduced(folder: Path, signers: Path | None) -> tuple[Bundle, list[str]]:
    bundle = read_bundle(folder, signers)
    return bundle, reproduce(bundle)


def _lines(folder: Path, differences: Sequence[str]) -> list[str]:
    more = len(differences) - MOST_LINES
    lines = [f"  - {shown(line)}" for line in differences[:MOST_LINES]]
    return [f"{folder}:", *lines, *([f"  - and {more} more"] if more > 0 else [])]


def _plain(folder: Path, reproduced: tuple[Bundle, list[str]]) -> dict[str, object]:
    bundle, differences = reproduced
    return {
        "folder": str(folder),
        "study": bundle.certificate.study,
        "trial": bundle.certificate.trial,
        "signer": bundle.signer,
        "reproduced": not differences,
        "differences": differences,
        "uncompared": uncompared(bundle.contents),
        "rows": bundle.rows,
    }


def _print(console: Console, folder: Path, bundle: Bundle) -> None:
    trial = bundle.certificate.trial
    print_verdict(console, bundle.rows, trial, bundle.config)
    print_rows(console, f"trial {trial}", bundle.rows)
    sentence = (
        f"{folder}: measured again, every number as certified, bit for bit; what the search "
        "measured (search_metrics) and README.md are not part of that"
    )
    console.print(sentence, highlight=False, markup=False, soft_wrap=True)
    if bundle.signer is not None:
        signed = f"{folder}: signed by {bundle.signer}"
        console.print(signed, highlight=False, markup=False, soft_wrap=True)
    elif bundle.is_signed:
        _say(f"{folder} is signed; --signers FILE tells whether by a key that you trust")
    for name in uncompared(bundle.contents):
        _say(
            f"{folder / name} was not compared with the weights: the packages that write it are "
            "not installed; add them with pip install 'hpsearch[onnx]'"
        )


def _say(sentence: str) -> None:
    print(f"hpsearch: {sentence}", file=sys.stderr)


def examine_player(
    player: Path,
    plan: ExaminationPlan,
    num_shown: int,
    tree: Path | None,
    tree_start: str,
    *,
    as_json: bool,
) -> int:
    """Measure a checkpoint or a scripted player, and print what was measured.

    Args:
        player: a checkpoint, a folder of some, or the name of a scripted player.
        plan: what is measured.
        num_shown: games that are printed move by move.
        tree: where the host's blow-up tree is written; None draws none.
        tree_start: its start, a name of the ADE table.
        as_json: print plain data instead of tables.

    Raises:
        UsageError: if there is no such player, or it does not go with what is asked for.
    """
    contestant = find_player(player, CPU)
    if plan.response_steps is not None and contestant.checkpoint is None:
        raise UsageError(
            f"{contestant.name} is scripted, and a best response learns by the configuration of "
            "the player that it learns against; name a checkpoint, or leave out --best-response"
        )
    drawn = None if tree is None else _tree(contestant, tree, tree_start)
    report = examine(contestant, plan)
    games = _sample_games(contestant, num_shown)
    if as_json:
        print(json.dumps({**plain_report(report), "sample_games": games}, indent=1))
    else:
        print_report(Terminal(width=max(Terminal().width, WIDTH)), report)
        for game in games:
            print(f"\n{game}")
    if tree is not None and drawn is not None:
        _write_tree(drawn, f"{tree_start}, {contestant.name}", tree)
    return 0


def _sample_games(contestant: ExaminedPlayer, count: int) -> list[str]:
    """Play games that show the contestant: host against agent where it is both."""
    if count == 0:
        return []
    keys = torch.tensor([derive_key("sample games")])
    starts = FusedGame(contestant.game, keys, count, CPU, "cpu", observes=False).points[0]
    host = contestant.host or ScriptedPolicy("zeillinger")
    agent = contestant.agent or ScriptedPolicy("choose_first")
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


def _tree(contestant: ExaminedPlayer, path: Path, start: str) -> Tree:
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
        files.write_text(path, f"{title}\n{tree_text(tree)}\n")
    else:
        write_picture(tree, title, path)
