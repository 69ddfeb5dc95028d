"""Our figures in the dashboard, as plotly draws them: plain data, and little of it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from hpsearch.errors import HpsearchError
from hpsearch.report.colours import BLUE, COLOURS, GREEN, ORANGE, SKY, VERMILLION
from hpsearch.report.dashboard.drawn import Figure, figure, short
from hpsearch.report.dashboard.importance_figures import importance_figures
from hpsearch.report.dashboard.learning import learning_curves
from hpsearch.report.importances import Importances
from hpsearch.report.job_times import FAILED, LEFT, PLAYED, TRAINED, kind_of
from hpsearch.report.lineage import Descent, Relative, read_lineage
from hpsearch.report.page.charts import MAX_TICKS
from hpsearch.report.played import read_played
from hpsearch.report.view import StudyView
from hpsearch.study.records import Job

MAX_JOBS: Final = 300
"""drawn one by one, the newest ones"""
MAX_RELATIVES: Final = 1000
"""of the newest generations"""
MAX_MOMENTS: Final = 1000
QUIET: Final = "#999999"
RUNS: Final = "runs"
KINDS: Final = {
    RUNS: SKY,
    TRAINED: BLUE,
    PLAYED: GREEN,
    LEFT: ORANGE,
    FAILED: VERMILLION,
}
"""colours of jobs by what they do or did"""
ATTR: Final = "dashboard:plot_data:{name}:0"
"""where Optuna's dashboard looks for a figure; in a database it would lie in many pieces, each of
which the dashboard passes by for every trial"""


def figure_attrs(
    view: StudyView, until: float, measured: Mapping[str, Importances]
) -> dict[str, str]:
    """Return the attributes that make the dashboard draw our figures of a study.

    Args:
        view: the study.
        measured: the importances for each metric for which they are known.
        until: when what runs was last seen to run, in seconds since the epoch.
    """
    made: dict[str, Callable[[], Figure | None]] = {
        "learning-curves": lambda: learning_curves(view),
        "cluster-timeline": lambda: timeline(view, until),
        "lineage": lambda: lineage(view),
        "cross-play": lambda: cross_play(view),
    }
    found = {}
    for name, draw in made.items():
        try:
            drawn = draw()
        except HpsearchError:  # what is damaged or gone leaves a gap among the figures, no more
            continue
        if drawn is not None:
            found[ATTR.format(name=name)] = json.dumps(drawn)
    for name, drawn in importance_figures(view, measured):
        found[ATTR.format(name=name)] = json.dumps(drawn)
    return found


def timeline(view: StudyView, until: float) -> Figure | None:
    """Return how many jobs ran when, and the newest of them one by one.

    It ends ``until`` a moment while jobs run, else with the last of them.
    """
    jobs = sorted(
        (one for one in view.state.jobs.values() if one.began_at is not None),
        key=lambda one: one.began_at or 0.0,
    )
    if not jobs:
        return None
    end = _last_moment(jobs, until)
    newest = jobs[-MAX_JOBS:]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [one.name for one in part],
            "base": [_moment(one.began_at or 0.0) for one in part],
            "x": [round(1000 * one.seconds(end)) for one in part],
            "text": [f"{_num_trials(one)} trials" for one in part],
            "marker": {"color": colour},
            "textposition": "none",
            "xaxis": "x",
            "yaxis": "y",
        }
        for name, colour, part in _by_kind(view, newest)
    ]
    running = {
        "name": "jobs that run",
        "mode": "lines",
        "line": {"shape": "hv", "color": "black"},
        "xaxis": "x",
        "yaxis": "y2",
    } | _load(jobs, end)
    made = figure([*bars, running], "the cluster: jobs over time", "", "")
    made["layout"] |= {
        "barmode": "overlay",
        "xaxis": {"type": "date"},
        "yaxis": {"domain": [0.0, 0.68], "showticklabels": False, "title": {"text": "job"}},
        "yaxis2": {"domain": [0.74, 1.0], "rangemode": "tozero", "title": {"text": "running"}},
    }
    return made


def _by_kind(view: StudyView, jobs: Sequence[Job]) -> Iterator[tuple[str, str, list[Job]]]:
    parts: dict[str, list[Job]] = {}
    for one in jobs:
        parts.setdefault(kind_of(view, one) if one.ended else RUNS, []).append(one)
    yield from ((name, colour, parts[name]) for name, colour in KINDS.items() if name in parts)


def _num_trials(job: Job) -> int:
    return len({number for group in job.groups for number, _, _ in group})


def _last_moment(jobs: Sequence[Job], until: float) -> float:
    """Return when the last of what is known of jobs that have begun happened."""
    last = max(one.ended_at or one.began_at or 0.0 for one in jobs)
    return max(last, until) if any(one.ended_at is None for one in jobs) else last


def _load(jobs: Iterable[Job], end: float) -> dict[str, list[Any]]:
    """Return the number of running jobs after each begin and end, or at evenly chosen ones."""
    began = np.sort([one.began_at or 0.0 for one in jobs])
    ended = np.sort([one.ended_at for one in jobs if one.ended_at is not None])
    moments = np.unique(np.concatenate([began, ended, [end]]))
    if len(moments) > MAX_MOMENTS:
        moments = moments[np.linspace(0, len(moments) - 1, MAX_MOMENTS).round().astype(int)]
    number = np.searchsorted(began, moments, "right") - np.searchsorted(ended, moments, "right")
    return {"x": [_moment(one) for one in moments.tolist()], "y": number.tolist()}


def lineage(view: StudyView) -> Figure | None:
    """Return who descends from whom: members from left to right, the champion's line in bold."""
    if view.study.spec.population is None:
        return None
    found = read_lineage(view)
    drawn = sorted(found.relatives.values(), key=lambda one: (one.generation, one.member))
    drawn = drawn[-MAX_RELATIVES:]
    if not drawn:
        return None
    line = set() if found.champion is None else {one.trial for one in found.line(found.champion)}
    data = [*_edges(found, drawn, line), _members(drawn, line)]
    made = figure(data, "descent: the champion's line is bold", "matches before", "member")
    made["layout"]["xaxis"] |= _whole(drawn[-1].generation)
    made["layout"]["yaxis"] |= {"autorange": "reversed"} | _whole(max(o.member for o in drawn))
    return made


