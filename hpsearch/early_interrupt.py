"""Ctrl-C while a command is still being imported: it ends as later, with one sentence.

Imported before all else by cli.py, where this process is a command; Python alone would print where
in its imports it was.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

PROGRAMS: Final = ("hpsearch", "cli.py")  # names by which a command is started
PACKAGE: Final = ("hpsearch", "__main__.py")  # a folder and a name: of python -m hpsearch
INTERRUPTED: Final = 130  # the exit code in errors.py, which is not imported yet


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
        signal.signal(signal.SIGINT, signal.default_int_handler)
