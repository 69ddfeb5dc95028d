"""The page: all sections under one another, with everything that they need inside."""

import gzip
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Final

from hpsearch import yaml_file
from hpsearch.cluster.code_snapshot import code_commit, versions
from hpsearch.errors import CorruptError, HpsearchError, UsageError
from hpsearch.files import contents, read_json
from hpsearch.printable import interval_text
from hpsearch.report.page import answer, descent, html, search
from hpsearch.report.page.actors import actors_section
from hpsearch.report.page.hours import hours_section
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.report.page.parameters import parameters_section
from hpsearch.report.text import unread_text
from hpsearch.schema import to_plain
from hpsearch.study.spec import load_spec
from hpsearch.study.stored_spec import spec_hash
from hpsearch.study.view import StudyView, setting_text, standing_text, trial_state


def trials_section(material: Material) -> Iterator[Html]:
    drawn = material.drawn
    if not drawn.state.trials:
        return
    yield html.paragraph(
        "A click on a column's name sorts by it, again the other way round; a click on a "
        f"trial's point in a chart leads to its row.{material.drawn_text}"
    )
    if material.drawn_text:
        yield html.code(f"hpsearch trials {drawn.name}{material.elsewhere} --csv > trials.csv")
    header = ("trial", "state", *_metrics(drawn), *drawn.study.space.order)
    listed = Html(f'<div class="sortable">{html.table(header, _rows(drawn))}</div>')
    yield html.folded(f"{len(drawn.state.trials):,} trials", listed)


def _metrics(view: StudyView) -> list[str]:
    return [objective.metric for objective in view.study.spec.objectives]


def _rows(view: StudyView) -> Iterator[tuple[str, ...]]:
    names, metrics = view.study.space.order, _metrics(view)
    for trial in view.state.trials.values():
        settings = view.settings(trial)
        values = (interval_text(trial.metrics[m]) if m in trial.metrics else "" for m in metrics)
        shown = (setting_text(settings[name]) if name in settings else "" for name in names)
        yield (str(trial.number), trial_state(trial), *values, *shown)


def reproduction_section(material: Material) -> Iterator[Html]:
    view, best, text = material.view, material.best, _file_text(material.view)
    yield html.paragraph(
        "The same file, seed and versions give the same trials where one job runs at a time; with "
        "more jobs the order in which they end decides what is tried next."
    )
    name = f"{view.name}{material.elsewhere}"
    file = _from_here(view.study.path)
    lines = [f"hpsearch run {file}{material.elsewhere}"]
    if not view.study.is_program:
        lines += [f"hpsearch confirm {name}"]
    if best is not None and not view.study.is_program:
        lines += [f"hpsearch export {name} --trial {best.number} -o best"]
        config = _from_here(view.folder.trial(best.number).config)
        lines += [f"hpsearch train {config}{material.elsewhere}"]
    yield html.code("\n".join([*lines, f"hpsearch report {name}"]))
    yield html.heading("Versions")
    yield html.table(
        ("what", "version"),
        [
            *versions().items(),
            ("commit of this page's code", code_commit() or "unknown"),
            *(("code that jobs ran", commit) for commit in _snapshots(view)),
        ],
    )
    yield html.heading("The study file")
    if text is None:
        yield html.missing(
            f"{file} is gone or says something else by now; this is what the database holds."
        )
    for fault in view.unread_faults:
        yield html.missing(unread_text(fault))
    yield html.code(text or yaml_file.dump(to_plain(view.study.spec)))
    for algorithm, base in view.study.bases.items():
        yield html.folded(f"The base configuration of {algorithm}", html.code(yaml_file.dump(base)))
    if best is not None:
        config_text = html.code(yaml_file.dump(view.config(best)))
        yield html.folded(f"The complete configuration of trial {best.number}", config_text)


def _file_text(view: StudyView) -> str | None:
    try:
        if view.unread_faults:  # it cannot be compared
            return view.study.path.read_text(encoding="utf-8")
        if spec_hash(load_spec(view.study.path)) != spec_hash(view.study):
            return None
        return view.study.path.read_text(encoding="utf-8")
    except (HpsearchError, OSError):
        return None


def _snapshots(view: StudyView) -> list[str]:
    commits = []
    for path in sorted(view.folder.code.glob("*/code.json")):
        with suppress(HpsearchError):
            data = read_json(path)
            if isinstance(data, dict):
                commits.append(f"{data.get('hash')} (commit {data.get('commit')})")
    return commits


def _from_here(path: str | Path) -> str:
    """Return a path, without the present folder if it lies there: readers elsewhere lack that."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else str(path)


POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
"""what a browser lets the page do: nothing that needs a network"""

SECTIONS: Final[tuple[tuple[str, str, Callable[[Material], Iterator[Html]]], ...]] = (
    ("answer", "Question and answer", answer.answer_section),
    ("confirmation", "Was it luck?", answer.confirmation_section),
    ("history", "How the search went", search.history_section),
    ("overlay", "Beside {other}", search.overlay_section),
    ("front", "Several objectives", search.front_section),
    ("parameters", "Which parameters mattered", parameters_section),
    ("learning", "How they learned", search.learning_section),
    ("rungs", "Rungs and pruning", search.rungs_section),
    ("population", "Descent and cross-play", descent.population_section),
    ("yardsticks", "Published match and exact worst cases", answer.yardstick_section),
    ("hours", "Where the hours went", hours_section),
    ("actors", "Playing while learning", actors_section),
    ("trials", "Trials", trials_section),
    ("again", "How to do it again", reproduction_section),
)
"""anchor, title and what yields the pieces, in the order of the page; a section without pieces,
which a study of that kind has not, is left out"""


def page_text(material: Material, program: str) -> str:
    other = "" if material.other is None else material.other.name
    drawn = [
        (anchor, html.text(title.format(other=other)), html.join(pieces))
        for anchor, title, make in SECTIONS
        if (pieces := list(make(material)))
    ]
    name = html.text(material.view.name)
    packed = b64encode(gzip.compress(program.encode(), mtime=0)).decode()
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
<script type="application/gzip" data-packed>{packed}</script>
<script>
{_file("page.js")}</script>
</body>
</html>
"""


def about_text(material: Material) -> str:
    view = material.view
    when = datetime.fromtimestamp(material.at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    message = f" ({view.state.message})" if view.state.message else ""
    counts, allowed = standing_text(view.state), view.study.spec.budget.trials
    return f"{view.status}{message}; trials: {counts}, of {allowed}. As of {when}."


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


SMALLER: Final = "share/hpsearch/plotly-cartesian.min.js"
"""in the environment's folder: plotly.js without maps and three dimensions, which `make install`
takes from the npm registry; the Python package has the whole alone"""
_VERSION: Final = re.compile(r"plotly\.js (?:\([^)]*\) )?v(\d+\.\d+\.\d+)")


def plotly_js() -> str:
    """Return plotly.js, the smaller one where versions agree; UsageError without plotly."""
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
    is_same = _VERSION.findall(smaller[:300]) == _VERSION.findall(whole[:300])
    return smaller if is_same else whole
