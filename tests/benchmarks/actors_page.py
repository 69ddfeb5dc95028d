"""The page's section on actors: inline against actors at equal wall time, over seeds."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Row = Mapping[str, str]
Runs = Mapping[str, Sequence[Row]]  # of each contender, in the order of their seeds

HEAD = """## actors

    python tests/benchmarks/actors.py --seconds 10 --repeats 3

The shipped DQN and PPO at 20 points in 3 dimensions, with constant rates, one member: played and
learned by one process (inline), or by a learner of one thread beside actors of one thread, who get
newer weights every 2 steps, at most 4 steps old. All train for the same seconds, after which rho
against choose_first is measured, greedy. The contenders are laid out for two CPU cores: a learner
and two actors have to share these, and other machines may order them otherwise. The machine's name
ends with its number of cores.

Mean and standard error over seeds: steps a second; by how much more than the inline contender that
is faster on average, seed by seed; moves of games learned from in a second. Then the shares of time
in which the learner learned, an actor played, and both did, waiting for a core included; the age in
steps of the weights that played; and how many rollouts a run dropped, too old to learn from.
"""
HEADER = (
    "| | steps/s | times inline | moves/s | learns | plays | both | age, mean | greatest "
    "| dropped | rho |\n" + "|---" * 11 + "|"
)
PARTS = ("learns", "plays", "both")
INLINE = "inline"  # how the names of contenders without actors begin


def sections(tables: Mapping[str, Sequence[Row]], folder: Path) -> list[str]:
    """Return what the table `actors` says of each machine's newest commit."""
    newest: dict[tuple[str, str], Row] = {}
    for row in tables.get("actors", ()):
        newest[row["machine"], row["case"]] = row
    parts = [_part(last, tables["actors"]) for last in newest.values()]
    return [HEAD, *parts] if parts else []


def _part(last: Row, table: Sequence[Row]) -> str:
    """Return what was measured of one trainer together with the ``last`` row of it."""
    same = ("machine", "case", "commit", "seconds")
    runs: dict[str, dict[int, Row]] = {}
    for row in table:
        if all(row[name] == last[name] for name in same):
            runs.setdefault(row["contender"], {})[int(row["seed"])] = row
    ordered = {name: [own[seed] for seed in sorted(own)] for name, own in runs.items()}
    # Only what has run with all seeds is compared, seed by seed.
    most = max(len(own) for own in ordered.values())
    whole = {name: own for name, own in ordered.items() if len(own) == most}
    inline = [name for name in whole if name.startswith(INLINE)]
    base = max(inline, key=lambda name: _mean(whole[name], "steps_per_second"), default=None)
    title = f"### {last['case']}, {last['seconds']} s, {most} seeds, on {last['machine']}"
    lines = [_line(name, own, whole[base] if base else ()) for name, own in whole.items()]
    said = f"\n{_verdict(whole, base)}\n" if base else ""
    return f"{title}, {last['commit']}\n\n{HEADER}\n" + "\n".join(lines) + "\n" + said


def _line(name: str, own: Sequence[Row], base: Sequence[Row]) -> str:
    times = [_speed(row) / _speed(other) for row, other in zip(own, base, strict=bool(base))]
    cells = [
        name,
        spread([_speed(row) for row in own]),
        spread(times) if times else "",
        spread([float(row["moves_per_second"]) for row in own]),
        *(f"{_mean(own, part):.0%}" if own[0][part] else "" for part in PARTS),
        f"{_mean(own, 'age'):.1f}" if own[0]["age"] else "",
        str(max(int(row["greatest_age"]) for row in own)) if own[0]["age"] else "",
        f"{_mean(own, 'dropped'):.0f}" if own[0]["dropped"] else "",
        spread([float(row["rho"]) for row in own]),
    ]
    return f"| {' | '.join(cells)} |"


def _verdict(runs: Runs, base: str) -> str:
    """Return how many contenders with actors surpass the faster one without."""
    others = [own for name, own in runs.items() if not name.startswith(INLINE)]
    surely = {
        what: sum(is_surely_more(own, runs[base], number) for own in others)
        for what, number in (("steps a second", _speed), ("rho", lambda row: float(row["rho"])))
    }
    less = sum(is_surely_more(runs[base], own, _speed) for own in others)
    return (
        f"Of {len(others)} contenders with actors {surely['steps a second']} made more steps a "
        f"second than {base}, {less} fewer, and {surely['rho']} came to a higher rho: by more than "
        "two standard errors of the differences by seed."
    )


def is_surely_more(
    own: Sequence[Row], other: Sequence[Row], number: Callable[[Row], float]
) -> bool:
    """Return whether one is above the other by more than two standard errors, seed by seed."""
    gains = [number(row) - number(rival) for row, rival in zip(own, other, strict=True)]
    return len(gains) > 1 and statistics.mean(gains) > 2 * _error(gains)


def spread(numbers: Sequence[float]) -> str:
    """Return a mean and its standard error; of one number it alone."""
    if len(numbers) < 2:
        return _plain(numbers[0])
    return f"{_plain(statistics.mean(numbers))} ± {_plain(_error(numbers))}"


def _plain(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _error(numbers: Sequence[float]) -> float:
    return statistics.stdev(numbers) / len(numbers) ** 0.5


def _mean(own: Sequence[Row], name: str) -> float:
    return statistics.mean(float(row[name]) for row in own)


def _speed(row: Row) -> float:
    return float(row["steps_per_second"])
