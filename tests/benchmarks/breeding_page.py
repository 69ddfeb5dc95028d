"""The page's section on breeding: what each way of searching found, over seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hpsearch.population.comparing.interquartile_mean import interquartile_mean_interval

Row = Mapping[str, str]

HEAD = """## breeding

    python tests/benchmarks/breeding.py --seeds 101 102 103 104 105

The best host that each way found with the mean number of training steps that stands beside it,
on starts that nobody used: rho against choose_first, greedy, interquartile mean over the seeds with
its 95 % interval, and how often it is above that of plain population-based training, seed by seed.
Successive halving says by itself how many steps it takes, and a way with fewer seeds is compared
on those alone. Where two ways that breed give the same number, no adopted child of an operator lies
on the line to the champion.

"Sure" ways were measured earlier: they act on sure differences alone, mix weights with anybody of
the shape, adopt children that are not surely weaker, and distil with 50 updates.
"""
PLAIN = "pbt as published"


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `breeding` says, the newest row of each game, way and seed."""
    if "breeding" not in tables:
        return []
    games: dict[str, dict[str, dict[str, Row]]] = {}
    for row in tables["breeding"]:
        games.setdefault(row["game"], {}).setdefault(row["way"], {})[row["seed"]] = row
    return [HEAD, *(_table(game, ways) for game, ways in games.items())]


def _table(game: str, ways: Mapping[str, Mapping[str, Row]]) -> str:
    lines = [
        f"### {game}\n",
        "| way | seeds | steps | rho | interval | above plain |",
        "|---|---|---|---|---|---|",
    ]
    lines += [_line(way, found, ways.get(PLAIN, {})) for way, found in ways.items()]
    return "\n".join(lines) + "\n"


def _line(way: str, found: Mapping[str, Row], plain: Mapping[str, Row]) -> str:
    rho = [float(row["rho"]) for row in found.values()]
    rng = np.random.default_rng(0)
    mean = interquartile_mean_interval([rho], num_samples=2000, confidence=0.95, rng=rng)
    steps = round(sum(int(row["steps"]) for row in found.values()) / len(found))
    shared = found.keys() & plain.keys()
    above = sum(float(found[seed]["rho"]) > float(plain[seed]["rho"]) for seed in shared)
    against = "" if way == PLAIN or not shared else f"{above} of {len(shared)}"
    interval = f"[{mean.low:.4f}, {mean.high:.4f}]"
    cells = (way, str(len(found)), f"{steps:,}", f"{mean.value:.4f}", interval, against)
    return f"| {' | '.join(cells)} |"
