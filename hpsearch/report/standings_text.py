"""A cross-play as tables for people."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from hpsearch.report.standings import (
    MAX_RANKED_PAIRS,
    Estimate,
    NamedCycle,
    Standing,
    Standings,
)

GAP = 2
"""columns of a terminal between two of a table"""
WIDTH = 100_000
"""columns of the console: more than any table has, so that no name is shortened"""
LEGEND = (
    "Nash: rho against the opponents that matter, those of the equilibrium; high is a strong host, "
    "low a strong agent",
    "played: how often the equilibrium plays it; gap: what its best answer takes from the value, "
    "low is safe",
    "strength: Bradley-Terry, in logits, by who is faster than usual from the same start; high is "
    "strong, on both sides",
    "alpha-rank: the share of time that evolution spends with it; high is strong",
)


def print_standings(
    console: Console, found: Standings, *, intervals: bool, width: int | None
) -> None:
    """Print the matrix, as far as it fits into ``width``, and all ratings.

    Args:
        console: of WIDTH columns.
        found: what is printed.
        intervals: whether the matrix has them too.
        width: columns of the terminal; None where there is none, and nothing is left out.
    """
    _print(
        console,
        f"rho, games decided a move: host down, agent across, {found.num_games:,} games a pair; "
        "high is a strong host, low a strong agent",
    )
    _print(console, "the strongest host stands on top, the strongest agent on the left")
    shown = columns_that_fit(found, width, intervals=intervals)
    console.print(matrix_table(found, shown, intervals=intervals))
    if found.capped.any():
        _print(console, capped_line(found))
    if left := len(found.agents) - shown:
        _print(console, f"{left} weaker agents do not fit here; --json and -o FILE show them too")
    for side, standings in (("host", found.hosts), ("agent", found.agents)):
        _print(console, "")
        console.print(ratings_table(side, standings))
    _print(console, "")
    for line in (*legend_lines(found), "", *balance_lines(found), *cycle_lines(found)):
        _print(console, line)


def columns_that_fit(found: Standings, width: int | None, *, intervals: bool) -> int:
    """Return how many agents' columns fit into ``width``, at least one; all where it is None."""
    if width is None:
        return len(found.agents)
    left = width - max(len(name) for name in ("host", *_names(found.hosts)))
    for count, agent in enumerate(found.agents):
        cells = (_cell(found, p, count, intervals=intervals) for p in range(len(found.hosts)))
        left -= GAP + max(map(len, (agent.name, *cells)))
        if left < 0:
            return max(count, 1)
    return len(found.agents)


def capped_line(found: Standings) -> str:
    """Return how many games did not finish, and where most of them were."""
    p, q = divmod(int(found.capped.argmax()), len(found.agents))
    return (
        f"{found.capped.mean():.1%} of all games were not over after the last move allowed and "
        f"count as that long; {found.hosts[p].name} against {found.agents[q].name}: "
        f"{found.capped[p, q]:.1%}"
    )


def matrix_table(found: Standings, num_agents: int, *, intervals: bool) -> Table:
    """Return rho of every host against the ``num_agents`` strongest agents."""
    table = _table("host", *_names(found.agents[:num_agents]))
    for p, host in enumerate(found.hosts):
        cells = (_cell(found, p, q, intervals=intervals) for q in range(num_agents))
        table.add_row(host.name, *cells)
    return table


def ratings_table(side: str, standings: Sequence[Standing]) -> Table:
    """Return a row a player of one side, the strongest first."""
    is_ranked = standings[0].alpha_rank is not None
    rank = ("alpha-rank",) if is_ranked else ()
    table = _table(side, "Nash", "played", "gap", "strength", *rank)
    for one in standings:
        rank = () if one.alpha_rank is None else (_share(one.alpha_rank),)
        strength = f"{one.strength.value:+.2f} ±{_half(one.strength):.2f}"
        gap = f"{one.exploitability:.4f}"
        table.add_row(one.name, _rho(one.nash), _share(one.played), gap, strength, *rank)
    return table


def legend_lines(found: Standings) -> Iterator[str]:
    """Yield what the columns of the ratings mean; ± is half an interval."""
    *lines, alpha_rank = LEGEND
    yield from lines
    if found.hosts[0].alpha_rank is not None:
        yield alpha_rank
    else:
        yield (
            f"alpha-rank is left out: its time grows with the cube of the pairs, of which there "
            f"are {found.rho.size:,}, more than {MAX_RANKED_PAIRS:,}"
        )
    yield (
        "±: half of a 95 % interval; of Nash and rho over starts drawn again, the same for all, of "
        "strength as if games were independent"
    )


def balance_lines(found: Standings) -> Iterator[str]:
    """Yield what the equilibrium is worth, and what best answers take."""
    balance = found.balance
    yield (
        f"equilibrium: rho {_rho(balance.value)}; best answers take {balance.exploitability:.4f} "
        f"in these games, {balance.resampled_exploitability:.4f} on starts drawn again (noise)"
    )
    for side, standings in (("host", found.hosts), ("agent", found.agents)):
        best = standings[0]
        yield (
            f"best {side}: {best.name}; its best answer, {best.best_answer}, takes "
            f"{best.exploitability:.4f} of rho"
        )


def cycle_lines(found: Standings) -> Iterator[str]:
    """Yield how much is cyclic, and the strongest cycles."""
    yield (
        f"cyclic: {found.cyclic_share:.1%} of rho's differences beyond noise, "
        f"{found.cyclic_share_log:.1%} of log rho's (0 %: one strength a player tells everything)"
    )
    if not found.cycles:
        yield "no cycle stands out from the noise"
    else:
        yield "strongest cycles, in which A < B says that B answers A:"
    for cycle in found.cycles:
        yield cycle_line(cycle)


def cycle_line(cycle: NamedCycle) -> str:
    """Return a cycle as who answers whom."""
    answers = zip(cycle.hosts, cycle.agents, strict=True)
    steps = [f"host {host} < agent {agent} <" for host, agent in answers]
    kind = "two hosts, two agents" if cycle.kind == "swap" else "best answers"
    return f"  {kind}, by {cycle.strength:.4f} at least: {' '.join(steps)} host {cycle.hosts[0]}"


def _names(standings: Sequence[Standing]) -> list[str]:
    return [one.name for one in standings]


def _cell(found: Standings, p: int, q: int, *, intervals: bool) -> str:
    cell = Estimate(found.rho[p, q], found.low[p, q], found.high[p, q])
    return _rho(cell) if intervals else f"{cell.value:.4f}"


def _rho(estimate: Estimate) -> str:
    return f"{estimate.value:.4f} ±{_half(estimate):.4f}"


def _half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2


def _share(share: float) -> str:
    return f"{share:.1%}"


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    return table


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
