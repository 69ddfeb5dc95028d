"""Our figures in the dashboard: charts of the page that Optuna's cannot draw by itself."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import numpy as np

from hpsearch.analysis.candidates import last_match, read_played
from hpsearch.analysis.importances import Importance, Importances
from hpsearch.analysis.lineage import lineage_or_why, read_lineage
from hpsearch.errors import HpsearchError
from hpsearch.report.page.charts import Chart
from hpsearch.report.page.descent import crossplay_chart, descent_chart
from hpsearch.report.page.hours import states_chart, timeline_chart
from hpsearch.report.page.material import read_learning
from hpsearch.report.page.parameters import importance_chart, importance_sentence
from hpsearch.report.page.search import curves_chart
from hpsearch.study.view import StudyView
from hpsearch.study.work import WAITED, JobSpan, spans

MAX_JOBS: Final = 300  # drawn one by one, the newest ones
MAX_MOMENTS: Final = 1000  # at which the number of jobs is drawn
ATTR: Final = "dashboard:plot_data:{name}:0"  # where Optuna's dashboard looks for a figure

ByMetric = Mapping[str, Importances]


def figure_attrs(view: StudyView, until: float, measured: ByMetric) -> dict[str, str]:
    """Return the attributes of our figures; ``until`` is when jobs were last seen to run."""
    made: dict[str, Callable[[], Chart | None]] = {
        "learning-curves": lambda: learning_curves(view),
        "cluster-timeline": lambda: timeline(view, until),
        "cluster-load": lambda: load(view, until),
        "lineage": lambda: lineage(view),
        "cross-play": lambda: cross_play(view),
    }
    figures: dict[str, Chart] = {}
    for name, draw in made.items():
        with suppress(HpsearchError):  # what is damaged or gone leaves a gap among the figures
            if (drawn := draw()) is not None:
                figures[name] = drawn
    for place, objective in enumerate(view.study.spec.objectives):
        if known := measured.get(objective.metric):
            title = "importances beyond chance, with 95 % intervals; grey is noise"
            chart = _titled(importance_chart(known), f"{title}: {objective.metric}")
            figures[f"importances-{place}"] = chart
    return {ATTR.format(name=name): json.dumps(drawn) for name, drawn in figures.items()}


def _titled(chart: Chart, title: str) -> Chart:
    """Return a chart of the page with a title; its colours and height are left to the dashboard."""
    left_out = ("height", "margin", "paper_bgcolor", "plot_bgcolor", "legend")
    kept = {key: value for key, value in chart["layout"].items() if key not in left_out}
    heading = {"text": title, "font": {"size": 13}, "x": 0.0}
    margin = {"t": 64, "r": 16}
    return {"data": chart["data"], "layout": {**kept, "title": heading, "margin": margin}}


def learning_curves(view: StudyView) -> Chart | None:
    """Return the curves of the best trials, or of lines, and all others behind them."""
    descent = lineage_or_why(view)
    best = read_learning(view, view.best(), "not drawn here", descent).best
    if not best and not any(trial.reported for trial in view.state.trials.values()):
        return None
    what = "the best trials" if isinstance(descent, str) else "the lines to the strongest"
    title = f"learning curves: {what}, with 95 % intervals; grey are all others"
    return _titled(curves_chart(view, best), title)


def timeline(view: StudyView, until: float) -> Chart | None:
    """Return the newest jobs one by one; those that are live reach to ``until``."""
    newest = _drawn(view, until)[-2 * MAX_JOBS :]
    names = list(dict.fromkeys(span.job for span in newest))[-MAX_JOBS:]
    drawn = [span for span in newest if span.job in set(names)]
    if not drawn:
        return None
    made = _titled(timeline_chart(drawn), "the cluster: jobs over time")
    made["layout"]["yaxis"]["showticklabels"] = False
    return made


def _drawn(view: StudyView, until: float) -> list[JobSpan]:
    """Return what jobs did, nothing before one has begun."""
    job_spans = spans(view, until)
    return job_spans if any(span.kind != WAITED for span in job_spans) else []


def load(view: StudyView, until: float) -> Chart | None:
    """Return how many jobs waited, ran and ended by what they did, at up to MAX_MOMENTS moments."""
    job_spans = _drawn(view, until)
    if not job_spans:
        return None
    made = _titled(states_chart(job_spans), "the cluster: how many jobs there are")
    for trace in made["data"]:
        places = np.linspace(0, len(trace["x"]) - 1, min(MAX_MOMENTS, len(trace["x"])))
        for key in ("x", "y"):
            trace[key] = [trace[key][place] for place in places.round().astype(int)]
    return made


def lineage(view: StudyView) -> Chart | None:
    if view.study.spec.population is None:
        return None
    descent = read_lineage(view)
    newest = descent.newest()
    if not newest:
        return None
    return _titled(descent_chart(descent, newest), "descent: the champion's line is bold")


def cross_play(view: StudyView) -> Chart | None:
    played = read_played(view)
    if isinstance(played, str):
        return None
    title = f"match {played.match}: rho, high (bright) is a strong host, low (dark) a strong agent"
    made = _titled(crossplay_chart(played), title)
    (heat,) = made["data"]
    # Four digits are all that can be seen.
    heat["z"] = [[float(f"{value:.4g}") for value in row] for row in heat["z"]]
    return made


def importance_text(measured: ByMetric) -> str:
    """Return what may be concluded from importances by metric; empty where none are known."""
    if not measured:
        return ""
    sentences = [importance_sentence(known, metric) for metric, known in measured.items()]
    return " ".join([*sentences, "Optuna's chart draws those within the noise as 0."])


def drawn_importances(view: StudyView, measured: ByMetric) -> list[list[dict[str, object]]]:
    """Return for each objective what Optuna's chart of importances draws: 0 within the noise."""
    kinds = {name: type(kind).__name__ for name, kind in view.study.space.distributions().items()}

    def bar(name: str, importance: Importance) -> dict[str, object]:
        share = importance.share if importance.is_above_noise else 0.0
        return {"name": name, "importance": share, "distribution": kinds[name]}

    drawn = []
    for objective in view.study.spec.objectives:
        known = measured.get(objective.metric)
        by_name = {} if known is None else known.by_name
        drawn.append([bar(name, importance) for name, importance in by_name.items()])
    return drawn


def champion_text(view: StudyView) -> str:
    archive = view.state.population.archive
    if not archive:
        return ""
    return (
        f"The champion is trial {archive[-1]}, the strongest of match {last_match(view)}; "
        f'"Best Trial" is by {view.metric} alone.'
    )
