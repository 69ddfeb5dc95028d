"""What studies and runs may be called: their names become folders."""

import re

NAME_RULE = (
    "must begin with a letter or digit, and have at most 64 letters, digits, dots, underscores or "
    "hyphens"
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def is_name(text: str) -> bool:
    """Return whether a study or a run may be called so."""
    return _NAME.fullmatch(text) is not None
