"""The page's section on breeding: what each way of searching found, over seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hpsearch.population.statistics import interquartile_mean, interval

Row = Mapping[str, str]

HEAD = """## breeding

    python tests/benchmarks/breeding.py --seeds 101 102 103 104 105

The best host that each way found with the mean number of training steps that stands beside it,
on unused starts: rho against choose_first, greedy, interquartile mean over the seeds with
its 95 % interval. Gain is what a way has above plain population-based training, seed by seed: the
interquartile mean of the differences with its 95 % interval, and how many of them are above 0.
Successive halving says by itself how many steps it takes, and a way with fewer seeds is compared
on those alone. Bits differ from machine to machine, and with them what a seed comes to, so rows of
one machine are compared.

In "pbt" ways an operator makes children while members train. In "closing" ways members breed by
clones alone, bit for bit as in plain population-based training, until the steps are used up; then
come four generations of the operator's children, which take no step. "Bred" closes by layers,
averages and distillation together. What a closing costs is measuring: at most 16 children beside
copies of their parents, 1,000 games each, and four matches of eight members, 2,000 games each,
where plain training plays about 620,000 games to measure its trials and members. Those would be of
no use to plain training, whose clones stay what they are. Where it distils, it also makes 500
updates a child, 8,000 at most, beside twice as many as there are steps.
"""
PLAIN = "pbt as published"


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `breeding` says, the newest row of each way and seed, by place."""
    if "breeding" not in tables:
        return []
    places: dict[tuple[str, str], dict[str, dict[str, Row]]] = {}
    for row in tables["breeding"]:
        place = places.setdefault((row["game"], row["machine"]), {})
        place.setdefault(row["way"], {})[row["seed"]] = row
    return [HEAD, *(_table(*place, ways) for place, ways in places.items())]


def _table(game: str, machine: str, ways: Mapping[str, Mapping[str, Row]]) -> str:
    lines = [
        f"### {game}, on {machine}\n",
        "| way | seeds | steps | rho | interval | gain | interval | above 0 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(way, rows_of_way, ways.get(PLAIN, {})) for way, rows_of_way in ways.items()]
    return "\n".join(lines) + "\n"


def _line(way: str, rows_by_game: Mapping[str, Row], plain: Mapping[str, Row]) -> str:
    steps = round(sum(int(row["steps"]) for row in rows_by_game.values()) / len(rows_by_game))
    value, interval = _mean([float(row["rho"]) for row in rows_by_game.values()], sign="")
    cells = [way, str(len(rows_by_game)), f"{steps:,}", value, interval, "", "", ""]
    shared = sorted(rows_by_game.keys() & plain.keys())
    if shared and way != PLAIN:
        gains = [float(rows_by_game[seed]["rho"]) - float(plain[seed]["rho"]) for seed in shared]
        above = sum(gain > 0 for gain in gains)
        cells[5:] = [*_mean(gains, sign="+"), f"{above} of {len(gains)}"]
    return f"| {' | '.join(cells)} |"


def _mean(values: Sequence[float], sign: str) -> tuple[str, str]:
    """Return the interquartile mean and its bootstrap interval."""
    scores = np.asarray(values)
    drawn = scores[np.random.default_rng(0).integers(len(scores), size=(2000, len(scores)))]
    low, high = interval(interquartile_mean(drawn), confidence=0.95)
    return f"{float(interquartile_mean(scores)):{sign}.4f}", f"[{low:{sign}.4f}, {high:{sign}.4f}]"
