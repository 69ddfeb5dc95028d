"""The page's section on ranks: what was measured here, and what follows on paper for A100s."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]

HEAD = """## ranks

    python tests/benchmarks/ranks.py --repeats 3

The shipped DQN and PPO, one member and eight, one thread a rank: steps a second of a trainer that
knows of no job, of one rank, and of two ranks on gloo, which share out the same games and batches;
by how much faster than the trainer alone, median and quartiles; and what a step sends to the
others. Goal: one rank costs at most 1 %.
"""
PAPER = """On paper, a step's communication on A100s, in microseconds: its calls, each with 20 of
latency within a node and 10 more for each doubling of nodes, and its bytes in a ring all-reduce,
2 (G - 1) / G of them over the slowest link: 300 GB/s a GPU and direction within a node (NVLink 3),
25 GB/s a GPU between nodes (HDR InfiniBand, one adapter a GPU). These are assumptions, not
measurements; calls are counted one after another, and none is hidden behind computing. Games and
batches are those of one GPU, shared out: whether there are enough for so many is another question.
"""
GPUS = (8, 64, 512)
GPUS_A_NODE = 8
WITHIN, BETWEEN = 300e9, 25e9
"""bytes a second of a GPU"""
LATENCY, MORE_LATENCY = 20.0, 10.0
"""microseconds of a call within a node, and more for each doubling of nodes"""


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `ranks` says of each machine's newest commit."""
    newest = {
        (row["machine"], row["case"], row["members"], row["contender"]): row
        for row in tables.get("ranks", ())
    }
    if not newest:
        return []
    every = list(newest.values())
    measured = [
        "| machine, commit | trainer | members | | steps/s | times alone | calls | kB a step |",
        "|---|---|---|---|---|---|---|---|",
        *map(_measured_line, every),
    ]
    paper = [
        f"| trainer | members | {' | '.join(f'{gpus} GPUs' for gpus in GPUS)} |",
        f"|---|---|{'---|' * len(GPUS)}",
        *(_paper_line(row) for row in every if int(row["bytes_a_step"])),
    ]
    return [HEAD, "\n".join(measured) + "\n", PAPER, "\n".join(paper) + "\n"]


def _measured_line(row: Row) -> str:
    times = f"{row['times_alone']} [{row['low']}, {row['high']}]"
    kilobytes = f"{int(row['bytes_a_step']) / 1e3:.1f}"
    cells = (row["case"], row["members"], row["contender"], row["steps_per_second"], times)
    where = f"{row['machine']}, {row['commit']}"
    return f"| {where} | {' | '.join(cells)} | {row['calls_a_step']} | {kilobytes} |"


def _paper_line(row: Row) -> str:
    calls, size = int(row["calls_a_step"]), int(row["bytes_a_step"])
    cells = [f"{communication(calls, size, gpus):.0f}" for gpus in GPUS]
    return f"| {row['case']} | {row['members']} | {' | '.join(cells)} |"


def communication(calls: int, size: int, gpus: int) -> float:
    """Return the microseconds of ``calls`` with ``size`` bytes in all, by the assumptions above."""
    nodes = max(1, gpus // GPUS_A_NODE)
    bandwidth = WITHIN if nodes == 1 else BETWEEN
    latency = LATENCY + MORE_LATENCY * math.log2(nodes)
    return calls * latency + 2 * (gpus - 1) / gpus * size / bandwidth * 1e6
