"""A cross-play as tables for people.

The matrix of a cross-play as a picture, in colours that the colour-blind can tell apart.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from hpsearch.analysis.pictures import drawing
from hpsearch.analysis.standings import (
    MAX_RANKED_PAIRS,
    Estimate,
    NamedCycle,
    PlayerStanding,
    Standings,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    console: Console, cross_play: Standings, *, intervals: bool, width: int | None
) -> None:
    """Print the matrix, as far as it fits into ``width``, and all ratings.

    Args:
        console: of WIDTH columns.
        cross_play: what is printed.
        intervals: whether the matrix has them too.
        width: columns of the terminal; None where there is none, and nothing is left out.
    """
    _print(
        console,
        f"rho, games decided a move: host down, agent across, {cross_play.num_games:,} games a "
        "pair; high is a strong host, low a strong agent",
    )
    _print(console, "the strongest host stands on top, the strongest agent on the left")
    shown = columns_that_fit(cross_play, width, intervals=intervals)
    console.print(matrix_table(cross_play, shown, intervals=intervals))
    if cross_play.capped.any():
        _print(console, capped_line(cross_play))
    if left := len(cross_play.agents) - shown:
        _print(console, f"{left} weaker agents do not fit here; --json and -o FILE show them too")
    for side, standings in (("host", cross_play.hosts), ("agent", cross_play.agents)):
        _print(console, "")
        console.print(ratings_table(side, standings))
    _print(console, "")
    for line in (
        *legend_lines(cross_play),
        "",
        *balance_lines(cross_play),
        *cycle_lines(cross_play),
    ):
        _print(console, line)


def columns_that_fit(standings: Standings, width: int | None, *, intervals: bool) -> int:
    """Return how many agents' columns fit into ``width``, at least one; all where it is None."""
    if width is None:
        return len(standings.agents)
    left = width - max(len(name) for name in ("host", *_names(standings.hosts)))
    for count, agent in enumerate(standings.agents):
        cells = (
            _cell(standings, p, count, intervals=intervals) for p in range(len(standings.hosts))
        )
        left -= GAP + max(map(len, (agent.name, *cells)))
        if left < 0:
            return max(count, 1)
    return len(standings.agents)


def capped_line(standings: Standings) -> str:
    """Return how many games did not finish, and where most of them were."""
    p, q = divmod(int(standings.capped.argmax()), len(standings.agents))
    return (
        f"{standings.capped.mean():.1%} of all games were not over after the last move allowed and "
        f"count as that long; {standings.hosts[p].name} against {standings.agents[q].name}: "
        f"{standings.capped[p, q]:.1%}"
    )


def matrix_table(standings: Standings, num_agents: int, *, intervals: bool) -> Table:
    """Return rho of every host against the ``num_agents`` strongest agents."""
    table = _table("host", *_names(standings.agents[:num_agents]))
    for p, host in enumerate(standings.hosts):
        cells = (_cell(standings, p, q, intervals=intervals) for q in range(num_agents))
        table.add_row(host.name, *cells)
    return table


def ratings_table(side: str, standings: Sequence[PlayerStanding]) -> Table:
    """Return a row a player of one side, the strongest first."""
    is_ranked = standings[0].alpha_rank is not None
    rank = ("alpha-rank",) if is_ranked else ()
    table = _table(side, "Nash", "played", "gap", "strength", *rank)
    for standing in standings:
        rank = () if standing.alpha_rank is None else (_share(standing.alpha_rank),)
        strength = f"{standing.strength.value:+.2f} ±{_half(standing.strength):.2f}"
        gap = f"{standing.exploitability:.4f}"
        table.add_row(
            standing.name, _rho(standing.nash), _share(standing.played), gap, strength, *rank
        )
    return table


def legend_lines(standings: Standings) -> Iterator[str]:
    """Yield what the columns of the ratings mean; ± is half an interval."""
    *lines, alpha_rank = LEGEND
    yield from lines
    if standings.hosts[0].alpha_rank is not None:
        yield alpha_rank
    else:
        yield (
            f"alpha-rank is left out: its time grows with the cube of the pairs, of which there "
            f"are {standings.rho.size:,}, more than {MAX_RANKED_PAIRS:,}"
        )
    yield (
        "±: half of a 95 % interval; of Nash and rho over starts drawn again, the same for all, of "
        "strength as if games were independent"
    )


