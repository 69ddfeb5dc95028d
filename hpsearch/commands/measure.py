"""hpsearch evaluate, crossplay: one player measured, or a bundle again; many players compared."""

import json
from argparse import BooleanOptionalAction
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
from hpsearch.errors import HpsearchError, UsageError

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from hpsearch.analysis.blowup_tree import Tree
    from hpsearch.analysis.examination import ExaminedPlayer
    from hpsearch.export.reading import Bundle


NUM_GAMES = 4000
MOST_LINES: Final = 100  # of what differs


@command(
    "everything that can be measured of a trained or a scripted player",
    argument(
        "player",
        "PLAYER",
        "checkpoint, folder of a trial (its newest one), study by name or file (its best trial), "
        "name of a scripted player, or a bundle that export wrote, whose certificate is measured "
        "again",
        Path,
    ),
    RUNS,
    option(
        "--match-steps N", "moves of the published match; 0 leaves it out; default: 10000", count
    ),
    option("--games N", "games per opponent, for rho; default: 4000", positive),
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
    runs: Path,
    *,
    match_steps: int | None,
    games: int | None,
    best_response: int | None,
    show_games: int,
    tree: Path | None,
    tree_start: str | None,
    signers: Path | None,
    as_json: bool,
) -> None:
    from hpsearch.analysis.blowup_tree import host_tree
    from hpsearch.analysis.evaluation_text import plain_report, print_report
    from hpsearch.analysis.examination import ExaminationPlan, examine
    from hpsearch.api.player import load_player
    from hpsearch.export.reading import bundles_in
    from hpsearch.terminal import Terminal
    from hpsearch.trainers.match import PUBLISHED

    if bundles := bundles_in(player):
        choices = (match_steps, games, best_response, tree, tree_start)
        if show_games or any(choice is not None for choice in choices):
            raise UsageError(
                f"{player} is a bundle, of which what it certifies is measured again and nothing "
                "else; name the folder of its trial instead, such as runs/STUDY/trials/0, or leave "
                "out every option but --json and --signers"
            )
        _evaluate_bundles(bundles, signers, as_json=as_json)
        return
    if signers is not None:
        raise UsageError(f"{player} is no bundle, and only bundles are signed; leave out --signers")
    if tree is None and tree_start is not None:
        raise UsageError(
            f"--tree-start {tree_start} chooses what --tree draws; give --tree FILE too, or leave "
            "out --tree-start"
        )
    check_output(tree, "a tree", (".txt",))
    loaded = load_player(player, runs=runs)
    tree_start = tree_start or "E6"
    drawn = None if tree is None else host_tree(loaded.examined, tree_start)
    moves = PUBLISHED.num_moves if match_steps is None else match_steps
    plan = ExaminationPlan(games or NUM_GAMES, moves or None, response_steps=best_response)
    report = examine(loaded.examined, plan)
    samples = _sample_games(loaded.examined, show_games)
    if as_json:
        print(json.dumps({**plain_report(report), "sample_games": samples}, indent=1))
    else:
        print_report(Terminal(), report)
        for game in samples:
            print(f"\n{game}")
    if tree is not None and drawn is not None:
        _write_tree(tree, drawn, f"{tree_start}, {loaded.name}")


def _write_tree(output: Path, drawn: "Tree", title: str) -> None:
    from hpsearch.analysis.blowup_tree import tree_text, write_picture

    if output.suffix == ".txt":
        files.write_text(output, f"{title}\n{tree_text(drawn)}\n")
    else:
        write_picture(drawn, title, output)


def _evaluate_bundles(folders: Sequence[Path], signers: Path | None, *, as_json: bool) -> None:
    from hpsearch.export.folder import shown
    from hpsearch.export.programs import uncompared
    from hpsearch.export.reading import read_bundle, reproduce
    from hpsearch.terminal import Terminal

    bundles = {folder: read_bundle(folder, signers) for folder in folders}
    differences = {folder: reproduce(bundle) for folder, bundle in bundles.items()}
    if as_json:
        plain = [
            {
                "folder": str(folder),
                "study": bundle.certificate.study,
                "trial": bundle.certificate.trial,
                "signer": bundle.signer,
                "reproduced": not differences[folder],
                "differences": differences[folder],
                "uncompared": uncompared(bundle.contents),
                "rows": bundle.rows,
            }
            for folder, bundle in bundles.items()
        ]
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


@command(
    "every host against every agent: a matrix, ratings, cycles",
    argument(
        "players",
        "PLAYER",
        "study (its best trials), checkpoint, folder of a run or a trial (its newest checkpoint), "
        "bundle, or name of a scripted player",
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
    option("--games N", "games per pair, from the same starts for all", positive, default=1000),
    option("--seed N", "seed of the starts", count, default=0),
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
) -> None:
    from hpsearch.analysis import standings
    from hpsearch.api.matches import cross_play
    from hpsearch.terminal import Terminal

    check_output(output, "the matrix", (".csv", ".json"))
    played = cross_play(
        players,
        runs=runs,
        top=top,
        panel=panel,
        games=games,
        seed=seed,
        sampled=sampled,
        device=_device(device),
    )
    measured, plain = played.standings, played.to_dict()
    if as_json:
        print(json.dumps(plain, indent=1))
    else:
        width = Terminal().width if Terminal().is_terminal else None
        standings.print_standings(Terminal(), measured, intervals=intervals, width=width)
    if output is not None and output.suffix == ".json":
        files.write_json(output, plain)
    elif output is not None and output.suffix == ".csv":
        files.write_text(output, standings.csv_text(measured))
    elif output is not None:
        standings.write_matrix(measured, output)


def _device(name: str) -> "torch.device":
    import torch

    # Where none is wanted no GPU is looked for: torch would warn of a broken driver.
    if name != "cpu" and torch.cuda.is_available():
        return torch.device("cuda")
    if name == "cuda":
        raise UsageError(
            "--device is cuda, but torch finds no CUDA device on this machine; leave it out"
        )
    return torch.device("cpu")
