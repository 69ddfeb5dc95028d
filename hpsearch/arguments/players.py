"""The commands that train or measure players without a study."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.arguments.adding import add_command, add_json, add_runs, count, positive

if TYPE_CHECKING:
    from hpsearch.arguments.adding import Commands


TRAIN = """\
hpsearch train studies/trainers/ppo_20x3.yaml
hpsearch train studies/trainers/dqn_20x3.yaml host.gamma=0.95 seed=2 --name gamma95"""
CHECKPOINT = "hpsearch checkpoint runs/ppo_20x3"
EVALUATE = """\
hpsearch evaluate runs/ppo_20x3
hpsearch evaluate runs/ppo_20x3 --match-steps 0 --best-response 500
hpsearch evaluate zeillinger --match-steps 0 --tree tree.txt"""


def add_player_commands(commands: "Commands") -> None:
    """Add all of them."""
    _add_train(commands)
    _add_checkpoint(commands)
    _add_evaluate(commands)


def _add_train(commands: "Commands") -> None:
    summary = "train what one configuration says, without a study; again: go on with it"
    parser = add_command(commands, "train", _train, summary, example=TRAIN)
    parser.add_argument("config", type=Path, metavar="CONFIG", help="trainer configuration, a file")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="a key to change, such as host.gamma=0.9"
    )
    parser.add_argument("--name", metavar="NAME", help="folder under --runs; default: the file's")
    add_runs(parser)
    parser.add_argument(
        "--resume",
        choices=("auto", "never", "must"),
        help="go on from a checkpoint if there is one, begin anew, or insist; default: the file's",
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="default: all cores")


def _add_checkpoint(commands: "Commands") -> None:
    summary = "ask a training process for a checkpoint now"
    parser = add_command(commands, "checkpoint", _checkpoint, summary, example=CHECKPOINT)
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="RUNS/NAME, or RUNS/STUDY/trials/NUMBER"
    )


def _add_evaluate(commands: "Commands") -> None:
    summary = "everything that can be measured of a trained or a scripted player"
    parser = add_command(commands, "evaluate", _evaluate, summary, example=EVALUATE)
    parser.add_argument(
        "checkpoint",
        type=Path,
        metavar="CHECKPOINT",
        help="checkpoint, folder of a trial (its newest one), name of a scripted player, or a "
        "bundle that export wrote, whose certificate is measured again",
    )
    parser.add_argument(
        "--match-steps",
        type=count,
        metavar="N",
        help="moves of the published match; 0 leaves it out; default: 10000",
    )
    parser.add_argument(
        "--games",
        type=positive,
        metavar="N",
        help="games an opponent, for rho; default: 4000",
    )
    parser.add_argument(
        "--best-response",
        type=positive,
        metavar="STEPS",
        help="train an opponent against the player alone for so many steps, and measure what it "
        "takes: exploitability/host, exploitability/agent",
    )
    parser.add_argument(
        "--show-games", type=count, default=0, metavar="K", help="print K games move by move"
    )
    parser.add_argument(
        "--tree",
        type=Path,
        metavar="FILE",
        help="draw the host's blow-up tree: .svg, .png, .pdf, or .txt",
    )
    parser.add_argument(
        "--tree-start", metavar="NAME", help="A1 to A4, D4, D5, E6 to E8; default: E6"
    )
    parser.add_argument(
        "--signers",
        type=Path,
        metavar="FILE",
        help="refuse a bundle that none of these signed: lines of NAME KEYTYPE KEY, as ssh-keygen "
        "reads them",
    )
    add_json(parser)


def _train(options: argparse.Namespace) -> int:
    from hpsearch.commands.train import train

    return train(
        options.config,
        options.overrides,
        runs=options.runs,
        name=options.name,
        resume=options.resume,
        num_threads=options.threads,
    )


def _checkpoint(options: argparse.Namespace) -> int:
    from hpsearch.commands.checkpoint import request_checkpoint

    return request_checkpoint(options.folder)


def _evaluate(options: argparse.Namespace) -> int:
    from hpsearch.commands.evaluate import Asked, evaluate

    asked = Asked(
        match_steps=options.match_steps,
        num_games=options.games,
        response_steps=options.best_response,
        sample_games=options.show_games,
        tree=options.tree,
        tree_start=options.tree_start,
    )
    return evaluate(options.checkpoint, asked, options.signers, as_json=options.json)
