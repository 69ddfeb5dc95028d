"""A confirmation as text for people: a table, and one sentence that says what to do."""

from collections.abc import Mapping
from statistics import fmean

from rich.console import Console
from rich.table import Table

from hpsearch.report.confirmation import MAXIMIZE, Confirmation, Entry

CHANCE = "P(best)"
EXPLOITED = "exploitability"
WIDTH = 100
"""of a table that does not wrap"""
SURE = 0.9
"""chance of being the best from which more seeds are not asked for"""


def print_confirmation(console: Console, found: Confirmation, advice: str) -> None:
    """Print the candidates, best first, and what to do."""
    console.print(_title(found), style="bold", highlight=False, soft_wrap=True)
    console.print(_table(found))
    console.print(advice, highlight=False, markup=False, soft_wrap=True)


def advice_text(found: Confirmation, elsewhere: str) -> str:
    """Return the sentence that says what to do; ``elsewhere`` is the option for another folder."""
    best, verdict = found.best, found.best.verdict
    assert verdict is not None, "the first has been measured"
    if verdict.chance is None:
        return (
            "one seed of each tells nothing of the spread over seeds, so nobody is known to be the "
            f"best; train more with: hpsearch confirm {found.study}{elsewhere} --seeds 5"
        )
    command = f"hpsearch export {found.study}{elsewhere} --trial {best.trial}"
    return f"{_favourite_text(found)}; {_sureness(found, verdict.chance)}export it with: {command}"


def _title(found: Confirmation) -> str:
    each = f"{found.games:,} games each"
    what = f"starts held out ({each} pair)"
    if found.trained_by is not None:
        what = f"seeds held out (by {found.trained_by}) and starts held out ({each})"
    title = f"{found.study}: {found.metric} on {what}, 95 % intervals"
    if found.response_steps is None:
        return title
    return (
        f"{title}; exploitability: rho that a best response of {found.response_steps:,} steps "
        "takes, the mean over seeds"
    )


def _favourite_text(found: Confirmation) -> str:
    """Return how the favourite of the search, or of the last match, has done."""
    of = "search" if found.trained_by is not None else "study"
    favourite = next((one for one in found.entries if one.trial == found.favourite), None)
    best = f"trial {found.best.trial}"
    if found.best.trial == found.favourite:
        return f"the {of}'s best, {best}, held up"
    if favourite is None or favourite.verdict is None:
        return f"of the {of}'s best, trial {found.favourite}, nothing is known; {best} is best"
    mean = favourite.verdict.mean
    believed = favourite.search["value"]
    sign = 1.0 if found.goal == MAXIMIZE else -1.0
    # Strengths in another match are against others, so they say nothing of luck.
    if found.trained_by is not None and believed is not None and sign * (believed - mean) > 0:
        how = f"was lucky: {believed:.4f} in the search, {mean:.4f} when held out"
    else:
        how = f"does not hold up: {mean:.4f} when held out"
    assert found.best.verdict is not None, "the first has been measured"
    return (
        f"the {of}'s best, trial {found.favourite}, {how}, where {best} has "
        f"{found.best.verdict.mean:.4f}"
    )


def _sureness(found: Confirmation, chance: float) -> str:
    if chance >= SURE:
        return ""
    more = f"--games {2 * found.games}"
    if found.trained_by is not None:
        more = f"--seeds {2 * max(len(one.seeds) + one.failed for one in found.entries)}"
    return (
        f"that trial {found.best.trial} is the best has a chance of {chance:.0%}, {more} tells "
        "more; "
    )


def _table(found: Confirmation) -> Table:
    has_iqm = any(one.verdict is not None and one.verdict.iqm is not None for one in found.entries)
    table = Table(box=None, header_style="bold")
    columns = ["trial", "search", *(["seeds"] if found.trained_by else []), "held out"]
    columns += [*(["IQM"] if has_iqm else []), CHANCE]
    columns += [] if found.response_steps is None else [EXPLOITED]
    for column in columns:
        table.add_column(column, justify="right")
    for entry in found.entries:
        cells = _cells(entry)
        table.add_row(*(cells[column] for column in columns))
    return table


def _cells(entry: Entry) -> dict[str, str]:
    verdict = entry.verdict
    failed = f", {entry.failed} failed" if entry.failed else ""
    cells = {
        "trial": str(entry.trial),
        "search": _interval_text(entry.search),
        "seeds": f"{len(entry.seeds)}{failed}",
        "held out": "",
        "IQM": "",
        CHANCE: "",
        EXPLOITED: _exploited_text(entry),
    }
    if verdict is not None:
        ends = {"value": verdict.mean, "low": verdict.low, "high": verdict.high}
        cells["held out"] = _interval_text(ends)
        cells["IQM"] = "" if verdict.iqm is None else f"{verdict.iqm:.4f}"
        chance = verdict.chance
        cells[CHANCE] = "" if chance is None else f"{chance:.1%}"
    return cells


def _exploited_text(entry: Entry) -> str:
    """Return what a best response takes, the mean over seeds; of two roles a number each."""
    names = dict.fromkeys(
        name for seed in entry.seeds for name in seed.metrics if name.startswith(EXPLOITED)
    )
    means = (fmean(seed.metrics[name] for seed in entry.seeds) for name in names)
    return " ".join(f"{mean:.4f}" for mean in means)


def _interval_text(number: Mapping[str, float | None]) -> str:
    value, low, high = number["value"], number["low"], number["high"]
    if value is None:
        return ""
    return f"{value:.4f}" if low is None or high is None else f"{value:.4f} [{low:.4f}, {high:.4f}]"
