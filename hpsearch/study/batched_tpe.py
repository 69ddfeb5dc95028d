"""TPE for thousands of trials at once: one fit, then many suggestions, which repel each other.

Optuna's sampler fits the densities of good and of bad trials anew for each suggestion, and counts
those that run as bad. With 16,000 of them a suggestion takes 0.1 s and more. Here, where many run,
a fit serves all suggestions until another trial has finished; each joins the bad ones for the next.
Bergstra et al., "Algorithms for hyper-parameter optimization" (NeurIPS 2011), section 4.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import TPESampler
from optuna.samplers._tpe.sampler import (
    _split_trials,
    default_gamma,
    default_gamma_multiobjective,
    default_weights,
)
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from hpsearch.study.density import Density

MANY = 1_000  # trials, from which on Optuna's own sampler is left
AT_ONCE = 100
"""running trials, from which on a fit is used again: with fewer, each suggestion depends on nothing
but the history, so that a driver that is killed between two of them asks for the same"""
MOST_SUGGESTIONS = 256  # of one fit
MOST_BAD = 500
"""trials by which the density of bad ones is fitted; of more, so many at random"""

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)

Values = dict[str, list[float]]  # by parameter, as Optuna stores them


@dataclass
class Fit:
    num_finished: int  # when it was made
    good: Density
    bad: Density
    bad_weight: float  # of all bad trials together, where one that was just suggested has 1
    suggested: Values = field(default_factory=dict)
    num_suggested: int = 0


Fits = dict[frozenset[str], Fit]
"""by the names of the parameters that are suggested together"""


class BatchedTPESampler(TPESampler):
    def __init__(self, fits: Fits, **arguments: Any) -> None:
        """Suggest as Optuna's sampler does, which takes ``arguments``, but by ``fits``.

        What is fitted is left there for other samplers of the same study.
        """
        super().__init__(**arguments)
        self._fits = fits

    def _sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        # The storage counts; Optuna would look at every trial.
        num_finished = study._storage.get_n_trials(study._study_id, FINISHED)
        if not search_space or num_finished < self._n_startup_trials:
            return {}
        return self._sample(study, trial, search_space)

    def _sample(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        count, study_id = study._storage.get_n_trials, study._study_id
        if not self._constant_liar or count(study_id) < MANY:
            return super()._sample(study, trial, search_space)
        num_finished = count(study_id, FINISHED)
        names = frozenset(search_space)
        fit = self._fits.get(names)
        is_used_up = fit is not None and (
            count(study_id, TrialState.RUNNING) < AT_ONCE
            or fit.num_finished != num_finished
            or fit.num_suggested == MOST_SUGGESTIONS
        )
        if fit is None or is_used_up:
            fit = self._fits[names] = self._fit(study, trial, search_space, num_finished)
        candidates = fit.good.sample(self._rng.rng, self._n_ei_candidates)
        gain = fit.good.log_pdf(candidates) - self._log_bad(fit, candidates, search_space)
        chosen = self._compare(candidates, gain)
        for name, value in chosen.items():
            fit.suggested.setdefault(name, []).append(value)
        fit.num_suggested += 1
        return {name: search_space[name].to_external_repr(chosen[name]) for name in search_space}

    def _fit(
        self,
        study: Study,
        trial: FrozenTrial,
        search_space: dict[str, BaseDistribution],
        num_finished: int,
    ) -> Fit:
        states = (*FINISHED, TrialState.RUNNING)
        trials = study._get_trials(deepcopy=False, states=states, use_cache=True)
        others = [other for other in trials if other.number != trial.number]
        default = default_gamma_multiobjective if study._is_multi_objective() else default_gamma
        good, bad = _split_trials(study, others, (self._gamma or default)(num_finished))
        weight = float(default_weights(len(bad)).sum())
        if len(bad) > MOST_BAD:
            places = self._rng.rng.choice(len(bad), MOST_BAD, replace=False)
            bad = [bad[place] for place in sorted(places)]
        return Fit(
            num_finished,
            Density(self._build_parzen_estimator(study, search_space, good, handle_below=True)),
            Density(self._build_parzen_estimator(study, search_space, bad, handle_below=False)),
            weight,
        )

    def _log_bad(
        self,
        fit: Fit,
        candidates: dict[str, np.ndarray],
        search_space: dict[str, BaseDistribution],
    ) -> np.ndarray:
        """Return the log density of bad trials and later suggestions, float64 (C,)."""
        log_bad: np.ndarray = fit.bad.log_pdf(candidates)
        if fit.num_suggested == 0:
            return log_bad
        values = {name: np.asarray(fit.suggested[name]) for name in search_space}
        parameters = self._parzen_estimator_parameters
        newer = Density(self._parzen_estimator_cls(values, search_space, parameters))
        share = fit.num_suggested / (fit.bad_weight + fit.num_suggested)
        both: np.ndarray = np.logaddexp(
            np.log1p(-share) + log_bad, np.log(share) + newer.log_pdf(candidates)
        )
        return both
