"""TPE for thousands of trials at once: one fit, then many suggestions, which repel each other.

Optuna's sampler fits the densities of good and of bad trials anew for each suggestion, and counts
those that run as bad. With 16,000 of them a suggestion takes 0.1 s and more. Here, where many run,
a fit serves all suggestions until another trial has finished, or with more than 10,000 of them a
hundredth more; suggestions join the bad ones for later ones.
Bergstra et al., "Algorithms for hyper-parameter optimization" (NeurIPS 2011), section 4.
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.samplers._lazy_random_state import LazyRandomState
from optuna.samplers._tpe.sampler import (
    _split_trials,
    default_gamma,
    default_gamma_multiobjective,
    default_weights,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from hpsearch.study.density import Density, Floats, Points

MANY = 200  # trials, from which on Optuna's own sampler is left
AT_ONCE = 100
"""running trials, from which on a fit is used again: with fewer, each suggestion depends on nothing
but the history, so that a driver that is killed between two of them asks for the same"""
MOST_SUGGESTIONS = 512  # of one fit, or more while together they weigh little
DRAWN_AT_ONCE = 128
"""suggestions at most whose candidates are drawn, and compared with all before them, at once"""
LITTLE = 0.01  # share of the trials that a density may leave out
QUICKLY_SORTED = 10_000  # finished trials that are looked at whenever there is one more
MOST_BAD = 500
"""trials by which the density of bad ones is fitted; of more, so many at random"""
MANY_BAD = 8 * MOST_BAD  # trials that are looked at for them

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


def have_grown(before: int, now: int) -> bool:
    """Return whether finished trials are so many more that it pays to look at all of them again."""
    return now - before > LITTLE * max(0, before - QUICKLY_SORTED)


Values = dict[str, list[float]]  # by parameter, as Optuna stores them


class SharedRng:
    """A random state, and the suggestion that it was seeded for last."""

    def __init__(self) -> None:
        self.state = np.random.RandomState()
        self.user: TurnOfRng | None = None


class TurnOfRng(LazyRandomState):
    """A random state of a seed for one suggestion, which all suggestions of a study use in turn.

    To make one of its own would take as long as the rest of the suggestion. Once another suggestion
    draws, this one may not draw any more.
    """

    def __init__(self, shared: SharedRng, seed: int) -> None:
        super().__init__()
        self._shared = shared
        self._seed: int | None = seed  # None once it was used

    @property
    def rng(self) -> np.random.RandomState:
        if self._shared.user is not self:
            assert self._seed is not None, "another suggestion has drawn meanwhile"
            self._shared.state.seed(self._seed)
            self._shared.user, self._seed = self, None
        return self._shared.state


@dataclass(frozen=True)
class Candidates:
    """Places of which suggestions are chosen, C for each."""

    places: dict[str, Floats]  # (suggestions * C,) by parameter
    log_good: Floats
    log_bad: Floats

    def part(self, number: int, size: int) -> "Candidates":
        """Return the candidates of one suggestion."""
        own = slice(number * size, (number + 1) * size)
        places = {name: values[own] for name, values in self.places.items()}
        return Candidates(places, self.log_good[own], self.log_bad[own])


@dataclass
class Fit:
    num_finished: int  # when it was made
    good: Density
    bad: Density
    bad_weight: float  # of all bad trials together, where one that was just suggested has 1
    suggested: Values = field(default_factory=dict)
    num_suggested: int = 0
    drawn: list[Candidates] = field(default_factory=list)  # for suggestions to come, the last first

    @property
    def num_negligible(self) -> int:
        """How many suggestions need not repel others, as together they weigh little."""
        return int(LITTLE * (self.bad_weight + self.num_suggested))

    @property
    def is_used_up(self) -> bool:
        """Whether it has served many suggestions, and the next ones would not be negligible."""
        are_many = not self.drawn and self.num_suggested >= MOST_SUGGESTIONS
        return are_many and self.num_suggested + DRAWN_AT_ONCE > self.num_negligible


@dataclass
class Fits:
    """What samplers of one study share."""

    by_names: dict[frozenset[str], Fit] = field(default_factory=dict)
    """by the names of the parameters that are suggested together"""
    good: list[FrozenTrial] = field(default_factory=list)
    num_finished: int = -1  # when it was found which are good
    rng: SharedRng = field(default_factory=SharedRng)


class BatchedTPESampler(TPESampler):
    def __init__(self, fits: Fits, **arguments: Any) -> None:
        """Suggest as Optuna's sampler does, which takes ``arguments``, but by ``fits``.

        What is fitted is left there for other samplers of the same study.
        """
        super().__init__(**arguments)
        self._fits = fits

    def seeded(self, seed: int) -> "BatchedTPESampler":
        """Return the same with another seed; to make one takes a good part of a suggestion."""
        other = copy(self)
        other._rng = TurnOfRng(self._fits.rng, seed)
        other._random_sampler = copy(self._random_sampler)
        other._random_sampler._rng = other._rng
        return other

    def _sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space or self._num_finished(study) < self._n_startup_trials:
            return {}
        return self._sample(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        asked = study, trial, param_name, param_distribution
        if self._num_finished(study) < self._n_startup_trials:
            return self._random_sampler.sample_independent(*asked)
        return super().sample_independent(*asked)

    def _num_finished(self, study: Study) -> int:
        """Return how many trials a suggestion learns from; Optuna would look at every trial."""
        return study._storage.get_n_trials(study._study_id, FINISHED)

    def _sample(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        count, study_id = study._storage.get_n_trials, study._study_id
        if not self._constant_liar or count(study_id) < MANY:
            return super()._sample(study, trial, search_space)
        num_finished = self._num_finished(study)
        names = frozenset(search_space)
        fit = self._fits.by_names.get(names)
        are_few = count(study_id, TrialState.RUNNING) < AT_ONCE
        if fit is None or are_few or fit.is_used_up or have_grown(fit.num_finished, num_finished):
            fit = self._fit(study, trial, search_space, is_exact=are_few)
            self._fits.by_names[names] = fit
        if not fit.drawn:
            number = 1 if are_few else max(1, min(DRAWN_AT_ONCE, fit.num_negligible))
            fit.drawn = self._draw(fit, search_space, number)
        candidates = fit.drawn.pop()
        chosen = self._compare(candidates.places, candidates.log_good - candidates.log_bad)
        for name, value in chosen.items():
            fit.suggested.setdefault(name, []).append(value)
        fit.num_suggested += 1
        return {name: search_space[name].to_external_repr(chosen[name]) for name in search_space}

    def _fit(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
        *,
        is_exact: bool,
    ) -> Fit:
        num_finished = self._num_finished(study)
        good = self._good(study, num_finished, is_exact=is_exact)
        bad = self._some_bad(study, trial)
        num_running = study._storage.get_n_trials(study._study_id, TrialState.RUNNING)
        num_bad = num_finished - len(good) + num_running - 1
        weight = float(default_weights(num_bad).sum())
        return Fit(
            num_finished,
            Density(self._build_parzen_estimator(study, search_space, good, handle_below=True)),
            Density(self._build_parzen_estimator(study, search_space, bad, handle_below=False)),
            weight,
        )

    def _good(self, study: Study, num_finished: int, *, is_exact: bool) -> list[FrozenTrial]:
        """Return the best of the finished trials, looked for when more have finished."""
        fits = self._fits
        is_old = fits.num_finished != num_finished
        if is_old and (is_exact or have_grown(fits.num_finished, num_finished)):
            default = default_gamma_multiobjective if study._is_multi_objective() else default_gamma
            finished = study._get_trials(deepcopy=False, states=FINISHED, use_cache=True)
            num_good = (self._gamma or default)(num_finished)
            fits.good, _ = _split_trials(study, finished, num_good)
            fits.num_finished = num_finished
        return fits.good

    def _some_bad(self, study: Study, trial: FrozenTrial) -> list[FrozenTrial]:
        """Return other trials that run or have finished, by number; of very many, some at random.

        To look at each of 150,000 takes as long as 50 suggestions.
        """
        every = study._get_trials(deepcopy=False, use_cache=True)
        left_out = {own.number for own in self._fits.good} | {trial.number}
        places: Iterable[int] = range(len(every))
        if len(every) > MANY_BAD:
            places = dict.fromkeys(self._rng.rng.randint(len(every), size=MANY_BAD).tolist())
        bad = [
            every[place]
            for place in places
            if every[place].state in (*FINISHED, TrialState.RUNNING)
            and every[place].number not in left_out
        ]
        if len(bad) > MOST_BAD:
            chosen = self._rng.rng.choice(len(bad), MOST_BAD, replace=False)
            bad = [bad[place] for place in chosen]
        return sorted(bad, key=lambda own: own.number)

    def _draw(
        self, fit: Fit, search_space: dict[str, BaseDistribution], num_suggestions: int
    ) -> list[Candidates]:
        """Return candidates for each of the next suggestions."""
        size = self._n_ei_candidates
        places = fit.good.sample(self._rng.rng, num_suggestions * size)
        log_good, log_bad = fit.good.log_pdf(places), fit.bad.log_pdf(places)
        if fit.num_suggested and fit.num_suggested + num_suggestions > fit.num_negligible:
            log_bad = self._with_suggested(log_bad, fit, places, search_space)
        drawn = Candidates(places, log_good, log_bad)
        return [drawn.part(number, size) for number in range(num_suggestions)]

    def _with_suggested(
        self, log_bad: Floats, fit: Fit, places: Points, search_space: dict[str, BaseDistribution]
    ) -> Floats:
        """Return the log density of bad trials and earlier suggestions at all places, float64."""
        values = {name: np.asarray(fit.suggested[name]) for name in search_space}
        parameters = self._parzen_estimator_parameters
        newer = Density(self._parzen_estimator_cls(values, search_space, parameters))
        share = fit.num_suggested / (fit.bad_weight + fit.num_suggested)
        both: Floats = np.logaddexp(
            np.log1p(-share) + log_bad, np.log(share) + newer.log_pdf(places)
        )
        return both
