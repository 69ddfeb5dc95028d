"""A terminal that keeps what was written on it."""

import io


class Screen(io.StringIO):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True
