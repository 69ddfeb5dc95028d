"""The question and the answer: the best configuration, and how strong it is beside all others."""

from collections.abc import Iterator
from dataclasses import asdict

from hpsearch.report.interval_text import interval_text
from hpsearch.report.page.charts import Chart, axis, chart, colour, intervals, symbol
from hpsearch.report.page.comparison import Comparison, Value, comparisons
from hpsearch.report.page.html import (
    Html,
    Section,
    figure,
    heading,
    join,
    missing,
    paragraph,
    table,
    text,
)
from hpsearch.report.page.material import Material
from hpsearch.report.trial_list import setting_text
from hpsearch.report.verdict import measures, opponents_of, verdict
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial


def answer_section(material: Material) -> Section:
    """Return the first section."""
    return Section("answer", "Question and answer", join(_parts(material)))


def question_text(view: StudyView) -> str:
    """Return what the study asks."""
    spec = view.study.spec
    names = ", ".join(spec.space)
    if spec.population is not None:
        return (
            f"Which of {spec.population.members} members that breed becomes the strongest, and by "
            f"which schedule of {names}?"
        )
    extremes = {"maximize": "highest", "minimize": "lowest"}
    goals = " and ".join(f"{extremes[one.goal]} {one.metric}" for one in spec.objectives)
    return f"Which values of {names} lead to the {goals}?"


def answer_text(view: StudyView, best: Trial, *, is_confirmed: bool) -> str:
    """Return the answer as a sentence."""
    how = "the best of the search"
    if view.state.population.archive:
        how = "the champion of the last match"
    if is_confirmed:
        how = "the best when compared on what the search never used"
    metric = view.study.spec.objectives[0].metric
    value = ""
    if metric in best.metrics:
        value = f"; the search measured {metric} {interval_text(best.metrics[metric])}"
    return f"Trial {best.number}, {how}{value}."


def _parts(material: Material) -> Iterator[Html]:
    view, best = material.view, material.best
    yield paragraph(question_text(view))
    if best is None:
        yield missing("There is no answer yet: no trial has finished.")
        return
    sentence = answer_text(view, best, is_confirmed=material.is_confirmed)
    yield Html(f'<p class="lead">{text(sentence)}</p>')
    yield from (paragraph(one) for one in _verdict(material, best))
    settings = view.study.space.decode(best.last_params)
    rows = [(name, setting_text(value)) for name, value in settings.items()]
    yield table(("parameter", "value"), rows, strong=None)
    if isinstance(material.measured, str):
        yield missing(f"Its players were not measured for this page: {material.measured}")
    for found in comparisons(material):
        yield heading(f"Rho as {found.role}, with 95 % intervals")
        yield paragraph(_reading(found))
        yield _comparison_table(found)
        if len(found.rows) > 1:
            yield figure(comparison_chart(found), f"rho-{found.role}", "The same numbers drawn.")


def _verdict(material: Material, best: Trial) -> Iterator[str]:
    """Yield how strong the best trial's players are, as far as they were measured for the page."""
    if isinstance(material.measured, str):
        return
    config = material.view.config(best)
    for role in material.measured.report.roles:
        own, *others = (
            measures(role.role, {name: asdict(rho) for name, rho in found.metrics.items()})
            for found in (role.evaluation, *role.references.values())
        )
        named = dict(zip(role.references, others, strict=True))
        trained_on = opponents_of(role.role, config)
        yield from verdict(f"trial {best.number}", role.role, own, named, trained_on)


def comparison_chart(found: Comparison) -> Chart:
    """Return rho from left to right, a line a player, a symbol an opponent."""
    data = []
    for place, opponent in enumerate(found.opponents):
        rows = [row for row in found.rows if opponent in row.values]
        values = [row.values[opponent] for row in rows]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": opponent,
                "x": [one.value for one in values],
                "y": [row.player for row in rows],
                "error_x": intervals(
                    [one.value for one in values],
                    [one.value if one.low is None else one.low for one in values],
                    [one.value if one.high is None else one.high for one in values],
                ),
                "marker": {"color": colour(place), "symbol": symbol(place), "size": 9},
            }
        )
    players = [row.player for row in found.rows]
    order = {"categoryorder": "array", "categoryarray": players[::-1]}
    return chart(
        data,
        {
            "height": 130 + 34 * len(players),
            "xaxis": axis("rho", {"rangemode": "tozero"}),
            "yaxis": axis("", order),
        },
    )


def _reading(found: Comparison) -> str:
    how = "high is a strong host" if found.role == "host" else "low is a strong agent"
    return f"Games decided a move, {how}. {found.source}"


def _comparison_table(found: Comparison) -> Html:
    rows = [
        (row.player, *(value_text(row.values.get(name)) for name in found.opponents))
        for row in found.rows
    ]
    return table(("player", *found.opponents), rows, strong=0)


def value_text(found: Value | None) -> str:
    """Return a value with its interval, if it has one; nothing for None."""
    if found is None:
        return ""
    if found.low is None or found.high is None:
        return f"{found.value:.3f}"
    return interval_text({"value": found.value, "low": found.low, "high": found.high})
