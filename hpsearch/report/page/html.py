"""The pieces that a page is made of. Whatever comes from outside is escaped here."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import NewType

from hpsearch.report.page.charts import Chart

Html = NewType("Html", str)  # text in which nothing is left to escape


def text(content: object) -> Html:
    return Html(escape(str(content)))


def join(parts: Iterable[Html]) -> Html:
    return Html("\n".join(parts))


def paragraph(content: str) -> Html:
    return Html(f"<p>{text(content)}</p>")


def missing(content: str) -> Html:
    """Return the sentence that stands where something could have stood."""
    return Html(f'<p class="missing">{text(content)}</p>')


def heading(content: str) -> Html:
    return Html(f"<h3>{text(content)}</h3>")


def code(content: str) -> Html:
    return Html(f"<pre>{text(content)}</pre>")


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, strong: int | None = None
) -> Html:
    """Return a table of text, numbers to the right; ``strong`` is the row to bring out, from 0."""
    names = "".join(f'<th scope="col">{text(name)}</th>' for name in header)
    lines = (_row(cells, is_strong=at == strong) for at, cells in enumerate(rows))
    return Html(
        '<div class="scroll"><table>\n'
        f"<thead><tr>{names}</tr></thead>\n<tbody>\n{join(lines)}\n</tbody></table></div>"
    )


def _row(cells: Sequence[str], *, is_strong: bool) -> Html:
    first, *others = cells
    mark = ' class="strong"' if is_strong else ""
    inside = "".join(f"<td>{text(cell)}</td>" for cell in others)
    return Html(f'<tr{mark}><th scope="row">{text(first)}</th>{inside}</tr>')


def folded(title: str, body: Html, *, is_open: bool = False) -> Html:
    mark = " open" if is_open else ""
    return Html(f"<details{mark}><summary>{text(title)}</summary>\n{body}\n</details>")


def grid(parts: Iterable[Html]) -> Html:
    return Html(f'<div class="grid">\n{join(parts)}\n</div>')


def beside(parts: Iterable[Html]) -> Html:
    """Return pieces beside one another, each as wide as it is, where there is room for that."""
    boxes = join(Html(f"<div>{part}</div>") for part in parts)
    return Html(f'<div class="beside">\n{boxes}\n</div>')


def figure(chart: Chart, anchor: str, caption: str, *, width: int = 0) -> Html:
    """Return a chart and its caption, ``width`` pixels at least; ``anchor`` is unique."""
    # Within a script only "<" could end it, and JSON may write it otherwise.
    data = json.dumps(chart, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return Html(
        f'<figure class="chart"><div class="scroll"><div class="plot" id="{text(anchor)}" '
        f'role="img" aria-label="{text(caption)}" '
        f'style="height:{chart["layout"]["height"]}px;min-width:{width}px"></div></div>\n'
        f'<script type="application/json" data-for="{text(anchor)}">{data}</script>\n'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )
