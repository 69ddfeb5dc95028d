"""Plots of the newest rows, where matplotlib is installed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, str]


def draw(tables: Mapping[str, Sequence[Row]], folder: Path) -> Iterator[Path]:
    """Draw what the tables hold; return the pictures."""
    for name, plot in PLOTS.items():
        path = folder / f"{name}.png"
        if name in tables and save(plot, tables[name], path):
            yield path


def save(plot: Callable[[Any, Any], None], content: Any, path: Path) -> bool:
    """Draw ``found`` into a file; return whether matplotlib is there to do it."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    plot(axes, content)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True


def step(axes: Any, steps: Sequence[Row]) -> None:
    """Draw game-steps a second."""
    first = steps[0]["baseline"]
    own = [row for row in steps if row["baseline"] == first]
    names = [f"{row['contender']}, {row['device']}" for row in own]
    rates = [1 / float(row["seconds"]) for row in own]
    axes.barh(names, rates)
    for place, row in enumerate(own):
        axes.text(rates[place], place, f" {float(row['times_faster']):.3g} x", va="center")
    axes.set(xscale="log", xlabel="game-steps a second", title="one move of every game")
    axes.invert_yaxis()
    axes.margins(x=0.15)


def population(axes: Any, measured: Sequence[Row]) -> None:
    """Draw how much faster members train together than one by one."""
    lines: dict[str, list[tuple[int, float, float, float]]] = {}
    for row in measured:
        if row["contender"] == "together":
            case, _, size = row["case"].partition(" population of ")
            name = f"{case} against {row['baseline']}, {row['device']}"
            numbers = [float(row[key]) for key in ("times_faster", "times_q1", "times_q3")]
            lines.setdefault(name, []).append((int(size), *numbers))
    for name, points in lines.items():
        sizes, times, low, high = zip(*sorted(points), strict=True)
        axes.plot(sizes, times, marker="o", label=name)
        axes.fill_between(sizes, low, high, alpha=0.2)
    axes.set_xscale("log", base=2)
    shown = sorted({size for points in lines.values() for size, *_ in points})
    axes.set_xticks(shown, [str(size) for size in shown])
    axes.set(xlabel="members", ylabel="times faster", title="a population trained together")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.legend()


def shares(axes: Any, parts: Sequence[Row]) -> None:
    """Draw what parts of a step take."""
    cases = list(dict.fromkeys((row["case"], row["members"], row["device"]) for row in parts))
    names = [f"{case}, {members} members, {device}" for case, members, device in cases]
    left = [0.0] * len(cases)
    for part in dict.fromkeys(row["part"] for row in parts):
        widths = [
            sum(
                float(row["share"])
                for row in parts
                if (row["case"], row["members"], row["device"]) == case and row["part"] == part
            )
            for case in cases
        ]
        axes.barh(names, widths, left=left, label=part)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set(xlabel="share of a training step", xlim=(0, 1))
    axes.invert_yaxis()
    axes.legend(bbox_to_anchor=(1.0, 1.0), loc="upper left")


PLOTS = {"step": step, "population": population, "shares": shares}
