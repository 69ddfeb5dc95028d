"""Ctrl-C where Python would lose it or complain: in imports, in callbacks, and at the very end.

Imported before all else by cli.py, where this process is a command; Python alone would print where
in its imports it was.
"""

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

PROGRAMS: Final = ("hpsearch", "cli.py")  # names by which a command is started
PACKAGE: Final = ("hpsearch", "__main__.py")  # a folder and a name: of python -m hpsearch
INTERRUPTED: Final = 130  # the exit code in errors.py, which is not imported yet
AGAIN_SECONDS: Final = 0.01  # until a Ctrl-C that Python has dropped is raised again


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"hpsearch: interrupted\n")
    os._exit(INTERRUPTED)


# Where it is ignored, as of what a shell starts in the background, it stays so.
_IS_HEARD: Final = signal.getsignal(signal.SIGINT) is signal.default_int_handler
_FOLDER, _NAME = os.path.split(sys.argv[0])
_IS_COMMAND: Final = _NAME in PROGRAMS or (os.path.basename(_FOLDER), _NAME) == PACKAGE
if _IS_HEARD and _IS_COMMAND:
    signal.signal(signal.SIGINT, _leave)


def give_back() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again, which `main` turns into its end."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, _raise)
        sys.unraisablehook = _raise_again


_raised: Final[list[int]] = []  # signals for which KeyboardInterrupt was raised


def _raise(number: int, frame: FrameType | None) -> None:
    _raised.append(number)
    signal.default_int_handler(number, frame)


def was_raised() -> bool:
    """Return whether Ctrl-C has raised KeyboardInterrupt.

    Some code in C puts an error of its own in its place: Python's ssl a TypeError, in an import.
    """
    return bool(_raised)


def _raise_again(dropped: "UnraisableHookArgs") -> None:
    """Ask again for a Ctrl-C that came in the callback of a weak reference, or in a destructor.

    Python calls these by itself, for each module that it has imported for example, and only prints
    what they raise.
    """
    if not issubclass(dropped.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
        return
    from threading import Timer, main_thread

    main = main_thread().ident or 0
    # Not at once: the signal would be raised here, and dropped again.
    timer = Timer(AGAIN_SECONDS, signal.pthread_kill, (main, signal.SIGINT))
    timer.daemon = True
    timer.start()


def end() -> None:
    """Let Ctrl-C do nothing in the moment that is left of a command: all was done, or said."""
    if sys.unraisablehook is _raise_again:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
