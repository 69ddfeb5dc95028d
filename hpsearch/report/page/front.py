"""Several objectives at once: the trials that no other one beats in all of them."""

from collections.abc import Iterator, Sequence

from hpsearch.report.colours import BLUE
from hpsearch.report.interval_text import interval_text
from hpsearch.report.page.charts import QUIET, Chart, axis, chart
from hpsearch.report.page.html import Html, Section, figure, join, missing, paragraph, table
from hpsearch.report.page.material import Material
from hpsearch.report.page.optuna_view import finished, pareto_front
from hpsearch.report.view import StudyView


def front_section(material: Material) -> Section | None:
    """Return the section on several objectives; None where there is one alone."""
    if len(material.view.study.spec.objectives) < 2:
        return None
    return Section("front", "Several objectives", join(_parts(material.view)))


def _parts(view: StudyView) -> Iterator[Html]:
    front = pareto_front(view)
    if not front:
        yield missing("No trial has finished yet.")
        return
    names = [one.metric for one in view.study.spec.objectives]
    yield paragraph(
        f"{len(front)} of {len(finished(view))} finished trials are beaten by no other in all of "
        f"{', '.join(f'{one.metric} ({one.goal})' for one in view.study.spec.objectives)}. What is "
        "called the best elsewhere is the best in the first of them."
    )
    yield figure(front_chart(view, front), "pareto", f"{names[0]} against {names[1]}.")
    rows = [
        (str(n), *(interval_text(view.state.trials[n].metrics[name]) for name in names))
        for n in front
    ]
    yield table(("trial", *names), rows, strong=None)


def front_chart(view: StudyView, front: Sequence[int]) -> Chart:
    """Return the first two objectives of all finished trials, those of the front brought out."""
    first, second = (one.metric for one in view.study.spec.objectives[:2])
    others = [trial.number for trial in finished(view) if trial.number not in front]
    looks = (
        ("beaten", others, {"color": QUIET, "symbol": "circle", "size": 6}),
        ("beaten by none", front, {"color": BLUE, "symbol": "diamond", "size": 10}),
    )
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [view.state.trials[n].metrics[first]["value"] for n in numbers],
            "y": [view.state.trials[n].metrics[second]["value"] for n in numbers],
            "text": [f"trial {n}" for n in numbers],
            "marker": marker,
        }
        for name, numbers, marker in looks
    ]
    return chart(data, {"xaxis": axis(first, {}), "yaxis": axis(second, {})})
