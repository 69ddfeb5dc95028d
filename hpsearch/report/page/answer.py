"""Question and answer: the best configuration, how strong its players are, what confirms it.

And beyond rho: the published match, exact worst cases on the ADE singularities, blow-up trees.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from hpsearch.analysis.pictures import BLUE, ORANGE
from hpsearch.analysis.verdict import measures, opponents_of, verdict
from hpsearch.printable import interval_text
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.schema import value_at
from hpsearch.study.records import Trial
from hpsearch.study.trial_list import setting_text
from hpsearch.study.view import StudyView
from hpsearch.trainers.metrics import MODES, PANELS, panel_name
from hpsearch.trainers.published import ADE, MATCHES, RHOS

if TYPE_CHECKING:
    from hpsearch.analysis.examination import PlayerReport, RoleReport
    from hpsearch.trainers.rho import Rho
    from hpsearch.trainers.yardstick import Yardstick


PANEL: Final = "panel"  # column of the geometric mean over all opponents
TITLES: Final = {"rho": "greedy", "rho_sampled": "sampled"}
PUBLISHED_GAME: Final = {"dimension": 3, "max_value": 20, "evaluation.max_steps": 100}
"""in which rho was published"""

PlayerRhos = tuple[str, Mapping[str, Mapping[str, float]]]
"""a player, and its rho by opponent: value and, where it was measured here, low and high"""


@dataclass(frozen=True)
class Comparison:
    role: str
    opponents: tuple[str, ...]  # columns
    rows: tuple[PlayerRhos, ...]  # the best trial's first
    source: str  # how the numbers came about, a sentence


def comparisons(material: Material) -> tuple[Comparison, ...]:
    """Return a comparison for each role that was measured; none where no trial has finished."""
    best = material.best
    if best is None:
        return ()
    published = list(_published(material.view, best))
    if isinstance(material.measured, str):
        return tuple(_searched(best, published))
    report = material.measured.report
    return tuple(_examined(report, role, best, published) for role in report.roles)


def _examined(
    report: "PlayerReport", role: "RoleReport", best: Trial, published: list[PlayerRhos]
) -> Comparison:
    own = [
        (f"trial {best.number}, {TITLES[mode]}", _by_opponent(role.evaluation.metrics, mode, role))
        for mode in MODES
        if panel_name(mode, role.role) in role.evaluation.metrics
    ]
    others = [
        (player, _by_opponent(evaluation.metrics, MODES[0], role))
        for player, evaluation in role.references.items()
    ]
    return Comparison(
        role.role,
        (*PANELS[role.role], PANEL),
        (*own, *others, *(published if role.role == "host" else ())),
        f"{report.num_games:,} games an opponent, from starts that neither training nor the search "
        f"used; a game counts as unfinished after {report.max_steps} moves.",
    )


def _by_opponent(
    metrics: Mapping[str, "Rho"], mode: str, role: "RoleReport"
) -> dict[str, dict[str, float]]:
    names = {name: f"{mode}/{role.role}/{name}" for name in PANELS[role.role]}
    names[PANEL] = panel_name(mode, role.role)
    return {column: asdict(metrics[name]) for column, name in names.items() if name in metrics}


def _searched(best: Trial, published: list[PlayerRhos]) -> Iterator[Comparison]:
    for role in PANELS:
        measured: dict[str, dict[str, Mapping[str, float]]] = {mode: {} for mode in MODES}
        for name, rho in best.metrics.items():
            if name.split("/")[1:2] == [role]:
                mode, column = _mode_and_column(name)
                measured[mode][column] = rho
        own = [
            (f"trial {best.number}, {TITLES[mode]}", rhos)
            for mode, rhos in measured.items()
            if rhos
        ]
        if own:
            rows = (*own, *(published if role == "host" else ()))
            yield Comparison(
                role,
                tuple(dict.fromkeys(opponent for _, rhos in rows for opponent in rhos)),
                rows,
                "As the search measured it, by which the trial was chosen; so it may be lucky.",
            )


def _mode_and_column(metric: str) -> tuple[str, str]:
    """Return the mode and the column that a metric's name tells: an opponent, panel or worst."""
    mode, _, *opponent = metric.split("/")
    if opponent:
        return mode, opponent[0]
    column = mode.partition("_")[0]
    return mode.replace(column, MODES[0]), column


def _published(view: StudyView, best: Trial) -> Iterator[PlayerRhos]:
    config: dict[str, Any] = view.config(best)
    if any(value_at(config, path) != wanted for path, wanted in PUBLISHED_GAME.items()):
        return
    known = [rho for rho in RHOS if rho.num_points == config["max_num_points"]]
    for host in dict.fromkeys(rho.host for rho in known):
        values = {rho.agent: {"value": rho.value} for rho in known if rho.host == host}
        yield (host if host.startswith("published") else f"{host}, published", values)


