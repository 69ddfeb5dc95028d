"""The page's section on the quick start: what a newcomer waits for and gets."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]

HEAD = """## quick start

    python tests/benchmarks/quickstart.py --repeats 3

studies/quickstart.yaml with kernels that are compiled already: seconds until the first evaluation
is told, which the display shows at its next look, until the first trial has ended with its value,
and until the best is exported; seconds of the first `hpsearch report` and of a second
one, which finds its measurements; the page's size and its printed pages; and `exploitability/host`,
what an opponent that trains against the best host alone for 300 or 1,200 steps takes from its rho.
Then the seconds of a run of studies/choose_first.yaml, until its best is exported, and the rho of
that host against choose_first in 10,000 fresh games. The median of a commit's repetitions, with the
least and the greatest.
"""
COLUMNS = {
    "first_shown_seconds": "first value shown, s",
    "first_value_seconds": "first trial's value, s",
    "run_seconds": "run, s",
    "report_seconds": "first report, s",
    "second_report_seconds": "second report, s",
    "page_megabytes": "page, MB",
    "printed_pages": "printed pages",
    "exploitability_300": "exploitability, 300 steps",
    "exploitability_1200": "1,200 steps",
    "choose_first_seconds": "choose_first.yaml, s",
    "choose_first_rho": "its rho",
}


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `quickstart` says, a line for each machine's newest commit."""
    by_machine: dict[str, list[Row]] = {}
    for row in tables.get("quickstart", ()):
        by_machine.setdefault(row["machine"], []).append(row)
    if not by_machine:
        return []
    lines = [
        f"| machine, commit, repetitions | {' | '.join(COLUMNS.values())} |",
        "|---|" + "---|" * len(COLUMNS),
    ]
    for machine, every in by_machine.items():
        commit = every[-1]["commit"]
        repeats = [row for row in every if row["commit"] == commit]
        cells = [_spread([row[name] for row in repeats]) for name in COLUMNS]
        lines.append(f"| {machine}, {commit}, {len(repeats)} | {' | '.join(cells)} |")
    return [HEAD, "\n".join(lines) + "\n"]


def _spread(cells: Sequence[str]) -> str:
    numbers = [float(cell) for cell in cells if cell]
    if not numbers:
        return "not measured"
    middle, least, greatest = statistics.median(numbers), min(numbers), max(numbers)
    return f"{middle:g}" if least == greatest else f"{middle:g} [{least:g}, {greatest:g}]"
