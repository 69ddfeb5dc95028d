"""The commands that train or measure players without a study.

The arguments of the command that lets players meet.

The commands with which one begins.
"""

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
    from hpsearch.commands.evaluate import EvaluateArguments, evaluate

    asked = EvaluateArguments(
        match_steps=options.match_steps,
        num_games=options.games,
        response_steps=options.best_response,
        sample_games=options.show_games,
        tree=options.tree,
        tree_start=options.tree_start,
    )
    return evaluate(options.checkpoint, asked, options.signers, as_json=options.json)


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


SHELLS = ("bash", "zsh", "fish", "tcsh")
COMPLETION = """\
hpsearch completion bash > ~/.local/share/bash-completion/completions/hpsearch
hpsearch completion zsh > ~/.zfunc/_hpsearch"""


def add_beginning_commands(commands: "Commands") -> None:
    """Add all of them."""
    _add_init(commands)
    _add_completion(commands)


def _add_completion(commands: "Commands") -> None:
    summary = "print a script by which a shell completes commands, options, files and studies"
    parser = add_command(commands, "completion", _completion, summary, example=COMPLETION)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def _add_init(commands: "Commands") -> None:
    summary = "write a study to begin with, every key explained; or convert from hironaka"
    parser = add_command(
        commands, "init", _init, summary, example="hpsearch init --template ppo my_study.yaml"
    )
    parser.add_argument(
        "target",
        nargs="?",
        type=Path,
        metavar="DIR|FILE",
        help="folder, or study file ending in .yaml, whose name becomes the study's; default: here",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--template", metavar="NAME", help="of --list; default: search")
    what.add_argument("--list", action="store_true", help="name the templates, a line each")
    what.add_argument(
        "--from-hironaka",
        type=Path,
        metavar="OLD",
        help="turn a configuration of hironaka.trainer into a complete one of ours, with a study "
        "around it where DIR|FILE is given, and list what changed meaning; OLD stays as it is",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="of --from-hironaka without a study; default: the old name with .yaml, here",
    )


def _completion(options: argparse.Namespace) -> int:
    from hpsearch.commands.completion import completion

    return completion(options.parser, options.shell)


def _init(options: argparse.Namespace) -> int:
    from hpsearch.commands.init import (
        from_hironaka,
        from_template,
        list_templates,
        study_from_hironaka,
    )
    from hpsearch.errors import UsageError
    from hpsearch.study.templates import DEFAULT

    if options.from_hironaka is not None:
        if options.target is None:
            return from_hironaka(options.from_hironaka, options.output)
        if options.output is not None:
            raise UsageError(
                "-o names the configuration alone, without a study; leave out -o, or DIR|FILE"
            )
        return study_from_hironaka(options.from_hironaka, options.target)
    if options.output is not None:
        raise UsageError("-o belongs to --from-hironaka; name the study file without it")
    if options.list:
        return list_templates()
    return from_template(options.template or DEFAULT, options.target or Path())
