"""Tables whose lines are never broken: a terminal does that, and programs want them whole."""

from rich.console import Console
from rich.table import Table

WIDTH = 10_000
"""columns, more than any table has"""


def print_whole(console: Console, table: Table) -> None:
    """Print a table as wide as it is, whatever the width of the console."""
    before = console.width
    console.width = WIDTH
    try:
        console.print(table)
    finally:
        console.width = before
