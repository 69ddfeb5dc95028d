"""An evaluation as tables for people and as plain data for programs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.analysis.examination import MATCH_AGENTS, MATCH_HOSTS, PlayerReport, RoleReport
from hpsearch.population.best_response import Exploited
from hpsearch.printable import interval_text
from hpsearch.terminal import print_line, print_whole, text_table
from hpsearch.trainers.evaluation import Evaluation
from hpsearch.trainers.match import PUBLISHED, MatchResult
from hpsearch.trainers.metrics import MODES, PANELS, entropy_name, exploitability_name, panel_name
from hpsearch.trainers.published import ADE, MATCHES, TRAINED
from hpsearch.trainers.rho import Rho
from hpsearch.trainers.yardstick import REFERENCES, Yardstick

MODE_TITLES = {"rho": "greedy", "rho_sampled": "sampled"}


def print_report(console: Console, report: PlayerReport) -> None:
    print_line(console, report.name, style="bold")
    for role in report.roles:
        for piece in _pieces(report, role):
            if isinstance(piece, str):
                print_line(console, piece)
            else:
                print_whole(console, piece)
    if report.pair is not None:
        print_line(console, "\nits host against its agent:")
        for mode in MODES:
            rho = _rho_text(report.pair, f"{mode}/host/agent")
            print_line(console, f"  {MODE_TITLES[mode]}: rho {rho}")


def _pieces(report: PlayerReport, role: RoleReport) -> Iterator[str | Table]:
    yield (
        f"\nrho as {role.role}: {report.num_games:,} games per opponent, ± half a 95 % interval "
        f"(in brackets what was not over after {report.max_steps} moves)"
    )
    yield rho_table(report, role)
    yield entropy_line(role)
    if isinstance(role.matches, str):
        yield f"\nno match: {role.matches}"
    else:
        yield (
            f"\nmatch: games begun in {report.match_moves:,} moves, ± their deviation (in "
            "brackets what was stopped);\n"
            f"published | rerun by us: in {PUBLISHED.num_moves:,} moves"
        )
        yield text_table(*match_rows(report.name, role.role, role.matches))
    if isinstance(role.yardstick, str):
        yield f"\nno exact yardstick: {role.yardstick}"
    else:
        own, other = "it needs when the agent delays best", "the best host needs against it"
        yield f"\nexact yardstick: moves {own if role.role == 'host' else other}:"
        yield text_table(*yardstick_rows(report.name, role.yardstick))
        yield yardstick_line(role.yardstick)
    if role.exploitability is not None:
        yield f"\n{exploitability_line(role.role, role.exploitability)}"


def rho_table(report: PlayerReport, role: RoleReport) -> Table:
    opponents = PANELS[role.role]
    rows = []
    for mode in MODES:
        if panel_name(mode, role.role) in role.evaluation.metrics:
            name = report.name if mode == MODES[0] else f"{report.name}, {MODE_TITLES[mode]}"
            rows.append((name, *_rho_cells(role.evaluation, mode, role.role)))
    for name, reference in role.references.items():
        if name != report.name:
            rows.append((name, *_rho_cells(reference, MODES[0], role.role)))
    if role.role == "host" and report.published:
        figures = [report.published.get(name) for name in opponents]
        cells = ("" if figure is None else f"{figure:.3f}" for figure in figures)
        rows.append((TRAINED, *cells, ""))
    return text_table(("player", *opponents, "panel"), rows)


def entropy_line(role: RoleReport) -> str:
    actions = len(next(iter(role.evaluation.games.values())).actions)
    parts = [
        f"{MODE_TITLES[mode]} {role.evaluation.entropies[name]:.3f}"
        for mode in MODES
        if (name := entropy_name(mode, role.role)) in role.evaluation.entropies
    ]
    highest = f"at most {math.log(actions):.3f}, {actions} actions"
    return f"entropy of its actions in nats: {', '.join(parts)} ({highest})"


def match_rows(
    name: str, role: str, matches: Mapping[str, MatchResult]
) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return columns and rows of matches beside published ones: a host a row, an agent a column."""
    if role == "host":
        own = (name, *map(_match_text, matches.values()))
        published = (
            (f"{host}, published", *(_figures(host, agent) for agent in matches))
            for host in (TRAINED, *MATCH_HOSTS)
        )
        return ("host", *matches), [own, *published]
    columns = ("host", name, *(f"{agent}, published" for agent in MATCH_AGENTS))
    return columns, [
        (host, _match_text(result), *(_figures(host, agent) for agent in MATCH_AGENTS))
        for host, result in matches.items()
    ]


