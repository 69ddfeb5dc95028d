"""Several objectives at once: the trials that no other one beats in all of them."""

from collections.abc import Iterator, Sequence

from hpsearch.report.colours import BLUE
from hpsearch.report.interval_text import interval_text
from hpsearch.report.objectives import finished, front
from hpsearch.report.page.charts import QUIET, Chart, axis, chart
from hpsearch.report.page.html import Html, Section, figure, join, missing, paragraph, table
from hpsearch.report.page.material import Material
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial


def front_section(material: Material) -> Section | None:
    """Return the section on several objectives; None where there is one alone."""
    if len(material.view.study.spec.objectives) < 2:
        return None
    return Section("front", "Several objectives", join(_parts(material.view)))


def _parts(view: StudyView) -> Iterator[Html]:
    best = front(view)
    if not best:
        yield missing("No trial has finished yet.")
        return
    names = [one.metric for one in view.study.spec.objectives]
    yield paragraph(
        f"{len(best)} of {len(finished(view))} finished trials are beaten by no other in all of "
        f"{', '.join(f'{one.metric} ({one.goal})' for one in view.study.spec.objectives)}. What is "
        "called the best elsewhere is the best in the first of them."
    )
    yield figure(front_chart(view, best), "pareto", f"{names[0]} against {names[1]}.")
    rows = [
        (str(one.number), *(interval_text(one.metrics[name]) for name in names)) for one in best
    ]
    yield table(("trial", *names), rows, strong=None)


def front_chart(view: StudyView, best: Sequence[Trial]) -> Chart:
    """Return the first two objectives of all finished trials, those of the front brought out."""
    first, second = (one.metric for one in view.study.spec.objectives[:2])
    in_front = {trial.number for trial in best}
    others = [trial for trial in finished(view) if trial.number not in in_front]
    looks = (
        ("beaten", others, {"color": QUIET, "symbol": "circle", "size": 6}),
        ("beaten by none", best, {"color": BLUE, "symbol": "diamond", "size": 10}),
    )
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [trial.metrics[first]["value"] for trial in trials],
            "y": [trial.metrics[second]["value"] for trial in trials],
            "text": [f"trial {trial.number}" for trial in trials],
            "marker": marker,
        }
        for name, trials, marker in looks
    ]
    return chart(data, {"xaxis": axis(first, {}), "yaxis": axis(second, {})})