def balance_lines(cross_play: Standings) -> Iterator[str]:
    balance = cross_play.balance
    yield (
        f"equilibrium: rho {_rho(balance.value)}; best answers take {balance.exploitability:.4f} "
        f"in these games, {balance.resampled_exploitability:.4f} on starts drawn again (noise)"
    )
    for side, standings in (("host", cross_play.hosts), ("agent", cross_play.agents)):
        best = standings[0]
        yield (
            f"best {side}: {best.name}; its best answer, {best.best_answer}, takes "
            f"{best.exploitability:.4f} of rho"
        )


def cycle_lines(standings: Standings) -> Iterator[str]:
    yield (
        f"cyclic: {standings.cyclic_share:.1%} of rho's differences beyond noise, "
        f"{standings.cyclic_share_log:.1%} of log rho's (0 %: one strength a player tells "
        "everything)"
    )
    if not standings.cycles:
        yield "no cycle stands out from the noise"
    else:
        yield "strongest cycles, in which A < B says that B answers A:"
    for cycle in standings.cycles:
        yield cycle_line(cycle)


def cycle_line(cycle: NamedCycle) -> str:
    answers = zip(cycle.hosts, cycle.agents, strict=True)
    steps = [f"host {host} < agent {agent} <" for host, agent in answers]
    kind = "two hosts, two agents" if cycle.kind == "swap" else "best answers"
    return f"  {kind}, by {cycle.strength:.4f} at least: {' '.join(steps)} host {cycle.hosts[0]}"


def _names(standings: Sequence[PlayerStanding]) -> list[str]:
    return [standing.name for standing in standings]


def _cell(standings: Standings, p: int, q: int, *, intervals: bool) -> str:
    cell = Estimate(standings.rho[p, q], standings.low[p, q], standings.high[p, q])
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


TITLE: Final = "rho, high (bright) is a strong host, low (dark) a strong agent"
COLOURS: Final = "cividis"
"""from dark to bright, told apart also without red or green and in grey"""
MAX_NUMBERED: Final = 20
"""players of a side up to which the cells hold numbers too"""
CELL: Final = (0.62, 0.42)
"""inches of a cell with a number: width, height"""
SMALL_CELL: Final = 0.16
"""inches of one without"""
MARGIN: Final = (2.6, 2.2)
"""inches for names and the bar of colours: width, height"""
MIN_SIZE: Final = (7.0, 3.6)
"""inches, so that the title fits"""


def write_matrix(standings: Standings, path: Path) -> None:
    """Draw rho of all pairs and replace the file at ``path``, whose suffix is one of PICTURES.

    Raises:
        OSError: if the file cannot be written; the old one stays.
    """
    rows, columns = standings.rho.shape
    is_numbered = max(rows, columns) <= MAX_NUMBERED
    cell = CELL if is_numbered else (SMALL_CELL, SMALL_CELL)
    size = (
        max(MIN_SIZE[0], columns * cell[0] + MARGIN[0]),
        max(MIN_SIZE[1], rows * cell[1] + MARGIN[1]),
    )
    with drawing(path, size) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(standings.rho, cmap=COLOURS, aspect="auto")
        figure.colorbar(image, ax=axes, label="rho")
        axes.set_title(f"{TITLE}, {standings.num_games:,} games a pair", fontsize=9)
        _name(axes, standings, size=8.0 if is_numbered else 5.0)
        if is_numbered:
            _number(axes, standings)


def _name(axes: "Axes", standings: Standings, size: float) -> None:
    axes.set_xticks(
        range(len(standings.agents)),
        [agent.name for agent in standings.agents],
        rotation=45,
        ha="right",
        rotation_mode="anchor",
        fontsize=size,
    )
    axes.set_yticks(
        range(len(standings.hosts)), [host.name for host in standings.hosts], fontsize=size
    )
    axes.set(xlabel="agent", ylabel="host")


def _number(axes: "Axes", standings: Standings) -> None:
    middle = (standings.rho.min() + standings.rho.max()) / 2
    for p, row in enumerate(standings.rho):
        for q, value in enumerate(row):
            colour = "black" if value > middle else "white"
            axes.text(q, p, f"{value:.3f}", ha="center", va="center", fontsize=7, color=colour)
