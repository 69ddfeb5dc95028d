"""What a confirmation found out: the best again, on what the search never used."""

from collections.abc import Iterator
from typing import Any

from hpsearch.report.colours import BLUE, ORANGE
from hpsearch.report.page.charts import Chart, axis, chart, intervals
from hpsearch.report.page.html import Html, Section, figure, join, missing, paragraph, table
from hpsearch.report.page.material import Material


def confirmation_section(material: Material) -> Section:
    """Return the section on the confirmation."""
    return Section("confirmation", "Was it luck?", join(_parts(material)))


def _parts(material: Material) -> Iterator[Html]:
    found = material.confirmation
    if isinstance(found, str):
        yield missing(f"Not known: {found}")
        return
    if not material.is_confirmed:
        yield missing("It is out of date: the best are others by now.")
    entries = found["trials"]
    seeds = "" if found["trained_by"] is None else ", trained again on seeds of its own"
    yield paragraph(
        f"The best {len(entries)}{seeds}, on starts that nothing else used, "
        f"{found['games']:,} games each; 95 % intervals."
    )
    header = ("trial", "in the search", "held out", "low", "high", "chance of being best", "seeds")
    yield table(header, [_row(entry) for entry in entries], strong=0)
    yield paragraph(str(found["advice"]))
    yield figure(
        confirmation_chart(entries, found["metric"]),
        "held-out",
        f"{found['metric']}: what the search believed, and what was found on held-out seeds.",
    )


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    numbers = (entry["search"]["value"], entry["mean"], entry["low"], entry["high"])
    chance = "" if entry["chance"] is None else f"{entry['chance']:.0%}"
    shown = ("" if number is None else f"{number:.4f}" for number in numbers)
    return (str(entry["trial"]), *shown, chance, str(len(entry["seeds"])))


def confirmation_chart(entries: list[dict[str, Any]], metric: str) -> Chart:
    """Return what the search believed beside what was found, a row a trial."""
    known = [entry for entry in entries if entry["low"] is not None]
    believed = [entry for entry in entries if entry["search"]["value"] is not None]
    held_out = {
        "type": "scatter",
        "mode": "markers",
        "name": "held out",
        "x": [entry["mean"] for entry in known],
        "y": [f"trial {entry['trial']}" for entry in known],
        "error_x": intervals(
            [entry["mean"] for entry in known],
            [entry["low"] for entry in known],
            [entry["high"] for entry in known],
        ),
        "marker": {"color": BLUE, "symbol": "circle", "size": 9},
    }
    search = {
        "type": "scatter",
        "mode": "markers",
        "name": "in the search",
        "x": [entry["search"]["value"] for entry in believed],
        "y": [f"trial {entry['trial']}" for entry in believed],
        "marker": {"color": ORANGE, "symbol": "diamond-open", "size": 9},
    }
    order = [f"trial {entry['trial']}" for entry in entries][::-1]
    return chart(
        [held_out, search],
        {
            "height": 130 + 30 * len(entries),
            "xaxis": axis(metric, {}),
            "yaxis": axis("", {"categoryorder": "array", "categoryarray": order}),
        },
    )