def question_text(view: StudyView) -> str:
    spec = view.study.spec
    names = ", ".join(spec.space)
    if spec.population is not None:
        return (
            f"Which of {spec.population.members} members that breed becomes the strongest, and by "
            f"which schedule of {names}?"
        )
    extremes = {"maximize": "highest", "minimize": "lowest"}
    goals = (f"{extremes[objective.goal]} {objective.metric}" for objective in spec.objectives)
    return f"Which values of {names} lead to the {' and '.join(goals)}?"


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


def answer_section(material: Material) -> Iterator[Html]:
    view, best = material.view, material.best
    yield html.paragraph(question_text(view))
    if best is None:
        yield html.missing("There is no answer yet: no trial has finished.")
        return
    sentence = answer_text(view, best, is_confirmed=material.is_confirmed)
    yield Html(f'<p class="lead">{html.text(sentence)}</p>')
    yield from map(html.paragraph, _verdict(material, best))
    settings = view.study.space.decode(best.last_params)
    rows = [(name, setting_text(value)) for name, value in settings.items()]
    yield html.table(("parameter", "value"), rows)
    if isinstance(material.measured, str):
        yield html.missing(f"Its players were not measured for this page: {material.measured}")
    for comparison in comparisons(material):
        role, opponents = comparison.role, comparison.opponents
        strong = "high is a strong host" if role == "host" else "low is a strong agent"
        yield html.heading(f"Rho as {role}, with 95 % intervals")
        yield html.paragraph(f"Games decided a move, {strong}. {comparison.source}")
        cells = [
            (player, *(_rho_text(rhos.get(name)) for name in opponents))
            for player, rhos in comparison.rows
        ]
        yield html.table(("player", *opponents), cells, strong=0)
        if len(cells) > 1:
            chart = comparison_chart(comparison)
            yield html.figure(chart, f"rho-{role}", "The same numbers drawn.")


def _verdict(material: Material, best: Trial) -> Iterator[str]:
    """Yield how strong the best trial's players are, by its bundle or as measured for the page."""
    if material.certified:
        yield "As its exported bundle certifies:"
        yield from material.certified
        return
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
    data = []
    for place, opponent in enumerate(comparison.opponents):
        known = {player: rhos[opponent] for player, rhos in comparison.rows if opponent in rhos}
        values = [rho["value"] for rho in known.values()]
        low, high = ([rho.get(end, rho["value"]) for rho in known.values()] for end in ENDS)
        marker = {"color": charts.colour(place), "symbol": charts.symbol(place), "size": 9}
        more = {"error_x": charts.intervals(values, low, high), "marker": marker}
        data.append(charts.scatter("markers", opponent, values, known, more))
    players = [player for player, _ in comparison.rows]
    layout = {
        "height": 130 + 34 * len(players),
        "xaxis": charts.axis("rho", {"rangemode": "tozero"}),
        "yaxis": charts.category_axis(players),
    }
    return charts.chart(data, layout)


ENDS: Final = ("low", "high")


def _rho_text(rho: Mapping[str, float] | None) -> str:
    if rho is None:
        return ""
    return interval_text(rho) if "low" in rho else f"{rho['value']:.3f}"


def confirmation_section(material: Material) -> Iterator[Html]:
    confirmation = material.confirmation
    if isinstance(confirmation, str):
        yield html.missing(f"Not known: {confirmation}")
        return
    if not material.is_confirmed:
        yield html.missing("It is out of date: the best are others by now.")
    entries, metric = confirmation["trials"], confirmation["metric"]
    seeds = "" if confirmation["trained_by"] is None else ", trained again on seeds of its own"
    yield html.paragraph(
        f"The best {len(entries)}{seeds}, on starts that nothing else used, "
        f"{confirmation['games']:,} games each; 95 % intervals."
    )
    header = ("trial", "in the search", "held out", "low", "high", "chance of being best", "seeds")
    yield html.table(header, map(_cells, entries), strong=0)
    yield html.paragraph(str(confirmation["advice"]))
    yield html.figure(
        confirmation_chart(entries, metric),
        "held-out",
        f"{metric}: what the search believed, and what held-out seeds gave.",
    )


