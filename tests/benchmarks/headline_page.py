"""The page's section on the headline: how long until a search has found a strong host."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plots

Row = Mapping[str, str]

HEAD = """## time to a strong host

    python tests/benchmarks/headline.py --seeds 1 2 3 4 5

Seconds from the command until a host's rho against choose_first first reached a level, on 20 points
in 3 dimensions: the median over the seeds, with the least and the greatest. All ways search the
same four parameters with TPE, from nothing, on all cores, and measure hosts by the same 2,000
games. By hand is an Optuna study in SQLite with a worker for each core and a process a trial.
"> 900" means that it was not found within so many seconds; then the ratio is at least the one that
is shown.
"""
WAYS = {
    "seed as published": "by hand, the seed's trainer as published",
    "seed, our settings": "by hand, the seed's trainer, settings of choose_first.yaml",
    "ours, one member": "by hand, `hpsearch train`",
    "hpsearch": "`hpsearch run studies/choose_first.yaml`",
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
    ours = [_median(rows, OURS, level) for level in levels]
    for way, name in WAYS.items():
        own = [row for row in rows if row["way"] == way]
        if not own:
            continue
        cells = [_spread(own, way, level) for level in levels]
        ratios = [
            f"{'>' if seconds > _limit(own) else ''}{min(seconds, _limit(own)) / our:.1f}"
            for seconds, our in zip((_median(own, way, each) for each in levels), ours, strict=True)
            if our < math.inf
        ]
        times = "" if way == OURS else ", ".join(ratios)
        lines.append([name, str(len({row["seed"] for row in own})), *cells, times])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def seconds_of(rows: Sequence[Row], way: str, level: float) -> list[float]:
    """Return the seconds of each seed, infinity where the limit came first."""
    own = [row for row in rows if row["way"] == way and float(row["rho"]) == level]
    return sorted(float(row["seconds"] or "inf") for row in own)


def _median(rows: Sequence[Row], way: str, level: float) -> float:
    return statistics.median_high(seconds_of(rows, way, level) or [math.inf])


def _limit(rows: Sequence[Row]) -> float:
    return min(float(row["limit_seconds"]) for row in rows)


def _spread(rows: Sequence[Row], way: str, level: float) -> str:
    every, limit = seconds_of(rows, way, level), _limit(rows)
    middle, least, most = statistics.median_high(every), every[0], every[-1]
    shown = [f"> {limit:.0f}" if each > limit else f"{each:.0f}" for each in (middle, least, most)]
    return shown[0] if shown[1] == shown[2] else f"{shown[0]} [{shown[1]}, {shown[2]}]"


def _draw(axes: Any, rows: Sequence[Row]) -> None:
    """Draw each seed as a point, hollow where the limit came first."""
    levels = sorted({float(row["rho"]) for row in rows})
    places, names = [], []
    for way, name in WAYS.items():
        for level in levels:
            every = seconds_of(rows, way, level)
            if not every:
                continue
            place, limit = len(places), _limit([row for row in rows if row["way"] == way])
            found = [each for each in every if each <= limit]
            late = [limit] * (len(every) - len(found))
            axes.scatter(found, [place] * len(found), color="tab:blue" if way == OURS else "grey")
            axes.scatter(late, [place] * len(late), facecolors="none", edgecolors="grey")
            places.append(place)
            names.append(f"{name.replace('`', '')}, rho {level:g}")
    axes.set_yticks(places, names)
    axes.set(xscale="log", xlabel="seconds; hollow: not found until then")
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
