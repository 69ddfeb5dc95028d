"""Which parameters mattered more than chance explains, given how few trials there are.

By Optuna's PED-ANOVA: how much a parameter's values among the best trials differ from all values
(Watanabe, Bansal, Hutter: PED-ANOVA, IJCAI 2023). Of few trials it is large by chance alone, so it
is computed again with the values shuffled among the trials, and of resampled trials.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial

from hpsearch.analysis.candidates import finished
from hpsearch.study.view import StudyView

MIN_TRIALS: Final = 10  # finished, below which an importance says nothing
MAX_TRIALS: Final = 500  # of more, so many are drawn, which bounds the time
NUM_SHUFFLES: Final = 100  # of the values among the trials, and as many of each resampling
NUM_RESAMPLES: Final = 100  # of the trials
CONFIDENCE: Final = 0.95  # of intervals, and of shuffles with no parameter above its noise
NUM_BEST: Final = 10  # trials that PED-ANOVA should have to tell from the others
SMALLEST_SHARE: Final = 0.1
LARGEST_SHARE: Final = 0.4  # of all trials that are called the best ones
SEED: Final = 1  # of all shuffles and resamples, so that two pages of one study are the same

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """How much a parameter mattered, in shares of what all explain beyond chance."""

    share: float
    low: float
    high: float  # ends of a 95 % interval, by resampling trials
    noise: float  # up to which shuffled values come, in 95 % for all parameters

    @property
    def is_above_noise(self) -> bool:
        return self.share > self.noise


@dataclass(frozen=True)
class Importances:
    by_name: Mapping[str, Importance]  # the most important parameter first
    num_trials: int  # by which they were computed
    num_finished: int
    best_share: float  # of the trials that were called the best ones

    @property
    def above_noise(self) -> list[str]:
        return [name for name, importance in self.by_name.items() if importance.is_above_noise]


def importances(view: StudyView, objective: int) -> Importances | str:
    """Return how much each parameter mattered for the objective in a place, or why not known."""
    trials = [trial for trial in finished(view) if trial.trains]
    if len(trials) < MIN_TRIALS:
        return f"importances need {MIN_TRIALS} finished trials, there are {len(trials)}"
    asked = view.study.spec.objectives[objective]
    values = np.array([trial.metrics[asked.metric]["value"] for trial in trials])
    if len(set(values.tolist())) == 1:
        return "all trials have the same value, so no parameter explains any difference"
    losses = -values if asked.goal == "maximize" else values
    distributions = view.study.space.distributions()
    frozen = [
        optuna.trial.create_trial(
            params=dict(trial.last_params),
            distributions={name: distributions[name] for name in trial.last_params},
            value=0.0,  # losses are given beside the trials
        )
        for trial in trials
    ]
    return estimate(frozen, losses, num_shuffles=NUM_SHUFFLES, num_resamples=NUM_RESAMPLES)


def known_importances(view: StudyView) -> dict[str, Importances]:
    objectives = enumerate(view.study.spec.objectives)
    by_metric = {objective.metric: importances(view, place) for place, objective in objectives}
    return {name: known for name, known in by_metric.items() if not isinstance(known, str)}


def best_share(num_trials: int) -> float:
    """Return the share of the trials that are called the best ones: the fewer, the more of them."""
    return min(LARGEST_SHARE, max(SMALLEST_SHARE, NUM_BEST / num_trials))


def estimate(
    trials: Sequence[FrozenTrial], losses: Array, *, num_shuffles: int, num_resamples: int
) -> Importances:
    """Return the importances by two trials or more; ``losses`` are float (trials,), low is good."""
    rng = np.random.default_rng(SEED)
    num_finished = len(trials)
    if num_finished > MAX_TRIALS:
        drawn = np.sort(rng.choice(num_finished, MAX_TRIALS, replace=False))
        trials, losses = [trials[place] for place in drawn], losses[drawn]
    size = len(trials)
    known = _Divergences(trials)
    everything = np.arange(size)
    shuffled = np.array(
        [known.divergences(everything, rng.permutation(losses)) for _ in range(num_shuffles)]
    )
    resamples = rng.integers(0, size, (num_resamples, size))
    resampled = np.array([known.divergences(places, losses) for places in resamples])
    # A trial that was drawn twice looks like two that agree, so resamples show more by chance.
    by_chance = np.mean(
        [known.divergences(places, rng.permutation(losses)) for places in resamples], axis=0
    )
    measured = known.divergences(everything, losses)
    beyond = measured - shuffled.mean(axis=0)
    unit = np.maximum(beyond, 0.0).sum()
    shares = _shares(beyond)
    ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(_shares(resampled - by_chance), ends, axis=0)
    limits = _limits(shuffled) - shuffled.mean(axis=0)
    # Where nothing lies beyond chance there is no unit to measure noise in.
    noise = limits / unit if unit > 0 else np.ones_like(limits)
    low, high = np.minimum(low, shares), np.maximum(high, shares)
    columns = np.stack([shares, low, high, noise]).T.tolist()
    order = np.argsort(-shares, kind="stable")
    by_name = {known.names[place]: Importance(*columns[place]) for place in order}
    return Importances(by_name, size, num_finished, best_share(size))


def _shares(beyond: Array) -> Array:
    """Return shares of what is above zero, along the last axis; zeros where nothing is."""
    positive = np.maximum(beyond, 0.0)
    total = positive.sum(axis=-1, keepdims=True)
    return positive / np.where(total > 0, total, 1.0)


def _limits(shuffled: Array) -> Array:
    """Return up to which chance comes, float (parameters,), of ``shuffled`` (shuffles, parameters).

    The limit of each parameter is at the same rank among its shuffles, so that many-valued
    parameters, whose divergences are larger, do not hide the others; the rank is the lowest at
    which a share CONFIDENCE of the shuffles is within all limits.
    """
    ordered = np.sort(shuffled, axis=0)
    columns = zip(ordered.T, shuffled.T, strict=True)
    ranks = [np.searchsorted(in_order, drawn, "right") for in_order, drawn in columns]
    highest = np.sort(np.max(ranks, axis=0))
    # One more than the shuffles: what was measured counts as one of them.
    rank = int(highest[min(len(highest), math.ceil(CONFIDENCE * (len(highest) + 1))) - 1])
    limits: Array = ordered[rank - 1]
    return limits


class _Trials(optuna.Study):
    """A study whose trials are set from outside, so that each resample costs no storage."""

    def __init__(self) -> None:
        storage = InMemoryStorage()
        super().__init__(optuna.create_study(storage=storage).study_name, storage)
        self.shown: list[FrozenTrial] = []

    def get_trials(self, deepcopy: bool = True, states: object = None) -> list[FrozenTrial]:
        return self.shown


class _Divergences:
    """PED-ANOVA of trials, with their own losses or others."""

    def __init__(self, trials: Sequence[FrozenTrial]) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        numbered = optuna.create_study()
        numbered.add_trials(trials)  # PED-ANOVA knows trials by the ids that they get here
        self._trials = numbered.get_trials()
        self.names = list(dict.fromkeys(name for trial in trials for name in trial.params))
        self._study = _Trials()
        self._evaluator = PedAnovaImportanceEvaluator(target_quantile=best_share(len(trials)))

    def divergences(self, places: NDArray[np.int64], losses: Array) -> Array:
        """Return float (parameters,) by losses of the places; 0 for one that none has."""
        self._study.shown = [self._trials[place] for place in places]
        present = {name for trial in self._study.shown for name in trial.params}
        with warnings.catch_warnings(action="ignore"):  # it warns where a parameter had few values
            by_name = self._evaluator.evaluate(
                self._study,
                [name for name in self.names if name in present],
                target=lambda trial: float(losses[trial.number]),
            )
        return np.array([by_name.get(name, 0.0) for name in self.names])
