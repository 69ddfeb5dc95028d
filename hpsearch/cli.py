"""The command line. Reads arguments, calls the rooms, turns their errors into one sentence.

Exit codes: 0 done, 1 failed, 2 wrong command, 3 wrong file, 4 conflict, 5 database, 6 disk,
7 damaged file, 8 training failed, 130 interrupted.
"""

import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from hpsearch.commands.parser import ParsedCommand, parse
from hpsearch.errors import INTERRUPTED, DiskError, HpsearchError, is_full, remedy
from hpsearch.printable import printable_streams

_TRAINING = ("run", "submit", "resume", "retry", "tick", "drive")
"""commands that let trials of a study train"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what went wrong is one sentence on stderr."""
    with printable_streams():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    # Threads that wait for each other by spinning starve where other programs run too. Read when
    # torch is imported, and inherited by jobs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # What is written is the user's alone; jobs inherit it, those of a cluster too.
    os.umask(0o077)
    try:
        command = parse(arguments)
        return command.call()
    except HpsearchError as error:
        print(f"hpsearch: {error}", file=sys.stderr)
        return _after_full_disk(command) if is_full(error) else error.exit_code
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
            f"{remedy(error)}, then run the same command again",
            file=sys.stderr,
        )
        return _after_full_disk(command) if is_full(error) else DiskError.exit_code
    except Exception as error:
        if is_full(error):  # of a library that raises errors of its own
            print(f"hpsearch: the disk is full ({error}); free some space", file=sys.stderr)
            return _after_full_disk(command)
        # The last resort: a fault of ours. The user gets a sentence, we get the traceback.
        return _report_fault(error)


def _after_full_disk(command: ParsedCommand) -> int:
    """Say how trials go on that failed of a full disk, if the command let any train."""
    if command.name in _TRAINING:
        study, runs = command.arguments["study"], command.arguments["runs"]
        where = "" if runs == Path("runs") else f" --runs {shlex.quote(str(runs))}"
        print(
            "hpsearch: trials that failed because the disk was full are tried again by: "
            f"hpsearch retry {shlex.quote(study)} --kind disk{where}",
            file=sys.stderr,
        )
    return DiskError.exit_code


def _report_fault(error: Exception) -> int:
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="hpsearch-", suffix=".log", delete=False
        ) as file:
            traceback.print_exception(error, file=file)
        report = file.name
    except OSError as reason:
        report = f"what led to it; it could not be written down ({reason.strerror})"
    print(
        f"hpsearch: a fault of hpsearch itself ({type(error).__name__}: {error}); nothing already "
        f"done is lost; please report it with {report}",
        file=sys.stderr,
    )
    return HpsearchError.exit_code


def entry() -> NoReturn:
    """Run one command and end the process."""
    code = main()
    if code == INTERRUPTED:
        # A Ctrl-C that Python met while it compiled text (a dataclass, during the imports) would
        # make it end by the signal, though it was handled.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    entry()
