"""Compares the best trials on seeds and games that did not choose them; the result as text.

Axes: K candidates, R draws of all their means.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
from rich.console import Console

from hpsearch.analysis.candidates import all_candidates, last_match
from hpsearch.errors import ConfigError, CorruptError
from hpsearch.files import read_json
from hpsearch.population import statistics
from hpsearch.population.statistics import CONFIDENCE, Floats
from hpsearch.printable import interval_text
from hpsearch.schema import field_hints, read
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView, best_trial
from hpsearch.terminal import print_line, print_whole, text_table, to_html

NUM_DRAWS: Final = 100_000  # by which a chance is known to a third of a percent
MIN_SEEDS_OF_IQM: Final = 4  # below which it leaves nothing out


class CandidateVerdict(NamedTuple):
    mean: float | None = None  # None where no training has finished
    low: float | None = None  # lower end of the 95 % interval, None if unknown
    high: float | None = None  # upper end
    iqm: float | None = None  # interquartile mean over seeds; None for fewer than four
    chance: float | None = None  # of being the best of all, None if unknown


@dataclass(frozen=True)
class SeedTraining:
    seed: int
    trial: int  # of the study that trained it
    metrics: dict[str, float]  # on held-out starts, by name


@dataclass(frozen=True)
class ConfirmedTrial:
    trial: int  # of the search
    search: dict[str, float | None]  # value, low and high that the search believed
    mean: float | None  # these five as in `CandidateVerdict`
    low: float | None
    high: float | None
    iqm: float | None
    chance: float | None
    failed: int = 0  # trainings that failed
    seeds: tuple[SeedTraining, ...] = ()

    def check(self) -> Iterator[str]:
        if "value" not in self.search:
            yield "search must hold a value"
        if (self.low is None) != (self.high is None):
            yield "low and high must both be numbers, or both null"
        if self.mean is None and self.low is not None:
            yield "an interval must lie around a mean"


@dataclass(frozen=True)
class Confirmation:
    """What the file of a confirmation holds, beside `best`, `held_up` and the advice."""

    study: str
    trained_by: str | None  # the study that trained again, None for a population
    metric: str
    goal: str
    games: int  # of each, or of each pair of a population
    top: int  # how many of the study's best it compares
    match: int | None  # the last match of a population
    favourite: int  # the search's best trial
    trials: tuple[ConfirmedTrial, ...]  # best first
    response_steps: int | None = None  # of the best responses, None where none has trained
    advice: str = ""  # what to do, a sentence

    @property
    def best(self) -> ConfirmedTrial:
        return self.trials[0]

    def _repr_html_(self) -> str:
        return to_html(lambda console: print_confirmation(console, self))


def judge_seeds(scores: Sequence[Sequence[float]], goal: str) -> list[CandidateVerdict]:
    """Return verdicts by the scores of seeds, at least one each; spread as `drawn_means`."""
    sign = 1.0 if goal == "maximize" else -1.0
    signed = [sign * np.array(score) for score in scores]
    means = [float(np.mean(score)) for score in scores]
    iqms = [
        float(statistics.interquartile_mean(score)) if len(score) >= MIN_SEEDS_OF_IQM else None
        for score in scores
    ]
    if max(map(len, scores)) < 2:
        return [CandidateVerdict(mean) for mean in means]
    draws = statistics.drawn_means(signed, np.random.default_rng(0), NUM_DRAWS)
    return _verdicts(means, iqms, draws, sign)


def judge_draws(values: Sequence[float], draws: Floats) -> list[CandidateVerdict]:
    return _verdicts(values, [None] * len(values), draws, sign=1.0)


def _verdicts(
    means: Sequence[float], iqms: Sequence[float | None], draws: Floats, sign: float
) -> list[CandidateVerdict]:
    ends = np.sort(sign * statistics.interval(draws, CONFIDENCE), axis=0)
    chances = statistics.chance_of_best(draws).tolist()
    numbers = zip(means, *ends.tolist(), iqms, chances, strict=True)
    return [CandidateVerdict(*of_candidate) for of_candidate in numbers]


def ranked(trials: Sequence[ConfirmedTrial], goal: str) -> tuple[ConfirmedTrial, ...]:
    """Return candidates best first, those of which nothing is known last."""
    sign = -1.0 if goal == "maximize" else 1.0
    return tuple(sorted(trials, key=lambda trial: (trial.mean is None, sign * (trial.mean or 0.0))))


def plain_confirmation(confirmation: Confirmation) -> dict[str, Any]:
    """Return a confirmation as JSON holds it: its published fields, best (a trial) and held_up."""
    best = confirmation.best.trial
    return {**asdict(confirmation), "best": best, "held_up": best == confirmation.favourite}


def read_confirmed(view: StudyView) -> tuple[Trial, bool] | None:
    """Return the trial confirmed as the best, if any, and whether it was among today's best."""
    if (data := read_json(view.folder.confirmation)) is None:
        return None
    try:
        best = view.state.trials[int(data["best"])]
        if view.study.spec.population is not None:
            return best, bool(data["match"] == last_match(view))
        compared = {entry["trial"] for entry in data["trials"]}
        today = {candidate.trial.number for candidate in all_candidates(view)[: data["top"]]}
        return best, compared == today
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(view) from error


