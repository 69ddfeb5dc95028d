"""The rows of a certificate as a table."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from hpsearch.report.interval_text import interval_text


def print_rows(console: Console, trained: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows of a certificate; ``trained`` names the player that learned."""
    metrics = [name for name in rows[0]["metrics"] if name.startswith("rho")]
    table = Table(box=None, header_style="bold")
    table.add_column("player")
    for metric in metrics:
        table.add_column(metric, justify="right")
    for row in rows:
        name = trained if row["player"] == "trained" else row["player"]
        values = (interval_text(row["metrics"][m]) if m in row["metrics"] else "" for m in metrics)
        table.add_row(name, *values)
    games = next(iter(rows[0]["metrics"].values()))["games"]
    console.print(f"\nOn {games:,} games from starts that the search never used, 95 % intervals:")
    console.print(table)