def yardstick_rows(name: str, yardstick: Yardstick) -> tuple[Sequence[str], list[Sequence[str]]]:
    ade, reference = yardstick.ade, REFERENCES[yardstick.role]
    rows = [(name, *(_moves_text(start.player) for start in ade))]
    rows.append(("best play", *(str(start.exact) for start in ade)))
    if name != reference:
        rows.append((reference, *(_moves_text(start.reference) for start in ade)))
    if yardstick.role == "host":
        best = {case.name: case.best_model for case in ADE}
        rows.append(("best published model", *(_moves_text(best[start.name]) for start in ade)))
    return ("player", *(start.name for start in ade)), [*rows]


def yardstick_line(yardstick: Yardstick) -> str:
    random = yardstick.random
    if random.unbounded == 1:
        return f"{random.starts} random starts 5x3: best play {random.exact:.2f} moves; without end"
    return (
        f"{random.starts} random starts 5x3: best play {random.exact:.2f} moves, "
        f"{random.unbounded:.1%} without end; of the others {random.player:.2f} moves, "
        f"regret {random.regret:.2f}"
    )


def exploitability_line(role: str, exploited: Exploited) -> str:
    learner = {"host": "an agent", "agent": "a host"}[role]
    taken, response, panel = (
        interval_text(asdict(each)) for each in (exploited, exploited.response, exploited.panel)
    )
    return (
        f"{exploitability_name(role)} {taken}: that much rho is taken from it by {learner} "
        f"that learned against it alone for {exploited.steps:,} steps (rho {response}, against its "
        f"panel {panel}); one that learns longer may take more"
    )


def plain_report(report: PlayerReport) -> dict[str, Any]:
    """Return the report as JSON holds it; null is what has no end, or no mean."""
    roles = {role.role: asdict(role) for role in report.roles}
    for role in report.roles:
        for name, match in role.matches.items() if not isinstance(role.matches, str) else ():
            roles[role.role]["matches"][name] |= {
                "mean": match.mean,
                "deviation": match.deviation,
                "stopped_share": match.stopped_share,
            }
    plain = {
        "player": report.name,
        "games": report.num_games,
        "max_steps": report.max_steps,
        "match_moves": report.match_moves,
        "roles": roles,
        "host_against_agent": None if report.pair is None else asdict(report.pair),
        "published_rho": {TRAINED: report.published},
        "published_matches": [asdict(pair) for pair in MATCHES],
    }
    finite: dict[str, Any] = _finite(plain)
    return finite


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _rho_cells(evaluation: Evaluation, mode: str, role: str) -> list[str]:
    names = [f"{mode}/{role}/{name}" for name in PANELS[role]]
    return [_rho_text(evaluation, name) for name in (*names, panel_name(mode, role))]


def _rho_text(evaluation: Evaluation, metric: str) -> str:
    rho: Rho = evaluation.metrics[metric]
    return f"{rho.value:.4f} ±{(rho.high - rho.low) / 2:.4f} ({rho.capped:.1%})"


def _match_text(result: MatchResult) -> str:
    return f"{result.mean:.1f} ± {result.deviation:.1f} ({result.stopped_share:.1%})"


def _figures(host: str, agent: str) -> str:
    for pair in MATCHES:
        if (pair.host, pair.agent) == (host, agent):
            return f"{pair.published} | {'-' if pair.rerun is None else pair.rerun}"
    return ""


def _moves_text(moves: float | None) -> str:
    if moves is None:
        return "-"
    return "no end" if math.isinf(moves) else f"{moves:.0f}"
