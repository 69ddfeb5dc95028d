"""Which of a study's best is the best, told from what none of them was chosen by.

Axes: K candidates, R draws of all their means.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np

from hpsearch.population.arrays import Floats
from hpsearch.population.comparing.chance_of_best import chance_of_best, drawn_means
from hpsearch.population.comparing.interquartile_mean import interquartile_mean
from hpsearch.population.ratings.resampling import interval

CONFIDENCE: Final = 0.95
NUM_DRAWS: Final = 100_000
"""by which a chance is known to a third of a percent"""
MIN_SEEDS_OF_IQM: Final = 4
"""below which it leaves nothing out"""
MAXIMIZE: Final = "maximize"


@dataclass(frozen=True)
class Verdict:
    """What is known of one candidate."""

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
class Training:
    """One training of a configuration."""

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
    verdict: Verdict | None
    """None where no training has finished"""
    seeds: tuple[Training, ...] = ()
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
        """Return the one with the best mean."""
        return self.entries[0]


def judge_seeds(scores: Sequence[Sequence[float]], goal: str) -> list[Verdict]:
    """Return the verdict on each candidate from the scores of its seeds, at least one each.

    Intervals and chances are those of `drawn_means`: one spread over seeds for all candidates.
    """
    sign = 1.0 if goal == MAXIMIZE else -1.0
    signed = [sign * np.array(one) for one in scores]
    means = [float(np.mean(one)) for one in scores]
    iqms = [
        float(interquartile_mean(one)) if len(one) >= MIN_SEEDS_OF_IQM else None for one in scores
    ]
    if max(len(one) for one in scores) < 2:
        return [Verdict(mean, None, None, None, None) for mean in means]
    return _verdicts(means, iqms, drawn_means(signed, np.random.default_rng(0), NUM_DRAWS), sign)


def judge_draws(values: Sequence[float], draws: Floats) -> list[Verdict]:
    """Return the verdict on each candidate from draws (R, K) of what they are compared by."""
    return _verdicts(list(values), [None] * len(values), draws, sign=1.0)


def _verdicts(
    means: Sequence[float], iqms: Sequence[float | None], draws: Floats, sign: float
) -> list[Verdict]:
    ends = np.sort(sign * interval(draws, CONFIDENCE), axis=0)
    chances = chance_of_best(draws)
    return [
        Verdict(*numbers)
        for numbers in zip(means, *ends.tolist(), iqms, chances.tolist(), strict=True)
    ]


def ranked(entries: Sequence[Entry], goal: str) -> tuple[Entry, ...]:
    """Return candidates best first, those of which nothing is known last."""
    sign = -1.0 if goal == MAXIMIZE else 1.0

    def place(entry: Entry) -> tuple[bool, float]:
        return entry.verdict is None, 0.0 if entry.verdict is None else sign * entry.verdict.mean

    return tuple(sorted(entries, key=place))


def plain_confirmation(found: Confirmation, advice: str) -> dict[str, Any]:
    """Return a confirmation as JSON holds it: the keys here are published and stay.

    study, trained_by, metric, goal, games, response_steps, top, match, favourite, best (a trial),
    held_up, advice, and trials, best first: trial, search {value, low, high}, mean, low, high, iqm,
    chance, failed, and seeds: seed, trial (of trained_by), metrics. What is not known is null.
    """
    nothing = dict.fromkeys(field.name for field in fields(Verdict))
    whole = asdict(found)
    del whole["entries"]
    return {
        **whole,
        "best": found.best.trial,
        "held_up": found.best.trial == found.favourite,
        "advice": advice,
        "trials": [
            {
                "trial": entry.trial,
                "search": dict(entry.search),
                **(nothing if entry.verdict is None else asdict(entry.verdict)),
                "failed": entry.failed,
                "seeds": [asdict(one) for one in entry.seeds],
            }
            for entry in found.entries
        ],
    }
