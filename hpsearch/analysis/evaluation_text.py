"""An evaluation as tables for people and as plain data for programs."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.analysis.examination import MATCH_AGENTS, MATCH_HOSTS, PlayerReport, RoleReport
from hpsearch.population.best_response import Exploited
from hpsearch.printable import interval_text
from hpsearch.trainers.evaluation import Evaluation
from hpsearch.trainers.match import PUBLISHED, MatchResult
from hpsearch.trainers.metrics import MODES, PANELS, entropy_name, exploitability_name, panel_name
from hpsearch.trainers.published import MATCHES, TRAINED, PublishedMatch
from hpsearch.trainers.rho import Rho
from hpsearch.trainers.yardstick import REFERENCES, Yardstick

WIDTH = 140
"""columns that the tables need"""
MODE_TITLES = {"rho": "greedy", "rho_sampled": "sampled"}


def print_report(console: Console, report: PlayerReport) -> None:
    _print(console, report.name, style="bold")
    for role in report.roles:
        games = f"{report.num_games:,} games an opponent, ± half a 95 % interval"
        capped = f"in brackets what was not over after {report.max_steps} moves"
        _print(console, f"\nrho as {role.role}: {games} ({capped})")
        console.print(rho_table(report, role))
        _print(console, entropy_line(role))
        if isinstance(role.matches, str):
            _print(console, f"\nno match: {role.matches}")
        else:
            moves = f"{report.match_moves:,} moves, ± their deviation"
            _print(console, f"\nmatch: games begun in {moves} (in brackets what was stopped);")
            _print(console, f"published | rerun by us: in {PUBLISHED.num_moves:,} moves")
            console.print(match_table(report.name, role.role, role.matches))
        if isinstance(role.yardstick, str):
            _print(console, f"\nno exact yardstick: {role.yardstick}")
        else:
            _print(console, f"\n{yardstick_title(role.role)}:")
            console.print(yardstick_table(report.name, role.yardstick))
            _print(console, yardstick_line(role.yardstick))
        if role.exploitability is not None:
            _print(console, f"\n{exploitability_line(role.role, role.exploitability)}")
    if report.pair is not None:
        _print(console, "\nits host against its agent:")
        for mode in MODES:
            rho = _rho_text(report.pair, f"{mode}/host/agent")
            _print(console, f"  {MODE_TITLES[mode]}: rho {rho}")


def rho_table(report: PlayerReport, role: RoleReport) -> Table:
    """Return a row a player: each mode of the contestant, the references, what was published."""
    opponents = PANELS[role.role]
    table = _table("player", *opponents, "panel")
    for mode in MODES:
        if panel_name(mode, role.role) in role.evaluation.metrics:
            name = report.name if mode == MODES[0] else f"{report.name}, {MODE_TITLES[mode]}"
            table.add_row(name, *_rho_cells(role.evaluation, mode, role.role))
    others = {
        name: evaluation for name, evaluation in role.references.items() if name != report.name
    }
    for name, reference in others.items():
        table.add_row(name, *_rho_cells(reference, MODES[0], role.role))
    if role.role == "host" and report.published:
        figures = [report.published.get(name) for name in opponents]
        cells = ("" if figure is None else f"{figure:.3f}" for figure in figures)
        table.add_row(TRAINED, *cells, "")
    return table


def entropy_line(role: RoleReport) -> str:
    """Return the entropies of a role's actions beside the highest that there could be."""
    actions = len(next(iter(role.evaluation.games.values())).actions)
    parts = [
        f"{MODE_TITLES[mode]} {role.evaluation.entropies[name]:.3f}"
        for mode in MODES
        if (name := entropy_name(mode, role.role)) in role.evaluation.entropies
    ]
    highest = f"at most {math.log(actions):.3f}, {actions} actions"
    return f"entropy of its actions in nats: {', '.join(parts)} ({highest})"


def match_table(name: str, role: str, matches: Mapping[str, MatchResult]) -> Table:
    """Return the matches beside the published ones: a host's a row, an agent's a column."""
    if role == "host":
        table = _table("host", *matches)
        table.add_row(name, *map(_match_text, matches.values()))
        for host in (TRAINED, *MATCH_HOSTS):
            table.add_row(f"{host}, published", *(_figures(host, a) for a in matches))
        return table
    table = _table("host", name, *(f"{agent}, published" for agent in MATCH_AGENTS))
    for host, result in matches.items():
        table.add_row(host, _match_text(result), *(_figures(host, a) for a in MATCH_AGENTS))
    return table


def yardstick_title(role: str) -> str:
    if role == "host":
        return "exact yardstick: moves it needs when the agent delays best"
    return "exact yardstick: moves the best host needs against it"


def yardstick_table(name: str, yardstick: Yardstick) -> Table:
    table = _table("player", *(start.name for start in yardstick.ade))
    table.add_row("best play", *(str(start.exact) for start in yardstick.ade))
    reference = REFERENCES[yardstick.role]
    if name != reference:
        table.add_row(reference, *(_moves_text(start.reference) for start in yardstick.ade))
    table.add_row(name, *(_moves_text(start.player) for start in yardstick.ade))
    return table


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
    """Return what a best response of a stated budget takes from a role's player."""
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
    roles = {role.role: _plain_role(role) for role in report.roles}
    pair = None if report.pair is None else asdict(report.pair)
    plain = {
        "player": report.name,
        "games": report.num_games,
        "max_steps": report.max_steps,
        "match_moves": report.match_moves,
        "roles": roles,
        "host_against_agent": pair,
        "published_rho": {TRAINED: report.published},
        "published_matches": [asdict(pair) for pair in MATCHES],
    }
    finite: dict[str, Any] = _finite(plain)
    return finite


def _plain_role(role: RoleReport) -> dict[str, Any]:
    matches = role.matches
    if not isinstance(matches, str):
        return {**asdict(role), "matches": {name: _plain_match(m) for name, m in matches.items()}}
    return asdict(role)


def _plain_match(result: MatchResult) -> dict[str, Any]:
    return {
        "mean": result.mean,
        "deviation": result.deviation,
        "stopped_share": result.stopped_share,
        **asdict(result),
    }


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    return table


def _rho_cells(evaluation: Evaluation, mode: str, role: str) -> list[str]:
    names = [f"{mode}/{role}/{name}" for name in PANELS[role]]
    return [_rho_text(evaluation, name) for name in (*names, panel_name(mode, role))]


def _rho_text(evaluation: Evaluation, metric: str) -> str:
    rho: Rho = evaluation.metrics[metric]
    return f"{rho.value:.4f} ±{(rho.high - rho.low) / 2:.4f} ({rho.capped:.1%})"


def _match_text(result: MatchResult) -> str:
    return f"{result.mean:.1f} ± {result.deviation:.1f} ({result.stopped_share:.1%})"


def _figures(host: str, agent: str) -> str:
    published = _published(host, agent)
    if published is None:
        return ""
    return f"{published.published} | {'-' if published.rerun is None else published.rerun}"


def _published(host: str, agent: str) -> PublishedMatch | None:
    return next((pair for pair in MATCHES if (pair.host, pair.agent) == (host, agent)), None)


def _moves_text(moves: float) -> str:
    return "no end" if math.isinf(moves) else f"{moves:.0f}"


def _print(console: Console, text: str, *, style: str | None = None) -> None:
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)
