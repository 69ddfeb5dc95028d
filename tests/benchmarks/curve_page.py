"""The page's section on learning curves: what a commit learned beside what others did."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plots

Row = Mapping[str, str]

HEAD = """## learning curves

    python tests/benchmarks/learning_curves.py

The same configurations and seeds at different commits: what makes training faster must not make it
otherwise. rho against choose_first, mean over the seeds and its 95 % interval, greedy.
"""


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table of `learning_curves` says: the last point of each curve, and a plot."""
    if "learning_curves" not in tables:
        return []
    curves = by_curve(tables["learning_curves"])
    lines = ["| algorithm | commit | steps | seeds | rho | interval |", "|---|---|---|---|---|---|"]
    for (name, commit), rows in curves.items():
        last = rows[-1]
        interval = f"[{float(last['low']):.4f}, {float(last['high']):.4f}]"
        cells = (name, commit, last["step"], last["seeds"], f"{float(last['rho']):.4f}", interval)
        lines.append(f"| {' | '.join(cells)} |")
    path = folder / "learning_curves.png"
    drawn = plots.save(_draw, curves, path)
    picture = [f"![learning curves]({path.name})\n"] if drawn else []
    return [HEAD, "\n".join(lines) + "\n", *picture]


def by_curve(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of each algorithm and commit by step, the newest of each step."""
    curves: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        curves.setdefault((row["curve"], row["commit"]), {})[int(row["step"])] = row
    return {key: [rows[step] for step in sorted(rows)] for key, rows in sorted(curves.items())}


def _draw(axes: Any, curves: Mapping[tuple[str, str], Sequence[Row]]) -> None:
    for (name, commit), rows in curves.items():
        last = int(rows[-1]["step"])
        share = [int(row["step"]) / last for row in rows]
        numbers = {key: [float(row[key]) for row in rows] for key in ("rho", "low", "high")}
        axes.plot(share, numbers["rho"], label=f"{name}, {commit}")
        axes.fill_between(share, numbers["low"], numbers["high"], alpha=0.2)
    axes.set(xlabel="share of the steps", ylabel="rho against choose_first", xlim=(0, 1))
    axes.legend()
