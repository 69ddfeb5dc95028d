"""The command line. Reads arguments, calls the rooms, turns their errors into one sentence.

Exit codes: 0 done, 1 failed, 2 wrong command, 3 wrong file, 4 conflict, 5 database, 6 disk,
7 damaged file, 8 too many failed trials, 130 interrupted. Heavy imports wait for their command.
"""

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from hpsearch import __version__
from hpsearch.errors import DiskError, HpsearchError

INTERRUPTED = 130

EPILOG = """\
examples:
  hpsearch run studies/quickstart.yaml     run a study, or go on with it after Ctrl-C
  hpsearch status quickstart               how far it is
  hpsearch best quickstart --json          the best configuration, for a program
  hpsearch export quickstart -o best/      configuration, weights and measures of the best

STUDY is a study file or the name of a study that was started under --runs.
exit codes: 0 done, 1 failed, 2 wrong command, 3 wrong file, 4 conflict, 5 database, 6 disk,
7 damaged file, 8 too many failed trials, 130 interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except HpsearchError as error:
        print(f"hpsearch: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("hpsearch: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough; Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        print(
            f"hpsearch: a file operation failed{where}: {error.strerror or error}; "
            "check space and permissions, then run the same command again",
            file=sys.stderr,
        )
        return DiskError.exit_code
    except Exception as error:
        # The last resort: a fault of ours. The user gets a sentence, we get the traceback.
        return _report_fault(error)


def _report_fault(error: Exception) -> int:
    with tempfile.NamedTemporaryFile("w", prefix="hpsearch-", suffix=".log", delete=False) as file:
        traceback.print_exception(error, file=file)
    print(
        f"hpsearch: a fault of hpsearch itself ({type(error).__name__}: {error}); nothing already "
        f"done is lost; please report it with {file.name}",
        file=sys.stderr,
    )
    return HpsearchError.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hpsearch",
        description="Search hyperparameters of players of the polyhedral game.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hpsearch {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    add = _Adder(commands)
    add("validate", _validate, "check a study file and show what it would search", json=True)
    run = add("run", _run, "run a study in the foreground; again: go on with it")
    run.add_argument("--no-export", action="store_true", help="don't export the best at the end")
    add("tick", _tick, "do one round of the driver and exit")
    add("status", _status, "how far a study is", json=True)
    add("trials", _trials, "all trials of a study", json=True)
    add("best", _best, "the best finished trial", json=True)
    export = add("export", _export, "write the best trial as a folder that stands alone", json=True)
    export.add_argument("-o", "--output", type=Path, metavar="DIR", help="default: RUNS/STUDY/best")
    export.add_argument("--trial", type=int, metavar="N", help="another trial than the best")
    return parser


class _Adder:
    """Adds commands that take a study."""

    def __init__(self, commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
        self._commands = commands

    def __call__(
        self,
        name: str,
        command: Callable[[argparse.Namespace], int],
        summary: str,
        *,
        json: bool = False,
    ) -> argparse.ArgumentParser:
        parser = self._commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        parser.add_argument("study", metavar="STUDY", help="study file, or name of a started study")
        parser.add_argument(
            "--runs", type=Path, default=Path("runs"), metavar="DIR", help="default: runs"
        )
        if json:
            parser.add_argument("--json", action="store_true", help="for programs")
        parser.set_defaults(command=command)
        return parser


def _validate(options: argparse.Namespace) -> int:
    from hpsearch.commands.validate import validate

    return validate(Path(options.study), as_json=options.json)


def _run(options: argparse.Namespace) -> int:
    from hpsearch.commands.run import run

    return run(options.study, options.runs, export_best=not options.no_export)


def _tick(options: argparse.Namespace) -> int:
    from hpsearch.commands.run import tick

    return tick(options.study, options.runs)


def _status(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import status

    return status(options.study, options.runs, as_json=options.json)


def _trials(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import trials

    return trials(options.study, options.runs, as_json=options.json)


def _best(options: argparse.Namespace) -> int:
    from hpsearch.commands.read import best

    return best(options.study, options.runs, as_json=options.json)


def _export(options: argparse.Namespace) -> int:
    from hpsearch.commands.export import export

    return export(options.study, options.runs, options.output, options.trial, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
