"""The question and the answer: the best configuration, how strong it is, what confirms it.

The best trial's players beside scripted and published ones, as numbers.

What a confirmation found out: the best again, on what the search never used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from hpsearch.analysis.pictures import BLUE, ORANGE
from hpsearch.analysis.verdict import measures, opponents_of, verdict
from hpsearch.printable import interval_text
from hpsearch.report.page.html import (
    Chart,
    Html,
    Section,
    axis,
    chart,
    colour,
    figure,
    heading,
    intervals,
    join,
    missing,
    paragraph,
    symbol,
    table,
    text,
)
from hpsearch.report.page.material import Material
from hpsearch.schema import value_at
from hpsearch.study.records import Trial
from hpsearch.study.trial_list import setting_text
from hpsearch.study.view import StudyView
from hpsearch.trainers.metrics import MODES, PANELS, panel_name
from hpsearch.trainers.published import RHOS

if TYPE_CHECKING:
    from hpsearch.analysis.examination import PlayerReport, RoleReport
    from hpsearch.trainers.rho import Rho


PANEL: Final = "panel"
"""column of the geometric mean over all opponents"""
TITLES: Final = {"rho": "greedy", "rho_sampled": "sampled"}
PUBLISHED_GAME: Final = {
    "dimension": 3,
    "max_value": 20,
    "evaluation.max_steps": 100,
}
"""in which rho was published"""


@dataclass(frozen=True)
class Value:
    value: float
    low: float | None
    high: float | None
    """ends of the 95 % interval; None where none was published"""


@dataclass(frozen=True)
class ChartRow:
    player: str
    values: dict[str, Value]
    """by opponent"""


@dataclass(frozen=True)
class Comparison:
    """Players of one role against the same opponents."""

    role: str
    opponents: tuple[str, ...]
    """columns"""
    rows: tuple[ChartRow, ...]
    """the best trial's first"""
    source: str
    """how the numbers came about, a sentence"""


def comparisons(material: Material) -> tuple[Comparison, ...]:
    """Return a comparison for each role that was measured; none where no trial has finished."""
    best = material.best
    if best is None:
        return ()
    published = tuple(_published(material.view, best))
    if isinstance(material.measured, str):
        return tuple(_searched(best, published))
    report = material.measured.report
    return tuple(
        _examined(report, role, f"trial {best.number}", published) for role in report.roles
    )


def _examined(
    report: "PlayerReport", role: "RoleReport", name: str, published: tuple[ChartRow, ...]
) -> Comparison:
    modes = [mode for mode in MODES if panel_name(mode, role.role) in role.evaluation.metrics]
    own = [
        ChartRow(f"{name}, {TITLES[m]}", _values(role.evaluation.metrics, m, role.role))
        for m in modes
    ]
    others = [
        ChartRow(player, _values(evaluation.metrics, MODES[0], role.role))
        for player, evaluation in role.references.items()
    ]
    return Comparison(
        role.role,
        (*PANELS[role.role], PANEL),
        (*own, *others, *(published if role.role == "host" else ())),
        f"{report.num_games:,} games an opponent, from starts that neither training nor the search "
        f"used; a game counts as unfinished after {report.max_steps} moves.",
    )


def _values(metrics: Mapping[str, "Rho"], mode: str, role: str) -> dict[str, Value]:
    names = {name: f"{mode}/{role}/{name}" for name in PANELS[role]}
    names[PANEL] = panel_name(mode, role)
    values = {column: metrics[name] for column, name in names.items() if name in metrics}
    return {column: Value(rho.value, rho.low, rho.high) for column, rho in values.items()}


