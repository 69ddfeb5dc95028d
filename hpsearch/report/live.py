"""Whether what is shown can be drawn over: on a terminal that somebody looks at."""

import os

from rich.console import Console

NO = ("", "0", "false")


def is_live(console: Console) -> bool:
    """Return whether a console can show what changes; else it is a log, for lines.

    A log is a file or pipe, also where FORCE_COLOR makes rich take it for a terminal; a terminal
    that cannot move its cursor (TERM=dumb); and whatever a CI service gives, since it keeps what
    was drawn over.
    """
    in_ci = os.environ.get("CI", "").lower() not in NO
    return console.file.isatty() and console.is_interactive and not in_ci
