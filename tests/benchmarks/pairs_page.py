"""The page's section on pairs: which players the champion of cross-play beats, over seeds."""

from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]

HEAD = """## pairs

    python tests/benchmarks/pairs.py --seeds 303 304

studies/population_pairs.yaml, which breeds eight pairs of a host and an agent; its champion against
the pair with which each member ended its training, 10,000 unused starts, all greedy. A
member's host H and its agent A have trained against each other, so each is the other's hardest
opponent. The champion's host beats H where it is the stronger one *against A*, its agent beats A
where it is the stronger one against H, and the champion beats the pair where its host against A
shortens games more than H does against its agent. Gains are differences of log rho: mean over the
members with the least and the greatest; "surely" is with a 95 % interval above 0. Members whose
player the champion has itself gain 0 and are not counted.
"""
GAINS = {"host": "its host beats", "agent": "its agent beats", "both": "as a pair it beats"}


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `pairs` says, the newest rows of each seed, by machine."""
    if "pairs" not in tables:
        return []
    places: dict[str, dict[tuple[str, str], Row]] = {}
    for row in tables["pairs"]:
        places.setdefault(row["machine"], {})[row["seed"], row["member"]] = row
    return [HEAD, *(_table(machine, list(members.values())) for machine, members in places.items())]


def _table(machine: str, members: Sequence[Row]) -> str:
    lines = [
        f"### on {machine}\n",
        "| seed | " + " | ".join(f"{name} | gain" for name in GAINS.values()) + " |",
        "|---|" + "---|---|" * len(GAINS),
    ]
    for seed in dict.fromkeys(row["seed"] for row in members):
        own = [row for row in members if row["seed"] == seed]
        cells = [cell for gain in GAINS for cell in _cells(gain, own)]
        lines.append(f"| {' | '.join([seed, *cells])} |")
    return "\n".join(lines) + "\n"


def _cells(gain: str, members: Sequence[Row]) -> tuple[str, str]:
    """Return how many members are beaten, and by how much."""
    ends = [[float(row[f"{gain}_{end}"]) for end in ("gain", "low", "high")] for row in members]
    others = [end for end in ends if any(end)]
    if not others:
        return "no other", ""
    gains = [value for value, _, _ in others]
    above = sum(value > 0 for value in gains)
    surely = sum(low > 0 for _, low, _ in others)
    mean = sum(gains) / len(gains)
    return (
        f"{above} of {len(others)}, {surely} surely",
        f"{mean:+.3f} [{min(gains):+.3f}, {max(gains):+.3f}]",
    )
