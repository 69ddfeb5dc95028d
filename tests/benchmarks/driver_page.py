"""The page's sections on the driver: how fast it asks, and how busy it keeps a cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]

ASK = """## ask, with trials that run

    python tests/benchmarks/ask_latency.py

What one `ask` takes, all writes included: with the default TPE sampler beside Optuna's own storage
on the same database, and with the others; gp in a study of fewer trials, as its time grows with
their cube.
"""
CLUSTER = """## the driver on a simulated cluster

    python tests/benchmarks/simulated_cluster.py --trials 100000 --gpus 8000 --plot

The real driver and a real database, a scheduler in virtual time, trials of ten minutes. Idle is the
share of unused GPU-seconds, from the moment at which all GPUs were taken; with the ramp it counts
from the first event on. The script says what is real and what is not. On the clock `processor`,
time passes as the driver's processor time does, so that other work on the machine does not count.
What a trial takes of the driver bounds the cluster that it keeps busy: 16,384 GPUs with eight
trials of ten minutes each end 218 trials a second, for which it may take 4.6 ms a trial; of the
first 131,072, which begin together, more end at a time. The goals of such a cluster are at most 2 %
idle, rounds of 30 s, 4 GiB, 60 calls a minute and 1 write a second of 100 members. All are
kept where the study may hold three tenths more jobs than there are GPUs: on SQLite at 8ee5a3cf, and
at 2d2d1699 on PostgreSQL, by the clock on the wall. With a tenth more, 3.6 % of the GPUs are idle
(bce20463) while the first jobs end: as those began together, and each ends with the slowest of its
eight members, more end for a while than the driver replaces. With pilots, as a SLURM study has them
by default, jobs take further trials and keep their GPUs meanwhile; what counts then is the share of
places for trials, eight on each GPU, that are idle. At f3b98dbd there are none with a tenth more
jobs, as the driver gives each pilot its next trials before the last ones end, and the other goals
are kept, too.
"""
ASK_COLUMNS = {
    "storage": "storage",
    "sampler": "sampler",
    "implementation": "by",
    "finished": "finished",
    "running": "running",
    "asks": "asks",
    "mean_s": "mean, s",
    "median_s": "median, s",
    "max_s": "longest, s",
}
CLUSTER_COLUMNS = {
    "sampler": "sampler",
    "trials": "trials",
    "gpus": "GPUs",
    "jobs": "jobs at once",
    "members": "trials a job",
    "versions": "on",
    "poll_s": "s between rounds",
    "clock": "clock",
    "idle": "idle",
    "idle_with_ramp": "with the ramp",
    "pilots": "pilots",
    "places_idle": "idle places",
    "ask_median_ms": "ask, ms",
    "ask_p95_ms": "95 % of asks, ms",
    "driver_ms_a_trial": "driver, ms a trial",
    "calls_a_minute": "calls a minute",
    "calls_a_minute_max": "at most",
    "round_max_s": "longest round, s",
    "writes_a_second_of_100_members": "writes a second of 100 members",
    "peak_gib": "memory, GiB",
    "database_mb": "database, MB",
    "commit": "commit",
    "date": "date",
}


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the tables of `ask_latency` and `simulated_cluster` say, the newest rows."""
    parts = []
    if "ask_latency" in tables:
        rows = newest(tables["ask_latency"], ("storage", "sampler", "implementation"))
        where = f"Measured on {rows[-1]['machine']}, commit {rows[-1]['commit']}.\n"
        parts += [ASK, where, _table(rows, ASK_COLUMNS)]
    if "simulated_cluster" in tables:
        same = ("sampler", "trials", "gpus", "jobs", "members", "versions", "pilots")
        rows = newest(tables["simulated_cluster"], same)
        parts += [CLUSTER, _table(rows, CLUSTER_COLUMNS)]
        if (folder / "simulated_cluster.png").exists():
            parts.append("![GPUs taken and asks](simulated_cluster.png)\n")
    return parts


def newest(rows: Sequence[Row], same: Sequence[str]) -> list[Row]:
    """Return of rows that are alike in some columns the last one."""
    return list({tuple(row[name] for name in same): row for row in rows}.values())


def _table(rows: Sequence[Row], columns: Mapping[str, str]) -> str:
    lines = [list(columns.values()), ["---"] * len(columns)]
    lines += [[row[name] for name in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
