"""Which of a study's best is the best, told from what none of them was chosen by.

Axes: K candidates, R draws of all their means.

A confirmation as text for people: a table, and one sentence that says what to do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

from hpsearch.population.statistics import (
    Floats,
    chance_of_best,
    drawn_means,
    interquartile_mean,
    interval,
)

CONFIDENCE: Final = 0.95
NUM_DRAWS: Final = 100_000
"""by which a chance is known to a third of a percent"""
MIN_SEEDS_OF_IQM: Final = 4
"""below which it leaves nothing out"""
MAXIMIZE: Final = "maximize"


@dataclass(frozen=True)
class CandidateVerdict:
    mean: float
    low: float | None
    """lower end of the 95 % interval; None where nothing is known of the spread"""
    high: float | None
    """upper end"""
    iqm: float | None
    """interquartile mean over seeds; None for fewer than four"""
    chance: float | None
    """of being the best of all; None where nothing is known of the spread"""


@dataclass(frozen=True)
class SeedTraining:
    seed: int
    trial: int
    """of the study that trained it"""
    metrics: dict[str, float]
    """on held-out starts, by name"""


@dataclass(frozen=True)
class Entry:
    """One candidate, with what the search believed of it and what was found."""

    trial: int
    """of the search"""
    search: Mapping[str, float | None]
    """value, low and high that the search believed"""
    verdict: CandidateVerdict | None
    """None where no training has finished"""
    seeds: tuple[SeedTraining, ...] = ()
    failed: int = 0
    """trainings that failed"""


@dataclass(frozen=True)
class Confirmation:
    """A comparison of the best of a study, best first."""

    study: str
    trained_by: str | None
    """the study that trained again; None for a population, whose weights are what is exported"""
    metric: str
    goal: str
    games: int
    """of each, or of each pair of a population"""
    response_steps: int | None
    """for which a best response to each trained player has trained, None where none has"""
    top: int
    """how many of the study's best it compares"""
    match: int | None
    """the last match of a population"""
    favourite: int
    """the search's best trial"""
    entries: tuple[Entry, ...]

    @property
    def best(self) -> Entry:
        return self.entries[0]


def judge_seeds(scores: Sequence[Sequence[float]], goal: str) -> list[CandidateVerdict]:
    """Return the verdict on each candidate from the scores of its seeds, at least one each.

    Intervals and chances are those of `drawn_means`: one spread over seeds for all candidates.
    """
    sign = 1.0 if goal == MAXIMIZE else -1.0
    signed = [sign * np.array(score) for score in scores]
    means = [float(np.mean(score)) for score in scores]
    iqms = [
        float(interquartile_mean(score)) if len(score) >= MIN_SEEDS_OF_IQM else None
        for score in scores
    ]
    if max(len(score) for score in scores) < 2:
        return [CandidateVerdict(mean, None, None, None, None) for mean in means]
    return _verdicts(means, iqms, drawn_means(signed, np.random.default_rng(0), NUM_DRAWS), sign)


def judge_draws(values: Sequence[float], draws: Floats) -> list[CandidateVerdict]:
    """Return the verdict on each candidate from draws (R, K) of what they are compared by."""
    return _verdicts(list(values), [None] * len(values), draws, sign=1.0)


def _verdicts(
    means: Sequence[float], iqms: Sequence[float | None], draws: Floats, sign: float
) -> list[CandidateVerdict]:
    ends = np.sort(sign * interval(draws, CONFIDENCE), axis=0)
    chances = chance_of_best(draws)
    return [
        CandidateVerdict(*numbers)
        for numbers in zip(means, *ends.tolist(), iqms, chances.tolist(), strict=True)
    ]


def ranked(entries: Sequence[Entry], goal: str) -> tuple[Entry, ...]:
    """Return candidates best first, those of which nothing is known last."""
    sign = -1.0 if goal == MAXIMIZE else 1.0

    def place(entry: Entry) -> tuple[bool, float]:
        return entry.verdict is None, 0.0 if entry.verdict is None else sign * entry.verdict.mean

    return tuple(sorted(entries, key=place))


def plain_confirmation(confirmation: Confirmation, advice: str) -> dict[str, Any]:
    """Return a confirmation as JSON holds it: the keys here are published and stay.

    study, trained_by, metric, goal, games, response_steps, top, match, favourite, best (a trial),
    held_up, advice, and trials, best first: trial, search {value, low, high}, mean, low, high, iqm,
    chance, failed, and seeds: seed, trial (of trained_by), metrics. What is not known is null.
    """
    nothing = dict.fromkeys(field.name for field in fields(CandidateVerdict))
    whole = asdict(confirmation)
    del whole["entries"]
    return {
        **whole,
        "best": confirmation.best.trial,
        "held_up": confirmation.best.trial == confirmation.favourite,
        "advice": advice,
        "trials": [
            {
                "trial": entry.trial,
                "search": dict(entry.search),
                **(nothing if entry.verdict is None else asdict(entry.verdict)),
                "failed": entry.failed,
                "seeds": [asdict(seed) for seed in entry.seeds],
            }
            for entry in confirmation.entries
        ],
    }