def whole_confirmation(view: StudyView) -> Confirmation | None:
    """Return what a confirmation's file says, if any; CorruptError if it lacks something."""
    if (data := read_json(view.folder.confirmation)) is None:
        return None
    try:
        return read(Confirmation, _known(Confirmation, data), source=str(view.folder.confirmation))
    except ConfigError as error:
        raise _damaged(view) from error


RECORDS_IN: Final = {"trials": ConfirmedTrial, "seeds": SeedTraining}  # by the field of their list


def _known(kind: type, data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    names = field_hints(kind)
    known = {key: value for key, value in data.items() if key in names}
    for key, inner in RECORDS_IN.items():
        if isinstance(known.get(key), list):
            known[key] = [_known(inner, entry) for entry in known[key]]
    return known


def _damaged(view: StudyView) -> CorruptError:
    return CorruptError(
        f"{view.folder.confirmation} is damaged; write it anew with: hpsearch confirm {view.name}"
    )


def the_best(view: StudyView, confirm: str) -> tuple[Trial, str | None]:
    """Return the best, confirmed if possible, and a remark that may name ``confirm``."""
    name, best, confirmed = view.name, best_trial(view), read_confirmed(view)
    if confirmed is None:
        return best, unconfirmed(view, confirm)
    trial, is_current = confirmed
    if not is_current:
        return best, f"the confirmation of {name} is out of date, its best are others by now"
    if trial.number == best.number:
        return best, None
    numbers = f"trial {trial.number}, the best when confirmed; the search's is {best.number}"
    return trial, f"exported is {numbers}"


def unconfirmed(view: StudyView, confirm: str) -> str | None:
    """Return the remark on a study of which nothing is confirmed, None where something is."""
    if view.folder.confirmation.exists():
        return None
    return f"{view.name} is not confirmed: its best may be the luckiest; compare with: {confirm}"


CHANCE = "P(best)"
EXPLOITED = "exploitability"
SURE = 0.9  # chance of being the best from which more seeds are not asked for


def print_confirmation(console: Console, confirmation: Confirmation) -> None:
    print_line(console, _title(confirmation), style="bold")
    rows = [_cells(trial) for trial in confirmation.trials]
    columns = ["trial", "search", *(["seeds"] if confirmation.trained_by else []), "held out"]
    columns += [*(["IQM"] if any(row["IQM"] for row in rows) else []), CHANCE]
    columns += [] if confirmation.response_steps is None else [EXPLOITED]
    table = text_table(columns, ([row[column] for column in columns] for row in rows), left=())
    print_whole(console, table)
    print_line(console, confirmation.advice)


def advice_text(confirmation: Confirmation, elsewhere: str) -> str:
    """Return the sentence that says what to do; ``elsewhere`` is the option for another folder."""
    best = confirmation.best
    if best.chance is None:
        return (
            "one seed of each tells nothing of the spread over seeds, so none is known to be the "
            f"best; train more with: hpsearch confirm {confirmation.study}{elsewhere} --seeds 5"
        )
    command = f"hpsearch export {confirmation.study}{elsewhere} --trial {best.trial}"
    favourite, sureness = _favourite_text(confirmation), _sureness(confirmation, best.chance)
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
    by_trial = {trial.trial: trial for trial in confirmation.trials}
    favourite, best = by_trial.get(confirmation.favourite), confirmation.best
    is_search = confirmation.trained_by is not None
    who = f"the {'search' if is_search else 'study'}'s best, trial {confirmation.favourite},"
    if best.trial == confirmation.favourite:
        return f"{who} held up"
    if favourite is None or favourite.mean is None:
        return f"of {who} nothing is known; trial {best.trial} is best"
    mean, believed = favourite.mean, favourite.search["value"]
    sign = 1.0 if confirmation.goal == "maximize" else -1.0
    how = f"does not hold up: {mean:.4f} when held out"
    # Strengths in another match are against others, so they say nothing of luck.
    if is_search and believed is not None and sign * (believed - mean) > 0:
        how = f"was lucky: {believed:.4f} in the search, {mean:.4f} when held out"
    return f"{who} {how}, where trial {best.trial} has {best.mean:.4f}"


def _sureness(confirmation: Confirmation, chance: float) -> str:
    if chance >= SURE:
        return ""
    more = f"--games {2 * confirmation.games}"
    if confirmation.trained_by is not None:
        trained = max(len(trial.seeds) + trial.failed for trial in confirmation.trials)
        more = f"--seeds {2 * trained}"
    return (
        f"that trial {confirmation.best.trial} is the best has a chance of {chance:.0%}, {more} "
        "tells more; "
    )


def _cells(trial: ConfirmedTrial) -> dict[str, str]:
    return {
        "trial": str(trial.trial),
        "search": interval_text(trial.search),
        "seeds": f"{len(trial.seeds)}{f', {trial.failed} failed' if trial.failed else ''}",
        "held out": interval_text({"value": trial.mean, "low": trial.low, "high": trial.high}),
        "IQM": "" if trial.iqm is None else f"{trial.iqm:.4f}",
        CHANCE: "" if trial.chance is None else f"{trial.chance:.1%}",
        EXPLOITED: _exploited_text(trial),
    }


def _exploited_text(trial: ConfirmedTrial) -> str:
    """Return what a best response takes, the mean over seeds; of two roles a number each."""
    names = dict.fromkeys(
        name for seed in trial.seeds for name in seed.metrics if name.startswith(EXPLOITED)
    )
    means = (fmean(seed.metrics[name] for seed in trial.seeds) for name in names)
    return " ".join(f"{mean:.4f}" for mean in means)
