"""Question and answer: the best configuration, how strong its players are, what confirms it.

And beyond rho: the published match, exact worst cases on the ADE singularities, blow-up trees.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from hpsearch.analysis.confirmation import ConfirmedTrial
from hpsearch.analysis.pictures import BLUE, ORANGE
from hpsearch.analysis.verdict import Measures, measures, opponents_of, verdict
from hpsearch.printable import interval_text
from hpsearch.report.page import charts, html
from hpsearch.report.page.charts import Chart
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.schema import value_at
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView, setting_text
from hpsearch.trainers.metrics import MODES, PANELS
from hpsearch.trainers.published import RHOS

if TYPE_CHECKING:
    from hpsearch.analysis.examination import PlayerReport, RoleReport
    from hpsearch.trainers.evaluation import Evaluation


PANEL: Final = "panel"  # column of the geometric mean over all opponents
TITLES: Final = {"rho": "greedy", "rho_sampled": "sampled"}
PUBLISHED_GAME: Final = {"dimension": 3, "max_value": 20, "evaluation.max_steps": 100}
"""in which rho was published"""

PlayerRhos = tuple[str, Measures]
"""a player, and its rho by opponent: value and, where it was measured here, low and high"""


@dataclass(frozen=True)
class Comparison:
    role: str
    opponents: tuple[str, ...]  # columns
    rows: tuple[PlayerRhos, ...]  # the best trial's first
    source: str  # how the numbers came about, a sentence


SEARCHED: Final = "As the search measured it, by which the trial was chosen; so it may be lucky."


def comparisons(material: Material) -> Iterator[Comparison]:
    """Yield a comparison for each role that was measured; none of programs, or before a result."""
    best = material.best
    if best is None or material.view.study.is_program:
        return
    published = {"host": list(_published(material.view, best))}
    if isinstance(material.measured, str):
        for role in PANELS:
            if own := _own_rows(best, role, best.metrics):
                rows = (*own, *published.get(role, ()))
                opponents = dict.fromkeys(opponent for _, rhos in rows for opponent in rhos)
                yield Comparison(role, tuple(opponents), rows, SEARCHED)
        return
    report = material.measured.report
    source = (
        f"{report.num_games:,} games per opponent, from starts that neither training nor the "
        f"search used; a game counts as unfinished after {report.max_steps} moves."
    )
    for measured in report.roles:
        role = measured.role
        own = _own_rows(best, role, _plain(measured.evaluation))
        others = [
            (name, _by_mode(role, _plain(evaluation))[MODES[0]])
            for name, evaluation in measured.references.items()
        ]
        rows = (*own, *others, *published.get(role, ()))
        yield Comparison(role, (*PANELS[role], PANEL), rows, source)


def _plain(evaluation: "Evaluation") -> dict[str, dict[str, float]]:
    return {name: asdict(rho) for name, rho in evaluation.metrics.items()}


def _own_rows(best: Trial, role: str, metrics: Measures) -> list[PlayerRhos]:
    by_mode = _by_mode(role, metrics).items()
    return [(f"trial {best.number}, {TITLES[mode]}", rhos) for mode, rhos in by_mode if rhos]


def _by_mode(role: str, metrics: Measures) -> dict[str, dict[str, Mapping[str, float]]]:
    by_mode: dict[str, dict[str, Mapping[str, float]]] = {mode: {} for mode in MODES}
    for name, rho in metrics.items():
        match name.split("/"):
            case [mode, whose, opponent] if whose == role:
                by_mode[mode][opponent] = rho
            case [mode, whose] if whose == role:
                column = mode.partition("_")[0]  # of all opponents, such as the panel
                by_mode[mode.replace(column, MODES[0])][column] = rho
    return by_mode


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
    has_champion = bool(view.state.population.archive)
    how = "the champion of the last match" if has_champion else "the best of the search"
    if is_confirmed:
        how = "the best when compared on what the search never used"
    value = ""
    if view.metric in best.metrics:
        value = f"; the search measured {view.metric} {interval_text(best.metrics[view.metric])}"
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
    rows = [(name, setting_text(value)) for name, value in view.settings(best).items()]
    yield html.table(("parameter", "value"), rows)
    if isinstance(material.measured, str):
        yield html.missing(f"Its players were not measured for this page: {material.measured}")
    for comparison in comparisons(material):
        role, opponents = comparison.role, comparison.opponents
        strong = "high is a strong host" if role == "host" else "low is a strong agent"
        yield html.heading(f"Rho as {role}, with 95 % intervals")
        yield html.paragraph(f"Games decided a move, {strong}. {comparison.source}")
        cells = [
            (player, *(_rho_text(rhos.get(opponent)) for opponent in opponents))
            for player, rhos in comparison.rows
        ]
        yield html.table(("player", *opponents), cells, strong=0)
        if len(cells) > 1:
            caption = "The same numbers drawn."
            yield html.figure(comparison_chart(comparison), f"rho-{role}", caption)


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
        own = measures(role.role, _plain(role.evaluation))
        others = {
            name: measures(role.role, _plain(evaluation))
            for name, evaluation in role.references.items()
        }
        trained_on = opponents_of(role.role, config)
        yield from verdict(f"trial {best.number}", role.role, own, others, trained_on)


def comparison_chart(comparison: Comparison) -> Chart:
    data = []
    for place, opponent in enumerate(comparison.opponents):
        known = {player: rhos[opponent] for player, rhos in comparison.rows if opponent in rhos}
        values = [rho["value"] for rho in known.values()]
        low = [rho.get("low", rho["value"]) for rho in known.values()]
        high = [rho.get("high", rho["value"]) for rho in known.values()]
        marker = {"color": charts.colour(place), "symbol": charts.symbol(place), "size": 9}
        more = {"error_x": charts.intervals(values, low, high), "marker": marker}
        data.append(charts.scatter("markers", opponent, values, known, more))
    players = [player for player, _ in comparison.rows]
    across, upright = charts.axis("rho", {"rangemode": "tozero"}), charts.category_axis(players)
    return charts.chart(data, {"height": 130 + 34 * len(players), **charts.axes(across, upright)})


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
    trials, metric = confirmation.trials, confirmation.metric
    seeds = "" if confirmation.trained_by is None else ", trained again on seeds of its own"
    yield html.paragraph(
        f"The best {len(trials)}{seeds}, on starts that nothing else used, "
        f"{confirmation.games:,} games each; 95 % intervals."
    )
    header = ("trial", "in the search", "held out", "low", "high", "chance of being best", "seeds")
    yield html.table(header, map(_cells, trials), strong=0)
    yield html.paragraph(confirmation.advice)
    caption = f"{metric}: what the search believed, and what held-out seeds gave."
    yield html.figure(confirmation_chart(trials, metric), "held-out", caption)


def _cells(trial: ConfirmedTrial) -> tuple[str, ...]:
    numbers = (trial.search["value"], trial.mean, trial.low, trial.high)
    chance = "" if trial.chance is None else f"{trial.chance:.0%}"
    shown = ("" if number is None else f"{number:.4f}" for number in numbers)
    return (str(trial.trial), *shown, chance, str(len(trial.seeds)))


def confirmation_chart(trials: Sequence[ConfirmedTrial], metric: str) -> Chart:
    """Return what the search believed beside what was measured on held-out seeds, a row a trial."""
    believed = {f"trial {trial.trial}": trial.search["value"] for trial in trials}
    search = {name: value for name, value in believed.items() if value is not None}
    held_out = {
        f"trial {trial.trial}": (trial.mean, trial.low, trial.high)
        for trial in trials
        if trial.mean is not None and trial.low is not None and trial.high is not None
    }
    mean, low, high = ([numbers[at] for numbers in held_out.values()] for at in range(3))
    bars = {"error_x": charts.intervals(mean, low, high)}
    dot = {"marker": {"color": BLUE, "symbol": "circle", "size": 9}}
    diamond = {"marker": {"color": ORANGE, "symbol": "diamond-open", "size": 9}}
    data = [
        charts.scatter("markers", "held out", mean, held_out, bars | dot),
        charts.scatter("markers", "in the search", search.values(), search, diamond),
    ]
    axes = charts.axes(metric, charts.category_axis(list(believed)))
    return charts.chart(data, {"height": 130 + 30 * len(trials), **axes})


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
        yield from _worst_cases(role, name)
        if role.role == "host" and not isinstance(role.yardstick, str):
            worst = {start.name: start.player for start in role.yardstick.ade}
        if role.exploitability is not None:
            yield html.heading(f"What a best response takes, as {role.role}")
            yield html.paragraph(f"{exploitability_line(role.role, role.exploitability)}.")
    yield html.heading("Blow-up trees of the host beside best play")
    yield html.missing(f"None: {trees}.") if isinstance(trees, str) else trees_html(trees, worst)


def _match(report: "PlayerReport", role: "RoleReport", name: str) -> Iterator[Html]:
    from hpsearch.analysis.evaluation_text import match_rows

    if isinstance(role.matches, str):
        yield html.missing(f"None: {role.matches}.")
        return
    yield html.paragraph(
        f"Games begun in {report.match_moves:,} moves of one game after another, ± their "
        "deviation, in brackets the share that was stopped; a strong host begins many, a strong "
        "agent lets it begin few."
    )
    columns, rows = match_rows(name, role.role, role.matches)
    yield html.table(columns, rows, strong=0 if role.role == "host" else None)
    yield Html('<p class="about">Of others: published | counted again with the published code.</p>')


def _worst_cases(role: "RoleReport", name: str) -> Iterator[Html]:
    from hpsearch.analysis.evaluation_text import yardstick_line, yardstick_rows

    if isinstance(role.yardstick, str):
        yield html.missing(f"None: {role.yardstick}.")
        return
    is_host = role.role == "host"
    what = "that it needs when the agent delays best" if is_host else "that the best host needs"
    yield html.paragraph(f"Moves {what}; best play is exact, found by search. {STARTS_TEXT}")
    yield html.table(*yardstick_rows(name, role.yardstick), strong=0)
    yield html.paragraph(f"From {yardstick_line(role.yardstick)}.")
