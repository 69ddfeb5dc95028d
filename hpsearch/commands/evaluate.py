"""hpsearch evaluate: everything that can be measured of a player, or a bundle certified again."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpsearch import files
from hpsearch.commands.command import JSON, argument, check_output, command, count, option, positive
from hpsearch.errors import HpsearchError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from hpsearch.analysis.examination import ExaminationPlan, ExaminedPlayer
    from hpsearch.export.reading import Bundle

NUM_GAMES = 4000
MATCH_MOVES = 10_000
TREE_START = "E6"
MOST_LINES: Final = 100  # of what differs


@command(
    "everything that can be measured of a trained or a scripted player",
    argument(
        "player",
        "CHECKPOINT",
        "checkpoint, folder of a trial (its newest one), name of a scripted player, or a bundle "
        "that export wrote, whose certificate is measured again",
        Path,
    ),
    option(
        "--match-steps N", "moves of the published match; 0 leaves it out; default: 10000", count
    ),
    option("--games N", "games an opponent, for rho; default: 4000", positive),
    option(
        "--best-response STEPS",
        "train an opponent against the player alone for so many steps, and measure what it takes: "
        "exploitability/host, exploitability/agent",
        positive,
    ),
    option("--show-games K", "print K games move by move", count, default=0),
    option("--tree FILE", "draw the host's blow-up tree: .svg, .png, .pdf, or .txt", Path),
    option("--tree-start NAME", "A1 to A4, D4, D5, E6 to E8; default: E6"),
    option(
        "--signers FILE",
        "refuse a bundle that none of these signed: lines of NAME KEYTYPE KEY, as ssh-keygen reads "
        "them",
        Path,
    ),
    JSON,
    examples=[
        "runs/ppo_20x3",
        "runs/ppo_20x3 --match-steps 0 --best-response 500",
        "zeillinger --match-steps 0 --tree tree.txt",
    ],
)
def evaluate(
    player: Path,
    *,
    match_steps: int | None,
    games: int | None,
    best_response: int | None,
    show_games: int,
    tree: Path | None,
    tree_start: str | None,
    signers: Path | None,
    as_json: bool,
) -> int:
    from hpsearch.analysis.examination import ExaminationPlan
    from hpsearch.export.reading import bundles_in

    if bundles := bundles_in(player):
        choices = (match_steps, games, best_response, tree, tree_start)
        if show_games or any(choice is not None for choice in choices):
            raise UsageError(
                f"{player} is a bundle, of which what it certifies is measured again and nothing "
                "else; name the folder of its trial instead, such as runs/STUDY/trials/0, or leave "
                "out every option but --json and --signers"
            )
        return _evaluate_bundles(bundles, signers, as_json=as_json)
    if signers is not None:
        raise UsageError(f"{player} is no bundle, and only bundles are signed; leave out --signers")
    moves = MATCH_MOVES if match_steps is None else match_steps
    num_games, tree_start = games or NUM_GAMES, tree_start or TREE_START
    plan = ExaminationPlan(num_games, match_moves=moves or None, response_steps=best_response)
    return _examine_player(player, plan, show_games, tree, tree_start, as_json=as_json)


def _evaluate_bundles(folders: Sequence[Path], signers: Path | None, *, as_json: bool) -> int:
    from hpsearch.export.folder import shown
    from hpsearch.export.reading import read_bundle, reproduce
    from hpsearch.terminal import Terminal

    bundles = {folder: read_bundle(folder, signers) for folder in folders}
    differences = {folder: reproduce(bundle) for folder, bundle in bundles.items()}
    if as_json:
        plain = [_plain(folder, bundle, differences[folder]) for folder, bundle in bundles.items()]
        print(json.dumps(plain, indent=1))
    else:
        for folder, bundle in bundles.items():
            if not differences[folder]:
                _print_bundle(Terminal(), folder, bundle)
    reasons = ["not everything is as certified; export again to certify it:"]
    for folder, lines in differences.items():
        if lines:
            reasons += [f"{folder}:", *(f"  - {shown(line)}" for line in lines[:MOST_LINES])]
        if len(lines) > MOST_LINES:
            reasons.append(f"  - and {len(lines) - MOST_LINES} more")
    if any(differences.values()):
        raise HpsearchError("\n".join(reasons))
    return 0


def _plain(folder: Path, bundle: "Bundle", differences: Sequence[str]) -> dict[str, object]:
    from hpsearch.export.programs import uncompared

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


def _print_bundle(console: "Console", folder: Path, bundle: "Bundle") -> None:
    from hpsearch.export.programs import uncompared
    from hpsearch.export.text import print_rows, print_verdict
    from hpsearch.terminal import print_line, say

    trial = bundle.certificate.trial
    print_verdict(console, bundle.rows, trial, bundle.config)
    print_rows(console, f"trial {trial}", bundle.rows)
    again = (
        f"{folder}: measured again, every number as certified, bit for bit; what the search "
        "measured (search_metrics) and README.md are not part of that"
    )
    print_line(console, again)
    if bundle.signer is not None:
        print_line(console, f"{folder}: signed by {bundle.signer}")
    elif bundle.folder.signature.exists():
        say(f"{folder} is signed; --signers FILE tells whether by a key that you trust")
    for name in uncompared(bundle.contents):
        say(
            f"{folder / name} was not compared with the weights: the packages that write it are "
            "not installed; add them with pip install 'hpsearch[onnx]'"
        )


def _examine_player(
    name_or_path: Path,
    plan: "ExaminationPlan",
    num_shown: int,
    tree: Path | None,
    tree_start: str,
    *,
    as_json: bool,
) -> int:
    from hpsearch.analysis.blowup_tree import host_tree, tree_text, write_picture
    from hpsearch.analysis.evaluation_text import plain_report, print_report
    from hpsearch.analysis.examination import CPU, examine, find_player
    from hpsearch.terminal import Terminal

    check_output(tree, "a tree", (".txt",))
    player = find_player(name_or_path, CPU)
    if plan.response_steps is not None and player.checkpoint is None:
        raise UsageError(
            f"{player.name} is scripted, and a best response learns by the configuration of "
            "the player that it learns against; name a checkpoint, or leave out --best-response"
        )
    drawn = None if tree is None else host_tree(player, tree_start)
    report = examine(player, plan)
    games = _sample_games(player, num_shown)
    if as_json:
        print(json.dumps({**plain_report(report), "sample_games": games}, indent=1))
    else:
        print_report(Terminal(), report)
        for game in games:
            print(f"\n{game}")
    if tree is not None and drawn is not None:
        title = f"{tree_start}, {player.name}"
        if tree.suffix == ".txt":
            files.write_text(tree, f"{title}\n{tree_text(drawn)}\n")
        else:
            write_picture(drawn, title, tree)
    return 0


def _sample_games(player: "ExaminedPlayer", number: int) -> list[str]:
    import torch

    from hpsearch.game.fused_game import FusedGame
    from hpsearch.game.random import derive_key
    from hpsearch.trainers.playing import record_game, transcript
    from hpsearch.trainers.policies import ScriptedPolicy

    if number == 0:
        return []
    keys = torch.tensor([derive_key("sample games")])
    starts = FusedGame(player.game, keys, number, "cpu", "cpu", observes=False).points[0]
    games = (
        record_game(
            player.host or ScriptedPolicy("zeillinger"),
            player.agent or ScriptedPolicy("choose_first"),
            start,
            max_steps=player.max_steps,
            reposition=player.game.reposition,
            key=derive_key("sample game", place),
        )
        for place, start in enumerate(starts)
    )
    return [transcript(game) for game in games]
