"""Where the hours went: jobs by state over time, waits, and what was lost by kind of failure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

from hpsearch.analysis.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart, Trace
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.report.text import duration_text
from hpsearch.study import work
from hpsearch.study.records import FAIL, Lost
from hpsearch.study.view import StudyView
from hpsearch.study.work import WAITED, JobSpan

LOOKS: Final = {
    WAITED: (SKY, "/"),
    work.TRAINED: (BLUE, ""),
    work.PLAYED: (GREEN, "-"),
    work.LEFT: (ORANGE, "x"),
    work.FAILED: (VERMILLION, "\\"),
}
"""colour and pattern of what jobs do"""
MAX_TICKS: Final = 10  # jobs up to which each has a tick
MAX_BARS: Final = 150  # jobs that are drawn each by itself
MAX_MOMENTS: Final = 2000  # of which the number of jobs is drawn, the last among them
MAX_LOGS: Final = 10  # failed trials of which the last words are shown


def hours_section(material: Material) -> Iterator[Html]:
    view = material.view
    job_spans = work.spans(view, work.known_until(view))
    if not job_spans:
        return
    yield html.paragraph(_cost_text(view, job_spans))
    yield html.table(("jobs that", "times", "hours", "GPU-hours"), _rows(job_spans))
    yield html.figure(states_chart(job_spans), "jobs", "Jobs by what they did, over time (UTC).")
    if len(view.state.jobs) <= MAX_BARS:
        caption = "The same jobs, a line each (UTC)."
        yield html.figure(timeline_chart(job_spans), "timeline", caption)
    else:
        yield html.missing(f"The jobs are not drawn one by one, for they are more than {MAX_BARS}.")
    yield from _failures(view, material.elsewhere)


def _cost_text(view: StudyView, job_spans: Sequence[JobSpan]) -> str:
    so_far, budget = work.cost(view), view.study.spec.budget.gpu_hours
    ran = sum(span.hours for span in job_spans if span.kind != WAITED)
    waited = sum(span.hours for span in job_spans if span.kind == WAITED)
    cap = "" if budget is None else f", of {budget:g}"
    left = so_far.gpu_hours_left
    more = "" if left is None else f", about {left:,.2f} more to come"
    return (
        f"{len(view.state.jobs):,} jobs ran for {ran:,.2f} hours and waited for {waited:,.2f}; "
        f"they occupied {so_far.gpu_hours_spent:,.2f} GPU-hours{cap}{more}."
    )


def _rows(job_spans: Sequence[JobSpan]) -> Iterator[tuple[str, ...]]:
    for kind in work.KINDS:
        of_kind = [span for span in job_spans if span.kind == kind]
        if of_kind:
            hours = sum(span.hours for span in of_kind)
            gpu_hours = sum(span.hours * span.gpus for span in of_kind)
            yield kind, f"{len(of_kind):,}", f"{hours:,.2f}", f"{gpu_hours:,.2f}"


def states_chart(job_spans: Sequence[JobSpan]) -> Chart:
    times, counts = work.counts_over_time(job_spans)
    drawn = sorted({*range(0, len(times), ceil(len(times) / MAX_MOMENTS)), len(times) - 1})
    moments = [moment(times[at]) for at in drawn]
    data = []
    for kind, every in counts.items():
        series = [every[at] for at in drawn]
        colour, shape = LOOKS[kind]
        line = {"color": colour, "width": 1, "shape": "hv"}
        pattern = {"shape": shape, **charts.OVER}
        more = {"stackgroup": "jobs", "line": line, "fillpattern": pattern}
        data.append(charts.scatter("lines", kind, moments, series, more))
    most = max(map(sum, zip(*counts.values(), strict=True)), default=0)
    upright = charts.axis("jobs", {"dtick": 1} if most <= MAX_TICKS else {})
    axes = charts.axes(charts.axis("", {"type": "date"}), upright)
    return charts.chart(data, {"height": 320, **axes})


def timeline_chart(job_spans: Sequence[JobSpan]) -> Chart:
    data: list[Trace] = []
    visible = [span for span in job_spans if span.kind != WAITED or span.end > span.begin]
    for kind, (colour, shape) in LOOKS.items():
        drawn = [span for span in visible if span.kind == kind]
        if drawn:
            look = {
                "base": [moment(span.begin) for span in drawn],
                "text": [duration_text(span.end - span.begin) for span in drawn],
                "textposition": "none",
                "hovertemplate": "%{y} %{text}",
                "marker": {"color": colour, "pattern": {"shape": shape, **charts.OVER}},
            }
            milliseconds = [round(1000 * (span.end - span.begin)) for span in drawn]
            names = [f"job {span.job}" for span in drawn]
            data.append(charts.flat_bars(kind, milliseconds, names, look))
    names = list(dict.fromkeys(f"job {span.job}" for span in job_spans))
    height = min(120 + max(12, 240 // len(names)) * len(names), 1400)
    axes = charts.axes(charts.axis("", {"type": "date"}), charts.category_axis(names))
    return charts.chart(data, {"height": height, "barmode": "overlay", **axes})


def moment(seconds: float) -> int:
    """Return seconds since the epoch as plotly.js reads times: in milliseconds, in UTC."""
    return round(1000 * seconds)


def _failures(view: StudyView, elsewhere: str) -> Iterator[Html]:
    failed, lost = view.state.told(FAIL), view.state.tally.lost
    if not failed and not lost:
        return
    yield html.heading("What failed, and what was lost with it")
    if lost:
        kinds = sorted(lost, key=lambda kind: (lost[kind].hours, kind))
        hours = [lost[kind].hours for kind in kinds]
        bars = charts.flat_bars("hours lost", hours, kinds, {"marker": {"color": PURPLE}})
        layout = {"height": 110 + 28 * len(kinds), **charts.axes("hours", "")}
        caption = "Hours of training, of all trials together, that were lost by kind of failure."
        yield html.figure(charts.chart([bars], layout), "lost", caption)
    ends = Counter(trial.failure or "unknown" for trial in failed)
    rows = []
    for kind in sorted({*ends, *lost}):
        loss = lost.get(kind, Lost(0, 0.0, 0.0))
        cells = f"{loss.hours:.2f}", f"{loss.gpu_hours:.2f}"
        rows.append((kind, str(ends[kind]), str(loss.attempts), *cells))
    header = ("kind", "trials that failed", "attempts lost", "hours lost", "GPU-hours lost")
    yield html.table(header, rows)
    for trial in failed[:MAX_LOGS]:
        words = [trial.message, *(trial.losses[-1].log if trial.losses else ())]
        title = f"trial {trial.number} ({trial.failure or 'unknown'})"
        yield html.folded(title, html.code("\n".join(words)))
    if len(failed) > MAX_LOGS:
        status = f"hpsearch status {view.name}{elsewhere}"
        yield html.missing(f"{len(failed) - MAX_LOGS} more trials failed; see: {status}")
