"""A replay as text for people: a table, and one sentence that says what it tells."""

from typing import Final

from rich.console import Console
from rich.table import Table

from hpsearch.report.replay import Replay

ENOUGH_SEEDS: Final = 4
"""below which the interval of one more seed holds nearly everything"""


def print_replay(console: Console, found: Replay, conclusion: str) -> None:
    """Print the original and the replicates, strongest first, and what they tell."""
    title = (
        f"{found.study}: the {found.intervals} intervals that led to trial {found.trial}, on seeds "
        f"held out (by {found.trained_by}) and starts held out ({found.games:,} games each pair)"
    )
    console.print(title, style="bold", highlight=False, soft_wrap=True)
    console.print(_table(found))
    console.print(_mean_text(found), highlight=False, soft_wrap=True)
    console.print(conclusion, highlight=False, markup=False, soft_wrap=True)


def conclusion_text(found: Replay) -> str:
    """Return the sentence that says whether the schedule holds up."""
    trial = f"trial {found.trial}"
    if found.expected is None:
        return (
            "one training tells nothing of the spread over seeds, so whether the schedule holds up "
            "is not known"
        )
    low, high = found.expected
    where = f"where a new seed gives {low:+.3f} to {high:+.3f} with 95 %"
    if not found.held_up:
        return f"{trial} was lucky: its strength is {found.original:+.3f}, {where}"
    if (seeds := len(found.replicates)) < ENOUGH_SEEDS:
        return (
            f"{seeds} seeds are too few to tell whether the schedule holds up: {trial} has "
            f"{found.original:+.3f}, {where}; {ENOUGH_SEEDS} or more tell"
        )
    return f"the schedule holds up: {trial} has {found.original:+.3f}, {where}"


def _table(found: Replay) -> Table:
    table = Table(box=None, header_style="bold")
    for column in ("who", "trial", "strength"):
        table.add_column(column, justify="left" if column == "who" else "right")
    rows = [("original", found.trial, found.original)]
    rows += [(f"seed {one.member}", one.trial, one.strength) for one in found.replicates]
    for who, trial, strength in sorted(rows, key=lambda row: -row[2]):
        table.add_row(who, str(trial), f"{strength:+.4f}")
    return table


def _mean_text(found: Replay) -> str:
    verdict, num = found.verdict, len(found.replicates)
    ends = ""
    if verdict.low is not None and verdict.high is not None:
        ends = f" [{verdict.low:+.4f}, {verdict.high:+.4f}]"
    iqm = "" if verdict.iqm is None else f", IQM {verdict.iqm:+.4f}"
    missing = f", {found.unfinished} did not get through" if found.unfinished else ""
    return f"mean of {num} seeds {verdict.mean:+.4f}{ends}{iqm}{missing}"
