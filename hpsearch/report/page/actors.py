"""Whether playing and learning overlap: what learner and actors of one job did, over seconds."""

from collections.abc import Iterator
from datetime import UTC, datetime

from hpsearch.analysis.activity import Activity, intersection
from hpsearch.cluster.records import LEARNER
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material


def actors_section(material: Material) -> Iterator[Html]:
    activity = material.activity
    if activity is None:
        return
    yield html.paragraph(overlap_sentence(activity))
    began = datetime.fromtimestamp(activity.begin, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    caption = (
        f"What they did from {began} on, a row a process. Colours, and numbers where there is "
        "room, are the versions of the weights: the steps at which actors got them, and the steps "
        "that the learner made."
    )
    yield html.figure(activity_chart(activity), "actors-timeline", caption)


def overlap_sentence(activity: Activity) -> str:
    learner, actors = activity.learner_times, activity.actor_times
    both, number = activity.share(intersection(learner, actors)), len(activity.actors)
    some = "the actor" if number == 1 else f"at least one of {number} actors"
    return (
        f"In {activity.seconds:,.1f} seconds of job {activity.job}, learner and actors were at "
        f"work at the same moment for {both:.0%} of the time: the learner for "
        f"{activity.share(learner):.0%}, {some} for {activity.share(actors):.0%}."
    )


def activity_chart(activity: Activity) -> Chart:
    """Return a bar a span, seconds from the beginning, the learner in the first row."""
    spans, names = activity.spans, [LEARNER, *activity.actors]
    milliseconds = [1000 * (span.ended - span.began) for span in spans]
    look = {
        "base": [span.began - activity.begin for span in spans],
        "text": [str(span.version) for span in spans],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "customdata": [f"{duration:,.1f} ms" for duration in milliseconds],
        "hovertemplate": "%{y}: version %{text}, %{customdata}<extra></extra>",
        "marker": {
            "color": [span.version for span in spans],
            "colorscale": charts.SCALE,
            "colorbar": {"title": {"text": "version"}, "thickness": 12},
            "line": {"color": charts.QUIET, "width": 1},
        },
    }
    rows = [charts.words(span.process) for span in spans]
    bars = charts.flat_bars("version", [duration / 1000 for duration in milliseconds], rows, look)
    layout = {
        "height": min(120 + 36 * len(names), 1400),
        "barmode": "overlay",
        "uniformtext": {"mode": "hide", "minsize": 9},
    }
    axes = charts.axes("seconds", charts.category_axis(list(map(charts.words, names))))
    return charts.chart([bars], {**layout, **axes})