def _cells(entry: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = (entry["search"]["value"], entry["mean"], entry["low"], entry["high"])
    chance = "" if entry["chance"] is None else f"{entry['chance']:.0%}"
    shown = ("" if number is None else f"{number:.4f}" for number in numbers)
    return (str(entry["trial"]), *shown, chance, str(len(entry["seeds"])))


def confirmation_chart(entries: Sequence[Mapping[str, Any]], metric: str) -> Chart:
    """Return what the search believed beside what was measured on held-out seeds, a row a trial."""
    known = [entry for entry in entries if entry["low"] is not None]
    believed = [entry for entry in entries if entry["search"]["value"] is not None]
    mean, low, high = ([entry[key] for entry in known] for key in ("mean", "low", "high"))
    measured = {
        "error_x": charts.intervals(mean, low, high),
        "marker": {"color": BLUE, "symbol": "circle", "size": 9},
    }
    search = [entry["search"]["value"] for entry in believed]
    marker = {"marker": {"color": ORANGE, "symbol": "diamond-open", "size": 9}}
    data = [
        charts.scatter("markers", "held out", mean, _names(known), measured),
        charts.scatter("markers", "in the search", search, _names(believed), marker),
    ]
    layout = {
        "height": 130 + 30 * len(entries),
        "xaxis": charts.axis(metric, {}),
        "yaxis": charts.category_axis(_names(entries)),
    }
    return charts.chart(data, layout)


def _names(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"trial {entry['trial']}" for entry in entries]


STARTS_TEXT: Final = (
    "A1 to E8 name the simple singularities of surfaces; the points of a start are the exponents "
    "of its equation, of E6 those of x^2 + y^3 + z^4."
)


def yardstick_section(material: Material) -> Iterator[Html]:
    if isinstance(material.measured, str) or material.best is None:
        return  # the answer says why
    # Imported here: they load torch, which is loaded where something was measured.
    from hpsearch.analysis.evaluation_text import exploitability_line
    from hpsearch.report.page.players import trees_html

    report, trees = material.measured.report, material.measured.trees
    name, worst = f"trial {material.best.number}", {}
    for role in report.roles:
        yield html.heading(f"The published match, as {role.role}")
        yield from _match(report, role, name)
        yield html.heading(f"Worst cases, as {role.role}")
        if isinstance(role.yardstick, str):
            yield html.missing(f"None: {role.yardstick}.")
        else:
            yield from _worst_cases(role.yardstick, name)
            if role.role == "host":
                worst = {start.name: start.player for start in role.yardstick.ade}
        if role.exploitability is not None:
            yield html.heading(f"What a best response takes, as {role.role}")
            yield html.paragraph(f"{exploitability_line(role.role, role.exploitability)}.")
    yield html.heading("Blow-up trees of the host beside best play")
    yield html.missing(f"None: {trees}.") if isinstance(trees, str) else trees_html(trees, worst)


def _match(report: "PlayerReport", role: "RoleReport", name: str) -> Iterator[Html]:
    if isinstance(role.matches, str):
        yield html.missing(f"None: {role.matches}.")
        return
    yield html.paragraph(
        f"Games begun in {report.match_moves:,} moves of one game after another; a strong host "
        "begins many, a strong agent lets it begin few."
    )
    opponents = tuple(role.matches)
    own = [f"{match.mean:.1f} ± {match.deviation:.1f}" for match in role.matches.values()]
    if role.role == "agent":
        yield html.table(("player", *opponents), [(name, *own)], strong=0)
        return
    figures: dict[str, dict[str, str]] = {}
    for pair in MATCHES:
        counted = "-" if pair.rerun is None else pair.rerun
        figures.setdefault(pair.host, {})[pair.agent] = f"{pair.published} | {counted}"
    rows = [(host, *(by.get(agent, "") for agent in opponents)) for host, by in figures.items()]
    yield html.table(("player", *opponents), [(name, *own), *rows], strong=0)
    yield Html('<p class="about">Of others: published | counted again with the published code.</p>')


def _worst_cases(yardstick: "Yardstick", name: str) -> Iterator[Html]:
    # Imported here: it loads torch, which is loaded where something was measured.
    from hpsearch.trainers.yardstick import REFERENCES

    is_host = yardstick.role == "host"
    what = "that it needs when the agent delays best" if is_host else "that the best host needs"
    yield html.paragraph(f"Moves {what}; best play is exact, found by search. {STARTS_TEXT}")
    published = {case.name: case.best_model for case in ADE}
    others = [("best published model", *(_moves(published[s.name]) for s in yardstick.ade))]
    rows = [
        (name, *(_moves(start.player) for start in yardstick.ade)),
        ("best play", *(_moves(start.exact) for start in yardstick.ade)),
        (REFERENCES[yardstick.role], *(_moves(start.reference) for start in yardstick.ade)),
        *(others if is_host else []),
    ]
    yield html.table(("player", *(start.name for start in yardstick.ade)), rows, strong=0)
    random = yardstick.random
    if math.isfinite(random.regret):
        yield html.paragraph(
            f"From {random.starts} random starts with 5 points best play takes {random.exact:.2f} "
            f"moves, this player {random.player:.2f} where its games end; {random.unbounded:.1%} "
            "of them need not end."
        )


def _moves(moves: float | None) -> str:
    if moves is None:
        return "-"
    return "no end" if math.isinf(moves) else f"{moves:.0f}"
