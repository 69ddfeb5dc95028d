"""The page's section on threads: how far the rule is from the best choice, alone and beside."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]

HEAD = """## threads

    python tests/benchmarks/threads.py --repeats 5

Steps a second, in the median of the repetitions (of one or two until 1746a7c2, of which the best
counts), of one trainer alone / the mean of two equal ones beside each other, each with one thread
or with as many as there are cores, which sleep while they wait or first spin so many times
(GOMP_SPINCOUNT). **Bold** is what a job does where no number is asked for: at most one thread for
each 4 million multiplications of the largest matrix product of an update (`useful_threads`), which
spin 10,000 times, and fewer while other programs need the cores (`TrainingThreads`). The last
columns say how fast that is as a share of the fastest, alone and beside. Load is that of other
users too: the processes were measured with a higher priority than theirs.
"""


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `threads` says, a table for each machine's newest commit."""
    newest = {row["machine"]: row for row in tables.get("threads", ())}
    parts = [_part(last, tables["threads"]) for last in newest.values()]
    return [HEAD, *parts] if parts else []


def _part(last: Row, table: Sequence[Row]) -> str:
    same = ("machine", "commit", "date")
    cases: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in table:
        if all(row[name] == last[name] for name in same):
            case = (row["case"], row["net_arch"], row["batch"], row["members"])
            cases.setdefault(case, {})[row["contender"]] = row
    ordered = sorted(cases.items(), key=lambda item: int(next(iter(item[1].values()))["product"]))
    names = list(ordered[0][1])
    header = ["trainer", "net_arch", "batch", "members", "product", *names, "alone", "beside"]
    lines = [[*case, *_cells(runs)] for case, runs in ordered]
    shares = {
        how: statistics.median(_share(runs, how) for _, runs in ordered)
        for how in ("alone", "beside")
    }
    rows = [header, ["---"] * len(header), *lines]
    drawn = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    said = ", ".join(f"{share:.0%} {how}" for how, share in shares.items())
    where = ", ".join(last[name] for name in same)
    return (
        f"### {where}, load {last['load']}\n\n{drawn}\n\n"
        f"In the median case the choice is as fast as {said} of the best one.\n"
    )


def _cells(runs: Mapping[str, Row]) -> list[str]:
    chosen = next(iter(runs.values()))["chosen"]
    marks = {name: "**" if name == chosen else "" for name in runs}
    speeds = [f"{marks[n]}{row['alone']} / {row['beside']}{marks[n]}" for n, row in runs.items()]
    product = f"{int(next(iter(runs.values()))['product']) / 1e6:.0f} M"
    return [product, *speeds, *(f"{_share(runs, how):.0%}" for how in ("alone", "beside"))]


def _share(runs: Mapping[str, Row], how: str) -> float:
    """Return the speed of what is chosen, as a share of the fastest."""
    chosen = next(iter(runs.values()))["chosen"]
    return float(runs[chosen][how]) / max(float(row[how]) for row in runs.values())
