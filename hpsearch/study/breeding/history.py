"""What past intervals improved: what a model of improvements learns from."""

from collections.abc import Iterator, Mapping
from itertools import islice

from hpsearch.population.exploring.model_explore import Generation
from hpsearch.study.records import Trial

MAX_INTERVALS = 300
"""the newest ones, since a model's time grows with the cube of their number"""

Strengths = Mapping[int, Mapping[int, float]]
"""by match and trial"""


def improvements(strengths: Strengths, known: Mapping[int, Trial]) -> list[Generation]:
    """Return how much stronger each interval made its member, less what all members gained.

    From the match that planned the interval to the first that judged it, in which everybody who
    plays has gained on itself, or on its ancestor in the former. The opponents of a match are its
    own, so strengths of two matches differ by more than what was learned.

    Args:
        strengths: of all matches so far.
        known: trials by number.

    Returns:
        At most `MAX_INTERVALS`, the newest first.
    """
    newest_first = sorted(strengths, reverse=True)
    found = (one for match in newest_first for one in _judged_by(match, strengths, known))
    return list(islice(found, MAX_INTERVALS))


def _judged_by(
    match: int, strengths: Strengths, known: Mapping[int, Trial]
) -> Iterator[Generation]:
    """Yield the improvements by the intervals that a match was the first to judge."""
    for since, trials in _planned_by(match, strengths, known).items():
        gains = _gains(match, since, strengths, known)
        common = sum(gains.values()) / len(gains)
        for trial in trials:
            yield Generation(known[trial].last_params, match, gains[trial] - common)


def _planned_by(
    match: int, strengths: Strengths, known: Mapping[int, Trial]
) -> dict[int, list[int]]:
    """Return the trials that a match was the first to judge, by the match that planned them."""
    planned: dict[int, list[int]] = {}
    for trial in strengths[match]:
        origin = known[trial].origin
        if origin is None or not origin.parents or not origin.trains:
            continue
        if trial not in strengths.get(match - 1, {}):
            planned.setdefault(origin.generation, []).append(trial)
    return planned


def _gains(
    match: int, since: int, strengths: Strengths, known: Mapping[int, Trial]
) -> dict[int, float]:
    """Return what the trials of a match gained since another, where they come from it."""
    gains = {}
    for trial, strength in strengths[match].items():
        ancestor: int | None = trial
        while ancestor is not None and ancestor not in strengths[since]:
            origin = known[ancestor].origin
            ancestor = origin.parents[0] if origin is not None and origin.parents else None
        if ancestor is not None:
            gains[trial] = strength - strengths[since][ancestor]
    return gains
