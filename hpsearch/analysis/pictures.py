"""Pictures as files, drawn by matplotlib: the same drawing always gives the same bytes.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; without yellow, and
where a background may be dark or light without black, which it would swallow.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hpsearch.errors import UsageError
from hpsearch.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PICTURES: Final = (".pdf", ".png", ".svg")  # suffixes of the files that can be drawn
DPI: Final = 130


def check_matplotlib(instead: str) -> None:
    """Raise UsageError without matplotlib; ``instead`` says what else there is to do."""
    try:
        # Imported here: it takes a second, and nothing else needs it.
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"a picture needs matplotlib: pip install matplotlib, or {instead}"
        ) from error


@contextmanager
def drawing(path: Path, size: tuple[float, float]) -> Iterator["Figure"]:
    """Give a figure of ``size`` inches, which then replaces a file of PICTURES; or DiskError."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "hpsearch", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        picture = io.BytesIO()
        kind = path.suffix.removeprefix(".")
        metadata = {} if kind == "png" else {"CreationDate" if kind == "pdf" else "Date": None}
        figure.savefig(picture, format=kind, dpi=DPI, facecolor="white", metadata=metadata)
    write_bytes(path, picture.getvalue(), is_flushed=False)


BLUE, VERMILLION, GREEN = "#0072B2", "#D55E00", "#009E73"
PURPLE, ORANGE, SKY = "#CC79A7", "#E69F00", "#56B4E9"
COLOURS: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)  # in the order of their use
