"""Which of a study's best is the best, told from what none of them was chosen by; as text.

Axes: K candidates, R draws of all their means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from statistics import fmean
from typing import Any, Final

import numpy as np
from rich.console import Console

from hpsearch.population.statistics import (
    Floats,
    chance_of_best,
    drawn_means,
    interquartile_mean,
    interval,
)
from hpsearch.terminal import print_line, print_whole, text_table

CONFIDENCE: Final = 0.95
NUM_DRAWS: Final = 100_000  # by which a chance is known to a third of a percent
MIN_SEEDS_OF_IQM: Final = 4  # below which it leaves nothing out
MAXIMIZE: Final = "maximize"


@dataclass(frozen=True)
class CandidateVerdict:
    mean: float
    low: float | None  # lower end of the 95 % interval; None where nothing is known of the spread
    high: float | None  # upper end
    iqm: float | None  # interquartile mean over seeds; None for fewer than four
    chance: float | None  # of being the best of all; None where nothing is known of the spread


@dataclass(frozen=True)
class SeedTraining:
    seed: int
    trial: int  # of the study that trained it
    metrics: dict[str, float]  # on held-out starts, by name


@dataclass(frozen=True)
class Entry:
    """One candidate, with what the search believed of it and what was found."""

    trial: int  # of the search
    search: Mapping[str, float | None]  # value, low and high that the search believed
    verdict: CandidateVerdict | None  # None where no training has finished
    seeds: tuple[SeedTraining, ...] = ()
    failed: int = 0  # trainings that failed


@dataclass(frozen=True)
class Confirmation:
    study: str
    trained_by: str | None
    """the study that trained again; None for a population, whose weights are what is exported"""
    metric: str
    goal: str
    games: int  # of each, or of each pair of a population
    response_steps: int | None
    """for which a best response to each trained player has trained, None where none has"""
    top: int  # how many of the study's best it compares
    match: int | None  # the last match of a population
    favourite: int  # the search's best trial
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
SURE = 0.9  # chance of being the best from which more seeds are not asked for


def print_confirmation(console: Console, confirmation: Confirmation, advice: str) -> None:
    print_line(console, _title(confirmation), style="bold")
    rows = [_cells(entry) for entry in confirmation.entries]
    columns = ["trial", "search", *(["seeds"] if confirmation.trained_by else []), "held out"]
    columns += [*(["IQM"] if any(row["IQM"] for row in rows) else []), CHANCE]
    columns += [] if confirmation.response_steps is None else [EXPLOITED]
    table = text_table(columns, ([row[column] for column in columns] for row in rows), left=())
    print_whole(console, table)
    print_line(console, advice)


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
    by_trial = {entry.trial: entry for entry in confirmation.entries}
    favourite, best = by_trial.get(confirmation.favourite), confirmation.best
    of = "search" if confirmation.trained_by is not None else "study"
    who = f"the {of}'s best, trial {confirmation.favourite},"
    if best.trial == confirmation.favourite:
        return f"{who} held up"
    if favourite is None or favourite.verdict is None:
        return f"of {who} nothing is known; trial {best.trial} is best"
    mean, believed = favourite.verdict.mean, favourite.search["value"]
    sign = 1.0 if confirmation.goal == MAXIMIZE else -1.0
    how = f"does not hold up: {mean:.4f} when held out"
    # Strengths in another match are against others, so they say nothing of luck.
    is_search = confirmation.trained_by is not None
    if is_search and believed is not None and sign * (believed - mean) > 0:
        how = f"was lucky: {believed:.4f} in the search, {mean:.4f} when held out"
    assert best.verdict is not None, "the first has been measured"
    return f"{who} {how}, where trial {best.trial} has {best.verdict.mean:.4f}"


def _sureness(confirmation: Confirmation, chance: float) -> str:
    if chance >= SURE:
        return ""
    more = f"--games {2 * confirmation.games}"
    if confirmation.trained_by is not None:
        trained = max(len(entry.seeds) + entry.failed for entry in confirmation.entries)
        more = f"--seeds {2 * trained}"
    return (
        f"that trial {confirmation.best.trial} is the best has a chance of {chance:.0%}, {more} "
        "tells more; "
    )


def _cells(entry: Entry) -> dict[str, str]:
    failed = f", {entry.failed} failed" if entry.failed else ""
    verdict = entry.verdict
    mean, low, high, iqm, chance = (None,) * 5 if verdict is None else astuple(verdict)
    return {
        "trial": str(entry.trial),
        "search": _interval_text(entry.search),
        "seeds": f"{len(entry.seeds)}{failed}",
        "held out": _interval_text({"value": mean, "low": low, "high": high}),
        "IQM": "" if iqm is None else f"{iqm:.4f}",
        CHANCE: "" if chance is None else f"{chance:.1%}",
        EXPLOITED: _exploited_text(entry),
    }


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