CHANCE = "P(best)"
EXPLOITED = "exploitability"
WIDTH = 100
"""of a table that does not wrap"""
SURE = 0.9
"""chance of being the best from which more seeds are not asked for"""


def print_confirmation(console: Console, confirmation: Confirmation, advice: str) -> None:
    console.print(_title(confirmation), style="bold", highlight=False, soft_wrap=True)
    console.print(_table(confirmation))
    console.print(advice, highlight=False, markup=False, soft_wrap=True)


def advice_text(confirmation: Confirmation, elsewhere: str) -> str:
    """Return the sentence that says what to do; ``elsewhere`` is the option for another folder."""
    best, verdict = confirmation.best, confirmation.best.verdict
    assert verdict is not None, "the first has been measured"
    if verdict.chance is None:
        return (
            "one seed of each tells nothing of the spread over seeds, so none is known to be the "
            f"best; train more with: hpsearch confirm {confirmation.study}{elsewhere} --seeds 5"
        )
    command = f"hpsearch export {confirmation.study}{elsewhere} --trial {best.trial}"
    favourite, sureness = _favourite_text(confirmation), _sureness(confirmation, verdict.chance)
    return f"{favourite}; {sureness}export it with: {command}"


def _title(confirmation: Confirmation) -> str:
    each = f"{confirmation.games:,} games each"
    what = f"starts held out ({each} pair)"
    if confirmation.trained_by is not None:
        what = f"seeds held out (by {confirmation.trained_by}) and starts held out ({each})"
    title = f"{confirmation.study}: {confirmation.metric} on {what}, 95 % intervals"
    if confirmation.response_steps is None:
        return title
    return (
        f"{title}; exploitability: rho that a best response of {confirmation.response_steps:,} "
        "steps takes, the mean over seeds"
    )


def _favourite_text(confirmation: Confirmation) -> str:
    of = "search" if confirmation.trained_by is not None else "study"
    favourite = next(
        (entry for entry in confirmation.entries if entry.trial == confirmation.favourite), None
    )
    best = f"trial {confirmation.best.trial}"
    if confirmation.best.trial == confirmation.favourite:
        return f"the {of}'s best, {best}, held up"
    if favourite is None or favourite.verdict is None:
        return (
            f"of the {of}'s best, trial {confirmation.favourite}, nothing is known; {best} is best"
        )
    mean = favourite.verdict.mean
    believed = favourite.search["value"]
    sign = 1.0 if confirmation.goal == MAXIMIZE else -1.0
    # Strengths in another match are against others, so they say nothing of luck.
    if (
        confirmation.trained_by is not None
        and believed is not None
        and sign * (believed - mean) > 0
    ):
        how = f"was lucky: {believed:.4f} in the search, {mean:.4f} when held out"
    else:
        how = f"does not hold up: {mean:.4f} when held out"
    assert confirmation.best.verdict is not None, "the first has been measured"
    return (
        f"the {of}'s best, trial {confirmation.favourite}, {how}, where {best} has "
        f"{confirmation.best.verdict.mean:.4f}"
    )


def _sureness(confirmation: Confirmation, chance: float) -> str:
    if chance >= SURE:
        return ""
    more = f"--games {2 * confirmation.games}"
    if confirmation.trained_by is not None:
        more = (
            f"--seeds {2 * max(len(entry.seeds) + entry.failed for entry in confirmation.entries)}"
        )
    return (
        f"that trial {confirmation.best.trial} is the best has a chance of {chance:.0%}, {more} "
        "tells more; "
    )


def _table(confirmation: Confirmation) -> Table:
    has_iqm = any(
        entry.verdict is not None and entry.verdict.iqm is not None
        for entry in confirmation.entries
    )
    table = Table(box=None, header_style="bold")
    columns = ["trial", "search", *(["seeds"] if confirmation.trained_by else []), "held out"]
    columns += [*(["IQM"] if has_iqm else []), CHANCE]
    columns += [] if confirmation.response_steps is None else [EXPLOITED]
    for column in columns:
        table.add_column(column, justify="right")
    for entry in confirmation.entries:
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
