"""Reading a page as a browser would: its elements, its charts, what it would load."""

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}
LOADING = ("src", "href", "srcset", "data", "action", "poster", "xlink:href")
"""attributes by which a page loads or leads to something else"""


@dataclass
class Page(HTMLParser):
    """What stands on a page; `faults` is empty where all elements are closed in order."""

    faults: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    charts: dict[str, dict] = field(default_factory=dict)
    styles: str = ""
    words: str = ""
    """all text outside of scripts and styles"""
    tables: list[list[list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._chart: str | None = None

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        self.links += [attributes[name] for name in LOADING if name in attributes]
        self._chart = attributes.get("data-for") if tag == "script" else None
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Elements of SVG may close themselves."""

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data):
        inside = self._open[-1] if self._open else ""
        if self._chart is not None and inside == "script":
            self.charts[self._chart] = json.loads(data)
        elif inside == "style":
            self.styles += data
        elif inside != "script":
            self.words += data
            if inside in ("td", "th"):
                self.tables[-1][-1][-1] += data


def read_page(text: str) -> Page:
    """Return what stands on a page."""
    page = Page()
    page.feed(text)
    page.close()
    page.faults += [f"<{tag}> is left open" for tag in page._open]
    return page


def check_page(text: str) -> Page:
    """Assert what holds of every page: whole, valid, alone; return what stands on it."""
    import plotly.graph_objects as go

    page = read_page(text)
    assert page.faults == []
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.charts) <= set(page.ids)
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links)
    assert not re.search(r"@import|url\(", page.styles)
    for chart in page.charts.values():
        go.Figure(chart)  # refuses what plotly.js does not know
    return page


def trace(chart: dict, name: str) -> dict:
    """Return the trace of that name."""
    (match,) = [chart_trace for chart_trace in chart["data"] if chart_trace.get("name") == name]
    return match
