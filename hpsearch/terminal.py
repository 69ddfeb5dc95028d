"""The console that all commands print on, and what it can show."""

import errno
import io
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from hpsearch.printable import PrintableStream, discard, printable
from hpsearch.printable import say as say


class Terminal(Console):
    """A console on which texts from files and programs steer nothing.

    rich alone would let escape sequences through to the terminal, and take brackets for markup.
    """

    def __init__(
        self,
        *,
        stderr: bool = False,
        width: int | None = None,
        soft_wrap: bool = False,
        is_recorded: bool = False,
        outlives_reader: bool = False,
    ) -> None:
        """Print on stdout or stderr; what ``is_recorded`` is kept for `export_html` alone.

        Where the reader of a pipe is gone, or the terminal, a console that ``outlives_reader``
        shows nothing any more, as one of a training; any other ends the command.
        """
        super().__init__(
            stderr=stderr,
            width=width,
            soft_wrap=soft_wrap,
            markup=False,
            emoji=False,
            record=is_recorded,
            file=io.StringIO() if is_recorded else None,
            force_jupyter=False if is_recorded else None,
        )
        self._outlives_reader = outlives_reader

    def _check_buffer(self) -> None:
        try:
            super()._check_buffer()
        except OSError as error:
            if error.errno != errno.EIO:  # of a terminal that is closed
                raise
            self.on_broken_pipe()

    def on_broken_pipe(self) -> None:
        self.quiet = True
        discard(self.file)
        if not self._outlives_reader:
            raise SystemExit(1)

    @property
    def file(self) -> IO[str]:
        """Return the stream itself: a `PrintableStream` would replace rich's own control codes."""
        file = super().file
        return file.stream if isinstance(file, PrintableStream) else file

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield what is printed; the controls that rich itself makes stay as they are."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


HTML_WIDTH = 100  # characters of a line
_PRE = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'


def to_html(draw: Callable[[Console], None]) -> str:
    """Return what is drawn on a console as HTML, in which no text is markup."""
    console = Terminal(width=HTML_WIDTH, is_recorded=True)
    draw(console)
    return console.export_html(inline_styles=True, code_format=_PRE)


def to_text(draw: Callable[[Console], None]) -> str:
    """Return what is drawn on a console as plain text."""
    console = Terminal(width=HTML_WIDTH, is_recorded=True)
    draw(console)
    return console.export_text()


def text_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: Collection[str] | None = None
) -> Table:
    """Return a table of plain text, its columns at the right but for ``left``; None: the first."""
    table = Table(box=None, header_style="bold")
    left = columns[:1] if left is None else left
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right")
    for row in rows:
        table.add_row(*row)
    return table


def print_line(console: Console, line: str, *, style: str | None = None) -> None:
    """Print a line as it is; a terminal breaks it, a file or pipe does not."""
    console.print(line, style=style, highlight=False, markup=False, soft_wrap=True)


WIDTH = 10_000  # columns, more than any table has


def print_whole(console: Console, table: Table) -> None:
    before = console.width
    console.width = WIDTH
    try:
        console.print(table)
    finally:
        console.width = before


def is_live(console: Console) -> bool:
    """Return whether a console can show what changes; else it is a log, for lines.

    A log is a file or pipe, also where FORCE_COLOR makes rich take it for a terminal; a terminal
    that cannot move its cursor (TERM=dumb); and what CI gives, which keeps what was drawn over.
    """
    in_ci = os.environ.get("CI", "").lower() not in ("", "0", "false")
    return console.file.isatty() and console.is_interactive and not in_ci