def _whole(last: int) -> dict[str, Any]:
    """Return the ticks of an axis of whole numbers: each one, or as many as there is room for."""
    return {"tickformat": "d"} | ({"dtick": 1} if last <= MAX_TICKS else {})


def _edges(found: Descent, drawn: Sequence[Relative], line: set[int]) -> Iterator[Figure]:
    """Yield the edges to parents, a trace an operator, and the champion's line."""
    traces: dict[str, list[tuple[Relative, Relative]]] = {}
    for one in drawn:
        for at, number in enumerate(one.parents):
            parent = found.relatives.get(number)
            if parent is None:
                continue
            traces.setdefault(one.operator if one.is_child else "goes on", []).append((parent, one))
            if at == 0 and {one.trial, number} <= line:
                traces.setdefault("the champion's line", []).append((parent, one))
    for at, (name, pairs) in enumerate(sorted(traces.items())):
        bold = name == "the champion's line"
        colour = "black" if bold else QUIET if name == "goes on" else COLOURS[at % len(COLOURS)]
        yield {
            "name": name,
            "mode": "lines",
            "x": [x for a, b in pairs for x in (a.generation, b.generation, None)],
            "y": [y for a, b in pairs for y in (a.member, b.member, None)],
            "line": {"color": colour, "width": 3 if bold else 1},
            "hoverinfo": "skip",
        }


def _members(drawn: Sequence[Relative], line: set[int]) -> Figure:
    return {
        "name": "trials",
        "mode": "markers",
        "x": [one.generation for one in drawn],
        "y": [one.member for one in drawn],
        "text": [_told(one) for one in drawn],
        "hoverinfo": "text",
        "marker": {
            "size": 9,
            "color": ["black" if one.trial in line else "white" for one in drawn],
            "line": {"width": 1, "color": QUIET},
        },
    }


def cross_play(view: StudyView) -> Figure | None:
    """Return rho of every host against every agent in the last match that was judged."""
    found = read_played(view)
    if isinstance(found, str):
        return None
    data = {
        "type": "heatmap",
        "z": [[short(one) for one in row] for row in found.rho.tolist()],
        "x": [f"agent {name}" for name in found.agents],
        "y": [f"host {name}" for name in found.hosts],
        "colorscale": "Cividis",
        "colorbar": {"title": {"text": "rho"}},
    }
    title = f"match {found.match}: rho, high (bright) is a strong host, low (dark) a strong agent"
    return figure([data], title, "", "")


def _told(one: Relative) -> str:
    strength = "" if one.strength is None else f", strength {one.strength:.3f}"
    return f"trial {one.trial}, {one.operator}{strength}"


def _moment(seconds: float) -> int:
    """Return a moment as plotly's axes take it: in milliseconds since the epoch."""
    return round(1000 * seconds)
