"""The page's section on threads: how far the rule is from the best choice, alone and beside."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]
Runs = dict[str, list[Row]]
"""of a case: by contender, a row for each repetition, in their order"""

HEAD = """## threads

    python tests/benchmarks/threads.py --repeats 5

Steps a second, in the median of the repetitions (of one or two until 1746a7c2, of which the best
counts), of one trainer alone / the mean of two equal ones beside each other, each with one thread
or with as many as there are cores, which sleep while they wait or first spin so many times
(GOMP_SPINCOUNT). **Bold** is what a job does where no number is asked for: at most one thread for
each 4 million multiplications of the largest matrix product of an update (`useful_threads`), which
spin 10,000 times, and fewer while other programs need the cores (`TrainingThreads`). The last
columns compare it with the best other choice, alone and beside: in each repetition a job's speed is
divided by that of the choice which is fastest in the median of the remaining repetitions, as the
fastest in the same one is partly lucky, and the median of these ratios is shown. Of five
repetitions it is rough: above 100 % a job need not be faster. A job trains for 2 s before its steps
count, to notice what else runs, all others for 0.5 s. Up to 2b528b2b a choice has one row for all
repetitions, and the job's is divided by the fastest, which may be its own. Load is that of other
users too: the processes were measured with a higher priority than theirs.
"""


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `threads` says, a table for each machine's newest commit."""
    newest = {row["machine"]: row for row in tables.get("threads", ())}
    parts = [_part(last, tables["threads"]) for last in newest.values()]
    return [HEAD, *parts] if parts else []


def _part(last: Row, table: Sequence[Row]) -> str:
    same = ("machine", "commit", "date")
    cases: dict[tuple[str, ...], Runs] = {}
    for row in table:
        if all(row[name] == last[name] for name in same):
            case = (row["case"], row["net_arch"], row["batch"], row["members"])
            runs = cases.setdefault(case, {})
            if _is_later(row):
                runs[row["contender"]].append(row)
            else:  # measured again, if there are some
                runs[row["contender"]] = [row]
    ordered = sorted(cases.items(), key=lambda item: int(_first(item[1])["product"]))
    names = list(ordered[0][1])
    header = ["trainer", "net_arch", "batch", "members", "product", *names, "alone", "beside"]
    lines = [[*case, *_cells(runs)] for case, runs in ordered]
    shares = {
        how: statistics.median(share_of_best(runs, how) for _, runs in ordered)
        for how in ("alone", "beside")
    }
    rows = [header, ["---"] * len(header), *lines]
    drawn = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    said = ", ".join(f"{share:.0%} {how}" for how, share in shares.items())
    where = ", ".join(last[name] for name in same)
    return (
        f"### {where}, load {last['load']}\n\n{drawn}\n\n"
        f"In the median case a job has {said} of the best choice's speed.\n"
    )


def _cells(runs: Runs) -> list[str]:
    speeds = []
    for name, own in runs.items():
        mark = "**" if name == own[0]["chosen"] else ""
        alone, beside = _speed(own, "alone"), _speed(own, "beside")
        speeds.append(f"{mark}{alone:.4g} / {beside:.4g}{mark}")
    product = f"{int(_first(runs)['product']) / 1e6:.0f} M"
    return [product, *speeds, *(f"{share_of_best(runs, how):.0%}" for how in ("alone", "beside"))]


def share_of_best(runs: Runs, how: str) -> float:
    """Return the speed of what is chosen, as a share of the best other choice.

    The best in a repetition is the one that is fastest in the median of all others, and the share
    is the median of the repetitions. Of a single one it is the share of the fastest.
    """
    chosen = _first(runs)["chosen"]
    if len(runs[chosen]) == 1:
        return _speed(runs[chosen], how) / max(_speed(own, how) for own in runs.values())
    others = [name for name in runs if name != chosen]
    shares = []
    for n, row in enumerate(runs[chosen]):
        speeds = {name: _speed([*runs[name][:n], *runs[name][n + 1 :]], how) for name in others}
        best = max(others, key=speeds.__getitem__)
        shares.append(float(row[how]) / float(runs[best][n][how]))
    return statistics.median(shares)


def _speed(rows: Sequence[Row], how: str) -> float:
    return statistics.median(float(row[how]) for row in rows)


def _is_later(row: Row) -> bool:
    """Return whether a row is of a later repetition; those of older tables are of all at once."""
    number, _, total = row["repeats"].partition(" of ")
    return total != "" and number != "1"


def _first(runs: Runs) -> Row:
    return next(iter(runs.values()))[0]
