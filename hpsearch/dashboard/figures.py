"""Our figures in the dashboard, as plotly draws them: plain data, and little of it.

Learning curves in the dashboard: those of the page, in place of Optuna's own.

Importances beside the noise in the dashboard, whose own chart of them shows no noise.

Who the champion of a population is, beside what Optuna calls its best trial.

What our figures in the dashboard have in common.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from hpsearch.analysis.candidates import read_played
from hpsearch.analysis.importances import Importances
from hpsearch.analysis.lineage import Ancestry, Relative, read_lineage
from hpsearch.analysis.pictures import BLUE, COLOURS, GREEN, ORANGE, SKY, VERMILLION
from hpsearch.errors import HpsearchError
from hpsearch.report.page.curves import curves_chart
from hpsearch.report.page.html import MAX_TICKS
from hpsearch.report.page.learning import read_learning
from hpsearch.report.page.parameters import importance_bars, importance_layout, importance_sentence
from hpsearch.study.records import Job
from hpsearch.study.view import StudyView
from hpsearch.study.work import FAILED, LEFT, PLAYED, TRAINED, kind_of


def champion_text(view: StudyView) -> str:
    """Return the sentence; empty where no match has made a champion."""
    population = view.state.population
    if not population.archive:
        return ""
    last = max(number for number, match in population.matches.items() if match.is_over)
    return (
        f"The champion is trial {population.archive[-1]}, the strongest of match {last}; "
        f'"Best Trial" is by {view.study.spec.objectives[0].metric} alone.'
    )


Figure = dict[str, Any]


def figure(data: Iterable[Mapping[str, Any]], title: str, x: str, y: str) -> Figure:
    """Return a figure of traces, with titles of its own and of its axes."""
    layout = {
        "title": {"text": title, "font": {"size": 13}, "x": 0.0},
        "xaxis": {"title": {"text": x}, "automargin": True},
        "yaxis": {"title": {"text": y}, "automargin": True},
        "margin": {"t": 64, "r": 16},
        "hovermode": "closest",
    }
    return {"data": list(data), "layout": layout}


def short(value: float) -> float:
    return float(f"{value:.4g}")


def learning_curves(view: StudyView) -> Figure | None:
    """Return the curves of the best trials with their intervals, and all others behind them.

    Of a population, whose trials are short, they are those of the lines to the strongest of the
    last match.
    """
    descent = _descent(view)
    best = read_learning(view, view.best(), "not drawn here", descent).best
    if not best and not any(trial.reported for trial in view.state.trials.values()):
        return None
    what = "the best trials" if isinstance(descent, str) else "the lines to the strongest"
    title = f"learning curves: {what}, with 95 % intervals; grey are all others"
    metric = view.study.spec.objectives[0].metric
    drawn = figure(curves_chart(view, best)["data"], title, "step", metric)
    drawn["layout"]["legend"] = {"traceorder": "normal"}
    return drawn


def _descent(view: StudyView) -> Ancestry | str:
    try:
        return read_lineage(view)
    except HpsearchError as error:
        return str(error)


def importance_figures(
    view: StudyView, measured: Mapping[str, Importances]
) -> Iterator[tuple[str, Figure]]:
    """Yield name and figure of the importances for each metric for which they are known."""
    for place, objective in enumerate(view.study.spec.objectives):
        if objective.metric not in measured:
            continue
        importances = measured[objective.metric]
        title = "importances beyond chance, with 95 % intervals; grey is noise"
        drawn = figure(importance_bars(importances), f"{title}: {objective.metric}", "", "")
        drawn["layout"] |= importance_layout(importances)
        yield f"importances-{place}", drawn


def importance_text(measured: Mapping[str, Importances]) -> str:
    """Return what may be concluded from importances by metric; empty where none are known."""
    if not measured:
        return ""
    sentences = [
        importance_sentence(importances, metric) for metric, importances in measured.items()
    ]
    return " ".join([*sentences, "Optuna's own chart of importances shows no noise."])


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
    figures = {}
    for name, draw in made.items():
        try:
            drawn = draw()
        except HpsearchError:  # what is damaged or gone leaves a gap among the figures, no more
            continue
        if drawn is not None:
            figures[ATTR.format(name=name)] = json.dumps(drawn)
    for name, drawn in importance_figures(view, measured):
        figures[ATTR.format(name=name)] = json.dumps(drawn)
    return figures


def timeline(view: StudyView, until: float) -> Figure | None:
    """Return how many jobs ran when, and the newest of them one by one.

    It ends ``until`` a moment while jobs run, else with the last of them.
    """
    jobs = sorted(
        (job for job in view.state.jobs.values() if job.began_at is not None),
        key=lambda job: job.began_at or 0.0,
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
            "y": [job.name for job in part],
            "base": [_moment(job.began_at or 0.0) for job in part],
            "x": [round(1000 * job.seconds(end)) for job in part],
            "text": [f"{_num_trials(job)} trials" for job in part],
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
    for job in jobs:
        parts.setdefault(kind_of(view, job) if job.ended else RUNS, []).append(job)
    yield from ((name, colour, parts[name]) for name, colour in KINDS.items() if name in parts)


def _num_trials(job: Job) -> int:
    return len({number for group in job.groups for number, _, _ in group})


def _last_moment(jobs: Sequence[Job], until: float) -> float:
    last = max(job.ended_at or job.began_at or 0.0 for job in jobs)
    return max(last, until) if any(job.ended_at is None for job in jobs) else last


def _load(jobs: Iterable[Job], end: float) -> dict[str, list[Any]]:
    """Return the number of running jobs after each begin and end, or at evenly chosen ones."""
    began = np.sort([job.began_at or 0.0 for job in jobs])
    ended = np.sort([job.ended_at for job in jobs if job.ended_at is not None])
    moments = np.unique(np.concatenate([began, ended, [end]]))
    if len(moments) > MAX_MOMENTS:
        moments = moments[np.linspace(0, len(moments) - 1, MAX_MOMENTS).round().astype(int)]
    number = np.searchsorted(began, moments, "right") - np.searchsorted(ended, moments, "right")
    return {"x": [_moment(moment) for moment in moments.tolist()], "y": number.tolist()}


def lineage(view: StudyView) -> Figure | None:
    """Return the ancestry: members from left to right, the champion's line in bold."""
    if view.study.spec.population is None:
        return None
    descent = read_lineage(view)
    drawn = sorted(
        descent.relatives.values(), key=lambda relative: (relative.generation, relative.member)
    )
    drawn = drawn[-MAX_RELATIVES:]
    if not drawn:
        return None
    line = (
        set()
        if descent.champion is None
        else {relative.trial for relative in descent.line(descent.champion)}
    )
    data = [*_edges(descent, drawn, line), _members(drawn, line)]
    made = figure(data, "descent: the champion's line is bold", "matches before", "member")
    made["layout"]["xaxis"] |= _whole(drawn[-1].generation)
    made["layout"]["yaxis"] |= {"autorange": "reversed"} | _whole(max(o.member for o in drawn))
    return made


