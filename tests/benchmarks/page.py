"""The page of all measurements: tables and plots of the newest rows of each kind.

python tests/benchmarks/page.py FOLDER
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import actors_page
import breeding_page
import curve_page
import driver_page
import headline_page
import pairs_page
import plots
import programs_page
import quickstart_page
import ranks_page
import rows
import threads_page

Row = dict[str, str]

OWN_PAGES = (
    "learning_curves",
    "breeding",
    "pairs",
    "quickstart",
    "ranks",
    "actors",
    "gpu_programs",
    "threads",
    "headline",
)
"""tables whose sections are pages of their own, in which no row replaces another"""
TIMED = (
    "step",
    "rollout",
    "learner",
    "dqn",
    "ppo",
    "population",
    "crossplay",
    "start_up",
    "ask",
    "looks",
)
HEAD = """# Benchmarks

```
make bench          # on this machine, under ten minutes on two cores with nothing else to do
```

Every row in the tables beside this page says when, on what machine, with which versions and from
which commit it was measured; this page shows the newest row of each kind. It is written by
tests/benchmarks/page.py.

Contenders take turns (A B C, then C B A) in one process, learners each in one of its own, with as
many threads each, and do the same work: the same games, networks, batches and number of updates,
except that ours are double Q-learning, a pass more than the seed's, unless they say so. A ratio is
taken within each repetition; shown are its median and quartiles. `load` is the number of processes
that wanted to compute, ours included; processor time is what all threads used, whatever else ran.

- **seed as published** is the step of hironaka.trainer: float positions, pairs of points repeated
  in memory, a matrix for every point, Python's `all` over a tensor. As a learner it is an update of
  its DQNTrainer alone (seed_dqn.py), which took between 0.98 and 1.02 times as long as that
  trainer's own `_fit_network`, run beside it from a checkout, with equal values of equal weights.
  Learners of ours keep what the target network says of the positions in memory until it moves,
  every 1,600 updates here. Double Q-learning makes one pass more than the seed, of the next
  positions through the learning network, and misses the goal of 1.5 in most rows. DQN without it
  and PPO reach the goal on a processor without AVX-512 in 51 of the 54 rows of commits 061d42d7,
  3cd58fa0 and 2bda6035, which are of 1, 2 and 4 members on one thread and on two: 1.52 to 2.33
  times the baseline, in five of them with a lower quartile below 1.5. The other three rows, of
  3cd58fa0 and residual networks on two threads, say 1.39 to 1.44; at 2bda6035 the same cases have
  1.64 to 1.88, because that time the baseline was slower. On a processor with AVX-512
  35 of the 36 rows of 167640ef and 9c3ad773 reach it with 1.53 to 2.00; the other one, of 167640ef
  and residual networks of two members on two threads, says 1.48.
  Rows name a processor's widest instructions since commit 82aa661d; which EPYC older ones are of,
  they do not say.
  Since commit 07cf8165 the threads of ours spin as a job's do before they sleep, 10,000 times.
- **plain eager** is the same algorithm, or the same update, as one writes it in torch, without
  these. tests/benchmarks/test_seed_game.py and test_plain_trainers.py hold both to our results.