def _searched(best: Trial, published: tuple[ChartRow, ...]) -> Iterator[Comparison]:
    for role in PANELS:
        named = {name: _place(name) for name in best.metrics if name.split("/")[1:2] == [role]}
        opponents = tuple(dict.fromkeys(column for _, column in named.values()))
        rows = [
            ChartRow(
                f"trial {best.number}, {TITLES[mode]}",
                {
                    column: _plain(best.metrics[name])
                    for name, (its_mode, column) in named.items()
                    if its_mode == mode
                },
            )
            for mode in MODES
        ]
        measured = [row for row in rows if row.values]
        others = published if role == "host" else ()
        if measured:
            yield Comparison(
                role,
                tuple(
                    dict.fromkeys((*opponents, *(name for row in others for name in row.values)))
                ),
                (*measured, *others),
                "As the search measured it, by which the trial was chosen; so it may be lucky.",
            )


def _place(metric: str) -> tuple[str, str]:
    """Return the mode and the column that a metric's name tells: an opponent, panel or worst."""
    mode, _, *opponent = metric.split("/")
    if opponent:
        return mode, opponent[0]
    column = mode.partition("_")[0]
    return mode.replace(column, MODES[0]), column


def _plain(rho: Mapping[str, float]) -> Value:
    return Value(rho["value"], rho["low"], rho["high"])


def _published(view: StudyView, best: Trial) -> Iterator[ChartRow]:
    config: dict[str, Any] = view.config(best)
    if any(value_at(config, path) != wanted for path, wanted in PUBLISHED_GAME.items()):
        return
    known = [rho for rho in RHOS if rho.num_points == config["max_num_points"]]
    for host in dict.fromkeys(rho.host for rho in known):
        values = {rho.agent: Value(rho.value, None, None) for rho in known if rho.host == host}
        yield ChartRow(host if host.startswith("published") else f"{host}, published", values)


def answer_section(material: Material) -> Section:
    return Section("answer", "Question and answer", join(_parts(material)))


def question_text(view: StudyView) -> str:
    spec = view.study.spec
    names = ", ".join(spec.space)
    if spec.population is not None:
        return (
            f"Which of {spec.population.members} members that breed becomes the strongest, and by "
            f"which schedule of {names}?"
        )
    extremes = {"maximize": "highest", "minimize": "lowest"}
    goals = " and ".join(
        f"{extremes[objective.goal]} {objective.metric}" for objective in spec.objectives
    )
    return f"Which values of {names} lead to the {goals}?"


def answer_text(view: StudyView, best: Trial, *, is_confirmed: bool) -> str:
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
    yield from (paragraph(sentence) for sentence in _verdict(material, best))
    settings = view.study.space.decode(best.last_params)
    rows = [(name, setting_text(value)) for name, value in settings.items()]
    yield table(("parameter", "value"), rows, strong=None)
    if isinstance(material.measured, str):
        yield missing(f"Its players were not measured for this page: {material.measured}")
    for comparison in comparisons(material):
        yield heading(f"Rho as {comparison.role}, with 95 % intervals")
        yield paragraph(_reading(comparison))
        yield _comparison_table(comparison)
        if len(comparison.rows) > 1:
            yield figure(
                comparison_chart(comparison), f"rho-{comparison.role}", "The same numbers drawn."
            )


def _verdict(material: Material, best: Trial) -> Iterator[str]:
    """Yield how strong the best trial's players are, as far as they were measured for the page."""
    if isinstance(material.measured, str):
        return
    config = material.view.config(best)
    for role in material.measured.report.roles:
        own, *others = (
            measures(role.role, {name: asdict(rho) for name, rho in evaluation.metrics.items()})
            for evaluation in (role.evaluation, *role.references.values())
        )
        named = dict(zip(role.references, others, strict=True))
        trained_on = opponents_of(role.role, config)
        yield from verdict(f"trial {best.number}", role.role, own, named, trained_on)


