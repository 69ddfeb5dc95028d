"""Beyond rho: the published match, exact worst cases on the ADE singularities, blow-up trees."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from hpsearch.report.page import html
from hpsearch.report.page.html import Html
from hpsearch.report.page.material import Material
from hpsearch.trainers.published import ADE, MATCHES

if TYPE_CHECKING:
    from hpsearch.analysis.examination import PlayerReport, RoleReport
    from hpsearch.trainers.yardstick import Yardstick


STARTS_TEXT: Final = (
    "A1 to E8 name the simple singularities of surfaces; the points of a start are the exponents "
    "of its equation, of E6 those of x^2 + y^3 + z^4."
)


def yardstick_section(material: Material) -> Iterator[Html]:
    """Yield exact and published yardsticks; nothing where nothing was measured."""
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
    hosts = dict.fromkeys(pair.host for pair in MATCHES)
    figures = {(pair.host, pair.agent): _figures(pair.published, pair.rerun) for pair in MATCHES}
    rows = [(host, *(figures.get((host, agent), "") for agent in opponents)) for host in hosts]
    yield html.table(("player", *opponents), [(name, *own), *rows], strong=0)
    yield Html('<p class="about">Of others: published | counted again with the published code.</p>')


def _figures(published: int, rerun: int | None) -> str:
    return f"{published} | {'-' if rerun is None else rerun}"


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
