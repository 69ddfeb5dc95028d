"""The command line: turns arguments into the call of a command, and errors into sentences."""

from hpsearch import early_interrupt  # before all that takes time

# isort: split
import argparse
import atexit
import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from gc import freeze, set_threshold
from itertools import chain
from typing import Any, NamedTuple, NoReturn

from hpsearch import errors
from hpsearch.cluster.threads import let_threads_wait
from hpsearch.commands.begin import init, validate
from hpsearch.commands.command import Argument, Command, command
from hpsearch.commands.derive import breed, confirm, replay
from hpsearch.commands.export import export, report
from hpsearch.commands.housekeeping import audit, doctor, gc
from hpsearch.commands.measure import crossplay, evaluate
from hpsearch.commands.read import best, lineage, ls, status, trials
from hpsearch.commands.run import (
    cancel,
    drive,
    enqueue,
    notify,
    pause,
    resume,
    retry,
    run,
    stop,
    submit,
    tick,
    track,
)
from hpsearch.commands.serve import dashboard, tensorboard
from hpsearch.commands.train import checkpoint, train
from hpsearch.extensions import ExtensionError
from hpsearch.names import runs_option
from hpsearch.package import __version__
from hpsearch.printable import discard, printable_streams, say

SHELLS = ("bash", "zsh", "fish", "tcsh")
EPILOG = """\
examples:
  hpsearch init my_study.yaml              a first study, every key explained
  hpsearch run studies/quickstart.yaml     run a study, or continue it after Ctrl-C
  hpsearch submit studies/quickstart.yaml  the same, in the background
  hpsearch status quickstart --watch       its progress
  hpsearch ls                              all studies here
  hpsearch best quickstart --json          the best configuration, for a program
  hpsearch confirm quickstart              whether the best was only lucky, on held-out seeds
  hpsearch report quickstart               the whole study as one page
  hpsearch dashboard quickstart            the same study in Optuna's dashboard
  hpsearch export quickstart -o best/      policy, weights, configuration and measures of the best
  hpsearch breed quickstart other          a population of the best of both
  hpsearch train studies/trainers/ppo_20x3.yaml    one trainer without a study
  hpsearch evaluate runs/ppo_20x3          everything that can be measured of a player
  hpsearch crossplay quickstart runs/ppo_20x3      compare several players

STUDY is a study file or the name of a study that was started under --runs.
hpsearch alone prints this help, with exit code 2: nothing was done.
exit codes: 0 done, 1 failed, 2 wrong command, 3 wrong file, 4 conflict, 5 database, 6 disk,
7 damaged file, or faults that audit found, 8 training failed, 130 interrupted"""


@command(
    "print a script by which a shell completes commands, options, files and studies",
    Argument(("shell",), {"choices": SHELLS, "metavar": "SHELL", "help": ", ".join(SHELLS)}),
    examples=[
        "bash > ~/.local/share/bash-completion/completions/hpsearch",
        "zsh > ~/.zfunc/_hpsearch",
    ],
)
def completion(shell: str) -> None:
    from hpsearch.commands.completion import completion_script

    print(completion_script(build_parser(), shell))


COMMANDS = {
    "begin": (init, validate, doctor, completion),
    "run": (run, submit, pause, resume, stop, cancel, retry, enqueue, breed, train),
    "look": (ls, status, trials, best, lineage, dashboard, tensorboard),
    "compare": (confirm, replay, crossplay, evaluate),
    "take away": (export, report),
    "plumbing": (gc, audit, checkpoint, notify, track, drive, tick),
}
"""all commands, by the group in which the help lists them"""
NAMES = tuple(subcommand.name for subcommand in chain.from_iterable(COMMANDS.values()))


class ParsedCommand(NamedTuple):
    name: str
    arguments: dict[str, Any]
    function: Callable[..., int | None]
    trains: bool = False


@printable_streams()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    let_threads_wait()
    # What is written is the user's alone; jobs inherit it, those of a cluster too.
    os.umask(0o077)
    parsed = ParsedCommand("", {}, lambda: None)
    try:
        early_interrupt.give_back()
        parsed = parse(arguments)
        code = parsed.function(**parsed.arguments) or 0
        print(end="", flush=True)  # what cannot be written is to be told, by the code below
        return code
    except KeyboardInterrupt:
        return _say_interrupted()
    except BrokenPipeError:  # the reader (head, less) has seen enough
        discard(sys.stdout)
        return 1
    except Exception as error:
        if early_interrupt.was_raised():
            return _say_interrupted()
        code = _say_error(error)
        if not errors.is_full(error):
            return code
        if parsed.trains:
            study, runs = parsed.arguments["study"], parsed.arguments["runs"]
            again = f"hpsearch retry {shlex.quote(study)} --kind disk{runs_option(runs)}"
            say(f"trials that failed because the disk was full are tried again by: {again}")
        return errors.DiskError.exit_code


