"""What the training loop is doing just now: written by the loop, read by the watchdog's thread."""


class Activity:
    """Signs of progress, and the sections that the loop is in.

    Attributes:
        signs: how many signs of progress there have been.
    """

    def __init__(self) -> None:
        self.signs = 0
        self._open: list[str] = []

    def beat(self) -> None:
        """Give a sign of progress."""
        self.signs += 1

    def enter(self, name: str) -> None:
        """Remember that a section begins; a sign of progress."""
        self._open.append(name)
        self.signs += 1

    def leave(self) -> None:
        """Remember that the innermost section ends; a sign of progress."""
        self._open.pop()
        self.signs += 1

    @property
    def section(self) -> str | None:
        """Return the open sections from the outermost in, as ``update/backward``."""
        return "/".join(self._open) or None
