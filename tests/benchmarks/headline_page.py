"""The page's section on the headline: how long until a search has found a strong host."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import plots

Row = Mapping[str, str]

HEAD = """## time to a strong host

    python tests/benchmarks/headline.py --seeds 1 2 3 4 5 --times 11 --limit 1700 \\
        --ways hpsearch "seed as published" "ours, one member"

Seconds from the command until a host's rho against choose_first first reached a level, on 20 points
in 3 dimensions: the median over the seeds, with the least and the greatest. All ways search the
four parameters of studies/choose_first.yaml with TPE, from nothing, on all cores, for up to 1,000
trials, and measure hosts every 200 steps by the same 2,000 games. By hand is an Optuna study in
SQLite with a worker for each core and a process a trial.
A way was stopped after 11 times the seconds that hpsearch had taken to the last level with the same
seed: "> 511" means that with the median seed it was not found within so many seconds. The last
column is the median over the seeds of how many times hpsearch's own seconds a way took, by level.
"""
WAYS = {
    "seed as published": "by hand, the seed's trainer as published",
    "seed, our settings": "by hand, the seed's trainer, settings of choose_first.yaml",
    "ours, one member": "by hand, `hpsearch train`",
    "hpsearch": "`hpsearch run`",
}
OURS = "hpsearch"


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `headline` says, a part for each machine."""
    by_machine: dict[str, list[Row]] = {}
    for row in tables.get("headline", ()):
        by_machine.setdefault(row["machine"], []).append(row)
    parts = [HEAD] if by_machine else []
    for machine, rows in by_machine.items():
        commits = ", ".join(dict.fromkeys(row["commit"] for row in rows))
        parts += [f"{machine}, commit {commits}.\n", table(rows)]
    path = folder / "headline.png"
    if by_machine and plots.save(_draw, list(by_machine.values())[-1], path):
        parts.append(f"![seconds until a strong host]({path.name})\n")
    return parts


def table(rows: Sequence[Row]) -> str:
    """Return the seconds of each way, level by level, and how many times ours is sooner."""
    levels = sorted({float(row["rho"]) for row in rows})
    header = ["way", "seeds", *(f"rho {level:g}" for level in levels), "times ours"]
    lines = [header, ["---"] * len(header)]
    for way, name in WAYS.items():
        own = [row for row in rows if row["way"] == way]
        if not own:
            continue
        cells = [_spread(own, way, level) for level in levels]
        ratios = filter(None, (_times(rows, way, level) for level in levels))
        times = "" if way == OURS else ", ".join(ratios)
        lines.append([name, str(len({row["seed"] for row in own})), *cells, times])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


class Seconds(NamedTuple):
    """How long a way took with one seed; the order is that of the seconds known."""

    at_least: float
    is_found: bool  # else it was stopped then

    def __str__(self) -> str:
        return f"{'' if self.is_found else '> '}{self.at_least:.0f}"


def seconds_of(rows: Sequence[Row], way: str, level: float) -> dict[str, Seconds]:
    """Return by seed the newest seconds until a level."""
    own = [row for row in rows if row["way"] == way and float(row["rho"]) == level]
    return {
        row["seed"]: Seconds(float(row["seconds"] or row["limit_seconds"]), bool(row["seconds"]))
        for row in own
    }


def _times(rows: Sequence[Row], way: str, level: float) -> str:
    """Return how many times ours a way took, the median over seeds; empty where ours is unknown."""
    ours, theirs = seconds_of(rows, OURS, level), seconds_of(rows, way, level)
    ratios = [
        Seconds(theirs[seed].at_least / own.at_least, theirs[seed].is_found)
        for seed, own in ours.items()
        if own.is_found and seed in theirs
    ]
    if not ratios:
        return ""
    middle = statistics.median_high(ratios)
    return f"{'' if middle.is_found else '> '}{middle.at_least:.1f}"


def _spread(rows: Sequence[Row], way: str, level: float) -> str:
    every = sorted(seconds_of(rows, way, level).values())
    middle = statistics.median_high(every)
    if every[0] == every[-1]:
        return str(middle)
    return f"{middle} [{every[0]}, {every[-1]}]"


def _draw(axes: Any, rows: Sequence[Row]) -> None:
    """Draw each seed as a point, hollow where the limit came first."""
    levels = sorted({float(row["rho"]) for row in rows})
    places, names = [], []
    for way, name in WAYS.items():
        for level in levels:
            every = seconds_of(rows, way, level).values()
            if not every:
                continue
            place = len(places)
            found = [each.at_least for each in every if each.is_found]
            late = [each.at_least for each in every if not each.is_found]
            axes.scatter(found, [place] * len(found), color="tab:blue" if way == OURS else "grey")
            axes.scatter(late, [place] * len(late), facecolors="none", edgecolors="grey")
            places.append(place)
            names.append(f"{name.replace('`', '')}, rho {level:g}")
    axes.set_yticks(places, names)
    axes.set(xscale="log", xlabel="seconds; hollow: not found until then")
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
