"""The commands with which one begins."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.arguments.adding import add_command

if TYPE_CHECKING:
    from hpsearch.arguments.adding import Commands


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
