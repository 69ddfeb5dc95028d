"""How a command is declared: a line for each argument, beside the function that takes them.

The files with commands load nothing heavy at their top, so that ``hpsearch COMMAND --help`` answers
in 0.1 s: what a command works with is imported inside its function.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch.errors import UsageError


@dataclass(frozen=True)
class Argument:
    names: tuple[str, ...]
    settings: dict[str, Any]  # of argparse's add_argument


Function = Callable[..., int | None]
ArgumentSpec = Argument | tuple[Argument, ...]  # options in a tuple exclude each other


@dataclass(frozen=True)
class Command:
    name: str
    function: Function  # takes every argument by its name, and returns the exit code unless it is 0
    summary: str
    arguments: tuple[ArgumentSpec, ...]
    examples: tuple[str, ...]  # what may follow its name, at the end of its help
    trains: bool  # whether it lets trials of a study train

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for item in self.arguments:
            group = parser if isinstance(item, Argument) else parser.add_mutually_exclusive_group()
            for argument in (item,) if isinstance(item, Argument) else item:
                group.add_argument(*argument.names, **argument.settings)

    @property
    def list_argument(self) -> str | None:
        """The argument without a dash of which there may be many."""
        plain = (item for item in self.arguments if isinstance(item, Argument))
        return next(
            (own.names[0] for own in plain if own.settings.get("nargs") in ("+", "*")), None
        )


def command(
    summary: str, *arguments: ArgumentSpec, examples: Sequence[str], trains: bool = False
) -> Callable[[Function], Command]:
    def declared(function: Function) -> Command:
        return Command(function.__name__, function, summary, arguments, tuple(examples), trains)

    return declared


def argument(
    name: str,
    metavar: str,
    text: str,
    kind: Callable[[str], Any] = str,
    *,
    count: str | None = None,
) -> Argument:
    """Return an argument without a dash; ``count`` is "?" for at most one, "+" or "*" for many."""
    return Argument((name,), {"metavar": metavar, "help": text, "type": kind, "nargs": count})


def option(
    names: str,
    text: str,
    kind: Callable[[str], Any] = str,
    *,
    default: object = None,
    to: str | None = None,
    choices: Sequence[str] | None = None,
    repeated: bool = False,
    implied: object = None,
) -> Argument:
    """Return an option with a value; its help says a default that is a number.

    ``names`` also hold what the help calls the value, such as "-o --output FILE"; ``kind`` reads
    it, for the parameter ``to`` where that is not named as the option. The help lists ``choices``
    in place of a name. What may be ``repeated`` is for a parameter that is a list. Without a value
    the option means the ``implied`` one.
    """
    text = f"{text}; default: {default}" if isinstance(default, int) else text
    flags = tuple(word for word in names.split() if word.startswith("-"))
    settings = {"help": text, "type": kind, "default": default, "dest": to, "choices": choices}
    if choices is None:
        settings["metavar"] = names.split()[-1]
    if repeated:
        settings |= {"action": "append", "default": []}
    if implied is not None:
        settings |= {"nargs": "?", "const": implied}
    return Argument(flags, settings)


def flag(name: str, text: str, *, to: str | None = None, value: bool = True) -> Argument:
    """Return an option without a value, which sets its parameter to ``value``."""
    action = "store_true" if value else "store_false"
    return Argument((name,), {"help": text, "action": action, "dest": to})


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or a positive whole number, got {text!r}")
    return int(text)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def period(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")
    return number


RUNS = option(
    "--runs DIR", "folder of all studies and runs; default: runs", Path, default=Path("runs")
)
STUDY = (argument("study", "STUDY", "study file, or name of a started study"), RUNS)
JSON = flag("--json", "print JSON, for programs", to="as_json")
SUBMIT = flag("--submit", "leave the training to a driver without a terminal")
SUBMIT_AND_COMPARE = flag("--submit", f"{SUBMIT.settings['help']}; the same command later compares")


def check_output(path: Path | None, what: str, data: Sequence[str]) -> None:
    """Refuse a file for a picture or ``data`` that could not be written, before work is done."""
    if path is None or path.suffix in data:
        return
    # Imported here: every command loads this file, a driver's too, which needs no pictures.
    from hpsearch.analysis.pictures import PICTURES, check_matplotlib

    if path.suffix not in PICTURES:
        kinds = f"one of {', '.join(data)}" if len(data) > 1 else data[0]
        raise UsageError(
            f"{what} is drawn as one of {', '.join(PICTURES)} or written as {kinds}, "
            f"got {str(path)!r}; change the file's name"
        )
    check_matplotlib(f"write {what} as {' or '.join(data)}")