def comparison_chart(comparison: Comparison) -> Chart:
    """Return rho from left to right, a line a player, a symbol an opponent."""
    data = []
    for place, opponent in enumerate(comparison.opponents):
        rows = [row for row in comparison.rows if opponent in row.values]
        values = [row.values[opponent] for row in rows]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": opponent,
                "x": [value.value for value in values],
                "y": [row.player for row in rows],
                "error_x": intervals(
                    [value.value for value in values],
                    [value.value if value.low is None else value.low for value in values],
                    [value.value if value.high is None else value.high for value in values],
                ),
                "marker": {"color": colour(place), "symbol": symbol(place), "size": 9},
            }
        )
    players = [row.player for row in comparison.rows]
    order = {"categoryorder": "array", "categoryarray": players[::-1]}
    return chart(
        data,
        {
            "height": 130 + 34 * len(players),
            "xaxis": axis("rho", {"rangemode": "tozero"}),
            "yaxis": axis("", order),
        },
    )


def _reading(comparison: Comparison) -> str:
    how = "high is a strong host" if comparison.role == "host" else "low is a strong agent"
    return f"Games decided a move, {how}. {comparison.source}"


def _comparison_table(comparison: Comparison) -> Html:
    rows = [
        (row.player, *(value_text(row.values.get(name)) for name in comparison.opponents))
        for row in comparison.rows
    ]
    return table(("player", *comparison.opponents), rows, strong=0)


def value_text(value: Value | None) -> str:
    """Return a value with its interval, if it has one; nothing for None."""
    if value is None:
        return ""
    if value.low is None or value.high is None:
        return f"{value.value:.3f}"
    return interval_text({"value": value.value, "low": value.low, "high": value.high})


def confirmation_section(material: Material) -> Section:
    return Section("confirmation", "Was it luck?", join(_confirmation_parts(material)))


def _confirmation_parts(material: Material) -> Iterator[Html]:
    confirmation = material.confirmation
    if isinstance(confirmation, str):
        yield missing(f"Not known: {confirmation}")
        return
    if not material.is_confirmed:
        yield missing("It is out of date: the best are others by now.")
    entries = confirmation["trials"]
    seeds = "" if confirmation["trained_by"] is None else ", trained again on seeds of its own"
    yield paragraph(
        f"The best {len(entries)}{seeds}, on starts that nothing else used, "
        f"{confirmation['games']:,} games each; 95 % intervals."
    )
    header = ("trial", "in the search", "held out", "low", "high", "chance of being best", "seeds")
    yield table(header, [_row(entry) for entry in entries], strong=0)
    yield paragraph(str(confirmation["advice"]))
    yield figure(
        confirmation_chart(entries, confirmation["metric"]),
        "held-out",
        f"{confirmation['metric']}: what the search believed, and what held-out seeds gave.",
    )


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    numbers = (entry["search"]["value"], entry["mean"], entry["low"], entry["high"])
    chance = "" if entry["chance"] is None else f"{entry['chance']:.0%}"
    shown = ("" if number is None else f"{number:.4f}" for number in numbers)
    return (str(entry["trial"]), *shown, chance, str(len(entry["seeds"])))


def confirmation_chart(entries: list[dict[str, Any]], metric: str) -> Chart:
    """Return what the search believed beside what was found, a row a trial."""
    known = [entry for entry in entries if entry["low"] is not None]
    believed = [entry for entry in entries if entry["search"]["value"] is not None]
    held_out = {
        "type": "scatter",
        "mode": "markers",
        "name": "held out",
        "x": [entry["mean"] for entry in known],
        "y": [f"trial {entry['trial']}" for entry in known],
        "error_x": intervals(
            [entry["mean"] for entry in known],
            [entry["low"] for entry in known],
            [entry["high"] for entry in known],
        ),
        "marker": {"color": BLUE, "symbol": "circle", "size": 9},
    }
    search = {
        "type": "scatter",
        "mode": "markers",
        "name": "in the search",
        "x": [entry["search"]["value"] for entry in believed],
        "y": [f"trial {entry['trial']}" for entry in believed],
        "marker": {"color": ORANGE, "symbol": "diamond-open", "size": 9},
    }
    order = [f"trial {entry['trial']}" for entry in entries][::-1]
    return chart(
        [held_out, search],
        {
            "height": 130 + 30 * len(entries),
            "xaxis": axis(metric, {}),
            "yaxis": axis("", {"categoryorder": "array", "categoryarray": order}),
        },
    )