def _whole(last: int) -> dict[str, Any]:
    """Return the ticks of an axis of whole numbers: each one, or as many as there is room for."""
    return {"tickformat": "d"} | ({"dtick": 1} if last <= MAX_TICKS else {})


def _edges(descent: Ancestry, drawn: Sequence[Relative], line: set[int]) -> Iterator[Figure]:
    """Yield the edges to parents, a trace an operator, and the champion's line."""
    traces: dict[str, list[tuple[Relative, Relative]]] = {}
    for relative in drawn:
        for at, number in enumerate(relative.parents):
            parent = descent.relatives.get(number)
            if parent is None:
                continue
            traces.setdefault(relative.operator if relative.is_child else "goes on", []).append(
                (parent, relative)
            )
            if at == 0 and {relative.trial, number} <= line:
                traces.setdefault("the champion's line", []).append((parent, relative))
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
        "x": [relative.generation for relative in drawn],
        "y": [relative.member for relative in drawn],
        "text": [_told(relative) for relative in drawn],
        "hoverinfo": "text",
        "marker": {
            "size": 9,
            "color": ["black" if relative.trial in line else "white" for relative in drawn],
            "line": {"width": 1, "color": QUIET},
        },
    }


def cross_play(view: StudyView) -> Figure | None:
    """Return rho of every host against every agent in the last match that was judged."""
    played = read_played(view)
    if isinstance(played, str):
        return None
    data = {
        "type": "heatmap",
        "z": [[short(value) for value in row] for row in played.rho.tolist()],
        "x": [f"agent {name}" for name in played.agents],
        "y": [f"host {name}" for name in played.hosts],
        "colorscale": "Cividis",
        "colorbar": {"title": {"text": "rho"}},
    }
    title = f"match {played.match}: rho, high (bright) is a strong host, low (dark) a strong agent"
    return figure([data], title, "", "")


def _told(relative: Relative) -> str:
    strength = "" if relative.strength is None else f", strength {relative.strength:.3f}"
    return f"trial {relative.trial}, {relative.operator}{strength}"


def _moment(seconds: float) -> int:
    """Return a moment as plotly's axes take it: in milliseconds since the epoch."""
    return round(1000 * seconds)
