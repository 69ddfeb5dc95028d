"""The rows of a certificate as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.report.interval_text import interval_text
from hpsearch.report.verdict import certified_verdict
from hpsearch.report.whole_lines import print_whole

MODES = {"rho": "", "rho_sampled": ", sampled"}
"""how a player plays, by the first part of a metric's name; greedily where nothing is said"""


def print_verdict(
    console: Console, rows: Sequence[Mapping[str, Any]], trial: int, config: Mapping[str, Any]
) -> None:
    """Print what the certificate of a trial with a configuration comes to, in sentences."""
    for sentence in certified_verdict(f"trial {trial}", rows, config):
        console.print(sentence, highlight=False, markup=False, soft_wrap=True)


def print_rows(console: Console, trained: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a certificate, a table a role; ``trained`` names the player that learned."""
    games = next(iter(rows[0]["metrics"].values()))["games"]
    console.print(f"\nOn {games:,} games from starts that the search never used, 95 % intervals:")
    for role in ("host", "agent"):
        table = _table(role, trained, rows)
        if table.row_count:
            print_whole(console, table)


def _table(role: str, trained: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return a row a player and way to play, a column an opponent."""
    names = [name.split("/") for row in rows for name in row["metrics"]]
    against = dict.fromkeys(
        name[2] for name in names if name[0] in MODES and name[1] == role and len(name) == 3
    )
    table = Table(box=None, header_style="bold")
    table.add_column(f"rho as {role}, against")
    for opponent in against:
        table.add_column(opponent, justify="right")
    for row in rows:
        name = trained if row["player"] == "trained" else row["player"]
        for mode, how in MODES.items():
            cells = [row["metrics"].get(f"{mode}/{role}/{opponent}") for opponent in against]
            if any(cells):
                values = ("" if cell is None else interval_text(cell) for cell in cells)
                table.add_row(f"{name}{how}", *values)
    return table
