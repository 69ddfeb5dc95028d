"""Text from files and programs as a terminal may show it."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, TextIO

_MISLEADING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all control characters but tab and the end of a line
    "\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing
    "\ud800-\udfff]"  # what cannot be encoded
)


def say(sentence: str) -> None:
    """Say a sentence on stderr; what is being done goes on where it can reach no reader."""
    try:
        print(f"hpsearch: {sentence}", file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: IO[str]) -> None:
    """Let what is still written to a stream without a reader go nowhere.

    Python would complain at its end of what it could not write.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def printable(text: str) -> str:
    """Return a text in which U+FFFD stands for whatever steers a terminal or cannot be encoded.

    A carriage return before the end of a line is dropped.
    """
    return _MISLEADING.sub("\ufffd", text.replace("\r\n", "\n"))


class PrintableStream:
    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def printable_streams() -> Iterator[None]:
    """Let print write printable text alone while the block runs, in any encoding."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_made_printable(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _made_printable(stream: Any) -> Any:
    if hasattr(stream, "reconfigure"):  # else it is no file: what a test or a notebook put there
        stream.reconfigure(errors="backslashreplace")
    return stream if stream is None else PrintableStream(stream)


def interval_text(number: Mapping[str, float | None]) -> str:
    """Return a value and its interval; the value alone where no more is known, or it is exact.

    Nothing where no value is known.
    """
    value, low, high = number["value"], number["low"], number["high"]
    if value is None:
        return ""
    if low is None or high is None or low == high:
        return f"{value:.4f}"
    return f"{value:.4f} [{low:.4f}, {high:.4f}]"
