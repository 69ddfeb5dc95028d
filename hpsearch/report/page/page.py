"""The page: all sections under one another, with everything that they need inside."""

import gzip
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from hpsearch.errors import CorruptError, UsageError
from hpsearch.files import contents
from hpsearch.report.page import answer, curves, descent, html, search, trials
from hpsearch.report.page.hours import hours_section
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.report.page.parameters import parameters_section
from hpsearch.report.page.yardsticks import yardstick_section
from hpsearch.report.text import standing_text

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""what a browser lets the page do: nothing that needs a network"""

SECTIONS: Final[tuple[tuple[str, str, Callable[[Material], Iterator[Html]]], ...]] = (
    ("answer", "Question and answer", answer.answer_section),
    ("confirmation", "Was it luck?", answer.confirmation_section),
    ("history", "How the search went", search.history_section),
    ("overlay", "Beside {other}", curves.overlay_section),
    ("front", "Several objectives", search.front_section),
    ("parameters", "Which parameters mattered", parameters_section),
    ("learning", "How they learned", curves.learning_section),
    ("rungs", "Rungs and pruning", search.rungs_section),
    ("population", "Descent and cross-play", descent.population_section),
    ("yardsticks", "Published match and exact worst cases", yardstick_section),
    ("hours", "Where the hours went", hours_section),
    ("trials", "All trials", trials.trials_section),
    ("again", "How to do it again", trials.reproduction_section),
)
"""anchor, title and what yields the pieces, in the order of the page; a section without pieces,
which a study of that kind has not, is left out"""


def page_text(material: Material, program: str) -> str:
    """Return the page.

    Args:
        material: what is known of the study.
        program: plotly.js.
    """
    other = "" if material.other is None else material.other.study.spec.name
    drawn = [
        (anchor, html.text(title.format(other=other)), html.join(pieces))
        for anchor, title, make in SECTIONS
        if (pieces := list(make(material)))
    ]
    name = html.text(material.view.study.spec.name)
    links = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title, _ in drawn)
    body = "\n".join(
        f'<section id="{anchor}">\n<h2>{title}</h2>\n{inside}\n</section>'
        for anchor, title, inside in drawn
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}: report</title>
<style>
{_file("page.css")}</style>
</head>
<body>
<header>
<h1>{name}</h1>
<p class="about">{html.text(about_text(material))}</p>
<noscript><p class="missing">The charts need JavaScript, all else does not.</p></noscript>
</header>
<nav>{links}</nav>
<main>
{body}
</main>
<script type="application/gzip" data-packed>{_packed(program)}</script>
<script>
{_file("page.js")}</script>
</body>
</html>
"""


def about_text(material: Material) -> str:
    view = material.view
    when = datetime.fromtimestamp(material.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    message = f" ({view.state.message})" if view.state.message else ""
    counts = standing_text(view.state)
    allowed = view.study.spec.budget.trials
    return f"{view.status}{message}; trials: {counts}, of {allowed}. As of {when}."


def _packed(program: str) -> str:
    return b64encode(gzip.compress(program.encode(), mtime=0)).decode()


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


SMALLER: Final = "share/hpsearch/plotly-cartesian.min.js"
"""in the environment's folder: plotly.js without maps and three dimensions, which `make install`
takes from npm; the Python package has the whole alone"""
_VERSION: Final = re.compile(r"plotly\.js (?:\([^)]*\) )?v(\d+\.\d+\.\d+)")


def plotly_js() -> str:
    """Return the program: the smaller one, if it is installed in the version of the whole.

    Raises:
        UsageError: if plotly is missing.
    """
    try:
        # Imported here: nothing else needs it, and it may be missing.
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UsageError(
            "a page needs plotly: pip install plotly, or read the study with: hpsearch status"
        ) from error
    whole = str(get_plotlyjs())
    try:
        smaller = contents(Path(sys.prefix) / SMALLER).decode()
    except (OSError, CorruptError, UnicodeDecodeError):
        return whole
    return smaller if _versions(smaller) == _versions(whole) else whole


def _versions(program: str) -> list[str]:
    return _VERSION.findall(program[:300])
