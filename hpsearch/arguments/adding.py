"""What commands have in common: how one is added, and kinds of arguments."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # argparse has no public name for it, and its class no parameters at run time
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]
Call = Callable[[argparse.Namespace], int]


def add_command(
    commands: "Commands", name: str, call: Call, summary: str, *, example: str
) -> argparse.ArgumentParser:
    """Add a command that calls ``call``; its own help ends with examples, a line each."""
    lines = "".join(f"\n  {line}" for line in example.splitlines())
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"{'examples' if lines.count('hpsearch ') > 1 else 'example'}:{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=call)
    return parser


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add the folder below which studies and runs lie."""
    parser.add_argument(
        "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add the form for programs."""
    parser.add_argument("--json", action="store_true", help="for programs")


class StudyAdder:
    """Adds commands that take a study."""

    def __init__(self, commands: "Commands", examples: Mapping[str, str]) -> None:
        """Add to ``commands``; ``examples`` are of each, by its name."""
        self._commands = commands
        self._examples = examples

    def __call__(
        self,
        name: str,
        call: Call,
        summary: str,
        *,
        json: bool = False,
        without_study: bool = False,
    ) -> argparse.ArgumentParser:
        """Add one; ``without_study`` says that the study may be left out."""
        parser = add_command(self._commands, name, call, summary, example=self._examples[name])
        what = "study file, or name of a started study"
        parser.add_argument(
            "study", nargs="?" if without_study else None, metavar="STUDY", help=what
        )
        add_runs(parser)
        if json:
            add_json(parser)
        return parser


def count(text: str) -> int:
    """Read a natural number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or a positive whole number, got {text!r}")
    return int(text)


def positive(text: str) -> int:
    """Read a natural number above 0."""
    if (number := count(text)) == 0:
        raise argparse.ArgumentTypeError("must be at least 1, got 0")
    return number


def seconds(text: str) -> float:
    """Return a number of seconds above zero; argparse reports what this raises."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return number