def _say_interrupted() -> int:
    early_interrupt.end()
    say("interrupted")
    return errors.INTERRUPTED


def _say_error(error: Exception) -> int:
    if isinstance(error, errors.HpsearchError):
        say(f"{error}")
        return error.exit_code
    if isinstance(error, ExtensionError):
        say(f"{error}")
        return errors.ConfigError.exit_code
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        say(
            f"a file operation failed{where}: {error.strerror or error}; {errors.remedy(error)}, "
            "then run the same command again"
        )
        return errors.DiskError.exit_code
    if errors.is_full(error):  # of a library that raises errors of its own
        say(f"the disk is full ({error}); free some space")
        return errors.DiskError.exit_code
    # The last resort: a fault of ours. The user gets a sentence, we get the traceback.
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="hpsearch-", suffix=".log", delete=False
        ) as file:
            traceback.print_exception(error, file=file)
        report = file.name
    except OSError as reason:
        report = f"what led to it; it could not be written down ({reason.strerror})"
    say(
        f"a fault of hpsearch itself ({type(error).__name__}: {error}); nothing already done is "
        f"lost; please report it with {report}"
    )
    return errors.HpsearchError.exit_code


def parse(arguments: Sequence[str] | None) -> ParsedCommand:
    """Read the words of a command line, ``sys.argv`` where None are given.

    Raises UsageError if there is no such command, SystemExit after help and a wrong argument.
    """
    parser = build_parser()
    words = sys.argv[1:] if arguments is None else arguments
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in NAMES:  # argparse would not say which one was meant
        raise errors.UsageError(errors.unknown_name("command", name, NAMES))
    options, unparsed = parser.parse_known_args(words)
    values = vars(options)
    if name is None:  # like git, with an exit code that tells programs that nothing was done
        parser.print_help()
        return ParsedCommand("", {}, lambda: errors.UsageError.exit_code)
    subcommand: Command = values.pop("command")
    # argparse stops filling a list argument at the first option; the rest is in `unparsed`.
    if subcommand.list_argument and not any(word.startswith("-") for word in unparsed):
        values[subcommand.list_argument] += unparsed
    elif unparsed:
        parser.error(f"unrecognized arguments: {' '.join(unparsed)}")
    return ParsedCommand(name, values, subcommand.function, subcommand.trains)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hpsearch",
        description="Search hyperparameters of players of the polyhedral game.",
        epilog=EPILOG,
        formatter_class=GroupedHelp,
    )
    parser.add_argument("--version", action="version", version=f"hpsearch {__version__}")
    added = parser.add_subparsers(title="commands", metavar="COMMAND")
    for subcommand in chain.from_iterable(COMMANDS.values()):
        name, examples, summary = subcommand.name, subcommand.examples, subcommand.summary
        lines = "".join(f"\n  hpsearch {name} {words}".rstrip(" ") for words in examples)
        own = added.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"{'examples' if len(examples) > 1 else 'example'}:{lines}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subcommand.add_arguments(own)
        own.set_defaults(command=subcommand)
    return parser


class GroupedHelp(argparse.RawDescriptionHelpFormatter):
    """Lists the commands in groups; argparse alone puts all of them in one list."""

    def _format_action(self, action: argparse.Action) -> str:
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        lines = {line.dest: line for line in action._get_subactions()}
        # argparse measures the names without the indentation that they get.
        self._action_max_length += self._indent_increment
        text = ""
        format_line = super()._format_action
        for title, commands in COMMANDS.items():
            text += f"{'':{self._current_indent}}{title}:\n"
            self._indent()
            text += "".join(format_line(lines[subcommand.name]) for subcommand in commands)
            self._dedent()
        return text


def entry() -> NoReturn:
    # Imports make a million objects, which stay. Python is to look for what is left over among them
    # less often, and not at its end, where that took half a second.
    set_threshold(10_000)
    atexit.register(freeze)
    code = main()
    early_interrupt.end()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            discard(stream)
    if code == errors.INTERRUPTED:
        # A Ctrl-C that Python met while it compiled text (a dataclass, during the imports) would
        # make it end by the signal, though it was handled.
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    entry()
