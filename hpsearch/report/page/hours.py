"""Where the hours went: jobs by state over time, waits, and what was lost by kind of failure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from hpsearch.analysis.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from hpsearch.report.page.html import (
    OVER,
    Chart,
    Html,
    Section,
    Trace,
    axis,
    chart,
    code,
    figure,
    folded,
    heading,
    join,
    missing,
    paragraph,
    table,
)
from hpsearch.report.page.material import Material
from hpsearch.report.text import duration_text
from hpsearch.study.records import FAIL
from hpsearch.study.view import StudyView
from hpsearch.study.work import (
    FAILED,
    KINDS,
    LEFT,
    PLAYED,
    TRAINED,
    WAITED,
    Span,
    cost,
    counts_over_time,
    known_until,
    spans,
    waste,
)

LOOKS: Final = {
    WAITED: (SKY, "/"),
    TRAINED: (BLUE, ""),
    PLAYED: (GREEN, "-"),
    LEFT: (ORANGE, "x"),
    FAILED: (VERMILLION, "\\"),
}
"""colour and pattern of what jobs do"""
MAX_TICKS: Final = 10
"""jobs up to which each has a tick"""
MAX_BARS: Final = 150
"""jobs that are drawn each by itself"""
MAX_LOGS: Final = 10
"""failed trials of which the last words are shown"""


def hours_section(material: Material) -> Section | None:
    """Return the section on jobs and hours; None before the first job."""
    job_spans = spans(material.view, known_until(material.view))
    if not job_spans:
        return None
    body = join(_parts(material.view, job_spans, material.elsewhere))
    return Section("hours", "Where the hours went", body)


def _parts(view: StudyView, job_spans: Sequence[Span], elsewhere: str) -> Iterator[Html]:
    yield paragraph(_cost_text(view, job_spans))
    yield table(("jobs that", "times", "hours", "GPU-hours"), _rows(job_spans), strong=None)
    yield figure(states_chart(job_spans), "jobs", "Jobs by what they did, over time (UTC).")
    if len(view.state.jobs) <= MAX_BARS:
        yield figure(timeline_chart(job_spans), "timeline", "The same jobs, a line each (UTC).")
    else:
        yield missing(f"The jobs are not drawn one by one, for they are more than {MAX_BARS}.")
    yield from _failures(view, elsewhere)


def _cost_text(view: StudyView, job_spans: Sequence[Span]) -> str:
    so_far = cost(view)
    ran = sum(span.hours for span in job_spans if span.kind != WAITED)
    waited = sum(span.hours for span in job_spans if span.kind == WAITED)
    text = (
        f"{len(view.state.jobs):,} jobs ran for {ran:,.2f} hours and waited for {waited:,.2f}; "
        f"they occupied {so_far.gpu_hours_spent:,.2f} GPU-hours"
    )
    budget = view.study.spec.budget.gpu_hours
    cap = "" if budget is None else f", of {budget:g}"
    left = so_far.gpu_hours_left
    return f"{text}{cap}{'' if left is None else f', about {left:,.2f} more to come'}."


def _rows(job_spans: Sequence[Span]) -> Iterator[tuple[str, ...]]:
    for kind in KINDS:
        own = [span for span in job_spans if span.kind == kind]
        if own:
            hours = sum(span.hours for span in own)
            gpu_hours = sum(span.hours * span.gpus for span in own)
            yield kind, f"{len(own):,}", f"{hours:,.2f}", f"{gpu_hours:,.2f}"


def states_chart(job_spans: Sequence[Span]) -> Chart:
    """Return the number of jobs of each kind over time, one on the other."""
    times, counts = counts_over_time(job_spans)
    data: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": kind,
            "x": [moment(time) for time in times],
            "y": series,
            "stackgroup": "jobs",
            "line": {"color": LOOKS[kind][0], "width": 1, "shape": "hv"},
            "fillpattern": {"shape": LOOKS[kind][1], **OVER},
        }
        for kind, series in counts.items()
    ]
    most = max(map(sum, zip(*counts.values(), strict=True)), default=0)
    upright = axis("jobs", {"dtick": 1} if most <= MAX_TICKS else {})
    layout = {"height": 320, "xaxis": axis("", {"type": "date"}), "yaxis": upright}
    return chart(data, layout)


def timeline_chart(job_spans: Sequence[Span]) -> Chart:
    data: list[Trace] = []
    for kind in KINDS:
        own = [span for span in job_spans if span.kind == kind and span.end > span.begin]
        if not own:
            continue
        colour, shape = LOOKS[kind]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": kind,
                "y": [f"job {span.job}" for span in own],
                "base": [moment(span.begin) for span in own],
                "x": [1000 * (span.end - span.begin) for span in own],  # milliseconds
                "text": [duration_text(span.end - span.begin) for span in own],
                "textposition": "none",
                "hovertemplate": "%{y} %{text}",
                "marker": {"color": colour, "pattern": {"shape": shape, **OVER}},
            }
        )
    names = list(dict.fromkeys(f"job {span.job}" for span in job_spans))
    height = 120 + max(6, 240 // len(names), 12) * len(names)
    upright = {"categoryorder": "array", "categoryarray": names[::-1]}
    return chart(
        data,
        {
            "height": min(height, 1400),
            "barmode": "overlay",
            "xaxis": axis("", {"type": "date"}),
            "yaxis": axis("", upright),
        },
    )


def moment(seconds: float) -> str:
    """Return seconds since the epoch as plotly.js reads times, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _failures(view: StudyView, elsewhere: str) -> Iterator[Html]:
    failed, lost = view.state.told(FAIL), waste(view)
    if not failed and not lost:
        return
    yield heading("What failed, and what was lost with it")
    ends = Counter(trial.failure or "unknown" for trial in failed)
    kinds = sorted({*ends, *lost})
    if lost:
        yield figure(
            lost_chart({kind: loss.hours for kind, loss in lost.items()}),
            "lost",
            "Hours of training, of all trials together, that were lost by kind of failure.",
        )
    yield table(
        ("kind", "trials that failed", "attempts lost", "hours lost", "GPU-hours lost"),
        (
            (
                kind,
                str(ends[kind]),
                str(lost[kind].attempts if kind in lost else 0),
                f"{lost[kind].hours if kind in lost else 0:.2f}",
                f"{lost[kind].gpu_hours if kind in lost else 0:.2f}",
            )
            for kind in kinds
        ),
        strong=None,
    )
    for trial in failed[:MAX_LOGS]:
        words = [trial.message, *(trial.losses[-1].log if trial.losses else ())]
        title = f"trial {trial.number} ({trial.failure or 'unknown'})"
        yield folded(title, code("\n".join(words)), is_open=False)
    if len(failed) > MAX_LOGS:
        status = f"hpsearch status {view.study.spec.name}{elsewhere}"
        yield missing(f"{len(failed) - MAX_LOGS} more trials failed; see: {status}")


def lost_chart(hours: dict[str, float]) -> Chart:
    kinds = sorted(hours, key=lambda kind: hours[kind])
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [hours[kind] for kind in kinds],
        "y": kinds,
        "marker": {"color": PURPLE},
    }
    layout = {"height": 110 + 28 * len(kinds), "xaxis": axis("hours", {}), "yaxis": axis("", {})}
    return chart([bars], layout)
