"""Samplers whose suggestions depend on nothing but the seed, the trial's number and the history.

A driver that is killed and started again, even between two suggestions of one trial, therefore asks
for the same trials as one that never stopped. Optuna's samplers carry a random state from trial to
trial; here each suggestion gets a new one.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Callable
from typing import Any, assert_never

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial

from hpsearch.study.listed import listed_points
from hpsearch.study.options import (
    KNOW_BEFOREHAND,
    CMAESOptions,
    GPOptions,
    GridOptions,
    ListedOptions,
    QMCOptions,
    RandomOptions,
    Sampler,
    TPEOptions,
)
from hpsearch.study.sequences import SequenceSampler, grid_points, in_turn, qmc_points
from hpsearch.study.space import SearchSpace


def build_sampler(options: Sampler, seed: int, space: SearchSpace) -> BaseSampler:
    """Return the sampler of a study; ``seed`` is the study's own, the same for every trial."""
    match options:
        case QMCOptions():
            return SequenceSampler(space, qmc_points(space, seed, options.sequence))
        case GridOptions():
            return SequenceSampler(space, grid_points(space, seed))
        case ListedOptions():
            return SequenceSampler(space, in_turn(listed_points(space, options.configurations)))
        case RandomOptions():
            return ReplayableSampler(seed, _random)
        case TPEOptions():
            # Groups of conditional parameters are found by the sampler itself.
            intersects = options.multivariate and not space.is_conditional
            joint_space = IntersectionSearchSpace(include_pruned=True) if intersects else None
            return ReplayableSampler(seed, lambda seed: _tpe(options, seed, space), joint_space)
        case CMAESOptions():
            return ReplayableSampler(seed, lambda seed: _cmaes(options, seed))
        case GPOptions():
            return ReplayableSampler(seed, lambda seed: _gp(options, seed))
        case _:
            assert_never(options)


def blind(options: Sampler) -> Sampler:
    """Return a sampler that learns nothing from a study's trials: at random where it would.

    For the first members of a population: what their descendants came to after many intervals says
    nothing of what a beginner comes to after one.
    """
    return options if isinstance(options, KNOW_BEFOREHAND) else RandomOptions("random")


class ReplayableSampler(BaseSampler):
    """Asks a new sampler for every suggestion, seeded by the trial's number and what is asked.

    ``make`` returns a sampler for a seed. None is kept longer than for one joint suggestion, and
    none is told of the end of a trial: those built here learn from the storage alone. Where what
    they suggest together is an intersection over all trials, ``joint_space`` remembers it.
    """

    def __init__(
        self,
        seed: int,
        make: Callable[[int], BaseSampler],
        joint_space: IntersectionSearchSpace | None = None,
    ) -> None:
        self._seed = seed
        self._make = make
        self._joint_space = joint_space
        self._joint: BaseSampler | None = None

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that are suggested together; `sample_relative` comes next."""
        self._joint = self._make(derive_seed(self._seed, trial.number, "joint"))
        if self._joint_space is None:
            return self._joint.infer_relative_search_space(study, trial)
        # It reads the trials that finished since, where a new sampler would read every one.
        shared = self._joint_space.calculate(study, use_cache=True)
        return {name: one for name, one in shared.items() if not one.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the values that are suggested together."""
        interrupted = _shared_sample(trial)
        if interrupted is not None:
            return interrupted
        assert self._joint is not None, "Optuna infers the space of a trial before it samples"
        return self._joint.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Return the value of one parameter; it does not depend on the order of suggestions."""
        sampler = self._make(derive_seed(self._seed, trial.number, f"parameter {param_name}"))
        return sampler.sample_independent(study, trial, param_name, param_distribution)


def derive_seed(seed: int, number: int, purpose: str) -> int:
    """Return a seed of 31 bits, unrelated to that of any other trial or purpose."""
    digest = hashlib.sha256(f"{seed}/{number}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _shared_sample(trial: FrozenTrial) -> dict[str, Any] | None:
    """Return what an interrupted suggestion of this trial has already drawn.

    TPE and GP leave their joint sample in these attributes of the running trial. GP would count
    it as one of the other running trials if the trial drew again.
    """
    for prefix in ("tpe:relative_params", "gp:relative_params"):
        parts = sorted(
            (int(key.rpartition(":")[2]), text)
            for key, text in trial.system_attrs.items()
            if key.startswith(f"{prefix}:")
        )
        try:
            sample: dict[str, Any] = json.loads("".join(text for _, text in parts))
        except json.JSONDecodeError:
            continue  # absent, or cut off between two parts: the sample was not used yet
        return sample
    return None


def _random(seed: int) -> BaseSampler:
    return optuna.samplers.RandomSampler(seed=seed)


def _tpe(options: TPEOptions, seed: int, space: SearchSpace) -> BaseSampler:
    with warnings.catch_warnings():
        # Without groups, parameters that some trials lack would be suggested at random alone.
        warnings.filterwarnings("ignore", "Argument ``group``", ExperimentalWarning)
        return optuna.samplers.TPESampler(
            n_startup_trials=options.n_startup_trials,
            n_ei_candidates=options.n_ei_candidates,
            multivariate=options.multivariate,
            group=options.multivariate and space.is_conditional,
            constant_liar=options.constant_liar,
            seed=seed,
        )


def _cmaes(options: CMAESOptions, seed: int) -> BaseSampler:
    return optuna.samplers.CmaEsSampler(
        n_startup_trials=options.n_startup_trials,
        popsize=options.popsize,
        warn_independent_sampling=False,  # told once, by remarks.py
        seed=seed,
    )


def _gp(options: GPOptions, seed: int) -> BaseSampler:
    # It would warn that it is slower without the package greenlet, which remarks.py tells.
    logging.getLogger("optuna._gp.batched_lbfgsb").setLevel(logging.ERROR)
    return optuna.samplers.GPSampler(
        n_startup_trials=options.n_startup_trials,
        warn_independent_sampling=False,  # told once, by remarks.py
        seed=seed,
    )