- **one by one** are trainers of one member each, **together** is one trainer of them all.
- **memory floor** reads and writes the positions once.
"""

SHARES = """\
Networks are the products of matrices, activations and norms. At 256 wide they take about two thirds
of a step, with 80 % as the goal. Both they and all else have become quicker: beside 4b7f7bbb, in
turns and each twice, at 2bda6035 a DQN's step spends 4.5 ms in networks instead of 13.2 and 2.5 ms
outside instead of 4.7, PPO's 39 ms instead of 110 and 18.8 ms instead of 56. If only what is
outside had become quicker, networks would take 84 % and 85 %. What is left is spread over many
parts, as the table says, and the members of a job share most of it: with eight of 256 wide in a
job, as in the shipped studies for an A100, networks take 87 % of a step for DQN and for PPO
(6f30a701)."""


def write(folder: Path) -> None:
    """Write README.md and the plots of the tables in ``folder``."""
    every = {path.stem: rows.read(path) for path in sorted(folder.glob("*.csv"))}
    tables = {name: newest(table) for name, table in every.items() if "device" in table[0]}
    for own in OWN_PAGES:
        tables.pop(own, None)
    sections = [HEAD, *(_timed(tables[name]) for name in TIMED if name in tables)]
    if "memory" in tables:
        sections.append(_memory(tables["memory"]))
    if "shares" in tables:
        sections.append(_shares(tables["shares"]))
    if not any(row["device"] == "cuda" for table in tables.values() for row in table):
        sections.append("## GPU\n\nNothing has been measured on a GPU yet.\n")
    sections += [f"![{path.stem}]({path.name})\n" for path in plots.draw(tables, folder)]
    sections += headline_page.sections(every, folder)
    sections += quickstart_page.sections(every, folder)
    sections += curve_page.sections(every, folder)
    sections += breeding_page.sections(every, folder)
    sections += pairs_page.sections(every, folder)
    sections += driver_page.sections(every, folder)
    sections += programs_page.sections(every, folder)
    sections += ranks_page.sections(every, folder)
    sections += actors_page.sections(every, folder)
    sections += threads_page.sections(every, folder)
    (folder / "README.md").write_text("\n".join(sections))


def newest(table: Iterable[Row]) -> list[Row]:
    """Return of rows that measure the same the last one."""
    same = ("machine", "device", "case", "sizes", "contender", "baseline", "members", "part")
    last = {tuple(row.get(name) for name in same): row for row in table}
    return list(last.values())


def _timed(measured: Sequence[Row]) -> str:
    """Return a section with a table for each case."""
    parts = []
    for (case, sizes, device, _), cases in _grouped(measured, "case", "sizes", "device", "machine"):
        baselines = list(dict.fromkeys(row["baseline"] for row in cases))
        unit = cases[0]["unit"]
        header = [case, f"{unit}s a second", "wall time of one", "processor time of one"]
        header += [f"times {name}" for name in baselines]
        lines = [
            [contender, *_speed(own), *(_times(own, baseline) for baseline in baselines)]
            for (contender,), own in _grouped(cases, "contender")
        ]
        goal = f" Goal: {cases[0]['goal']}." if cases[0]["goal"] else ""
        about = f"## {case}, {device}\n\n{sizes}.{goal} {_where(cases)}"
        parts.append(f"{about}\n\n{table(header, lines)}")
    return "\n".join(parts)


def _speed(own: Sequence[Row]) -> tuple[str, str, str]:
    wall, processor = (float(own[0][name]) for name in ("seconds", "processor_seconds"))
    return count(1 / wall), duration(wall), duration(processor)


def _times(own: Sequence[Row], baseline: str) -> str:
    for row in own:
        if row["baseline"] == baseline and row["contender"] != baseline:
            low, high = float(row["times_q1"]), float(row["times_q3"])
            return f"{float(row['times_faster']):.3g} [{low:.3g}, {high:.3g}]"
    return "1"


def _memory(measured: Sequence[Row]) -> str:
    """Return a section with the memory of populations."""
    header = ["memory", "device", "contender", "members", "MB", "MB a member"]
    columns = ("case", "device", "contender", "members", "megabytes", "megabytes_a_member")
    lines = [[row[name] for name in columns] for row in measured]
    about = "The most that a process held, without what it holds after its imports."
    return f"## memory\n\n{about} {_where(measured)}\n\n{table(header, lines)}"


def _shares(measured: Sequence[Row]) -> str:
    """Return a section with the shares of a step, largest first."""
    header = ["step of", "members", "a step", "shares"]
    lines = []
    for (case, _, members, _), group in _grouped(measured, "case", "sizes", "members", "machine"):
        own = sorted(group, key=lambda row: -float(row["share"]))
        seconds = sum(float(row["seconds_a_step"]) for row in own)
        parts = ", ".join(f"{row['part']} {float(row['share']):.0%}" for row in own)
        lines.append([case, members, duration(seconds), parts])
    return f"## where the time goes\n\n{_where(measured)}\n\n{SHARES}\n\n{table(header, lines)}"


def _where(measured: Sequence[Row]) -> str:
    """Return on what and when rows were measured."""
    places = []
    columns = ("machine", "versions", "threads", "commit", "date")
    for (machine, versions, threads, commit, date), own in _grouped(measured, *columns):
        loads = sorted({row["load"] for row in own}, key=float)
        load = " to ".join(dict.fromkeys((loads[0], loads[-1])))
        places.append(
            f"{machine}, {versions}, {threads} threads, load {load}, commit {commit}, {date}"
        )
    return f"Measured on {'; '.join(places)}."


def _grouped(entries: Iterable[Row], *names: str) -> Iterable[tuple[tuple[str, ...], list[Row]]]:
    """Group rows by some columns, groups in the order of their first rows."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in entries:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups.items()


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    ruled = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled) + "\n"


def duration(seconds: float) -> str:
    """Return a time with its unit."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def count(number: float) -> str:
    """Return a number in thousands or millions where it is large."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
