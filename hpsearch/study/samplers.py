"""Samplers whose suggestions depend on nothing but seed, trial number and history; pruners.

So a driver that was killed, even between two suggestions of a trial, asks for the same trials.
Optuna's samplers carry a random state or count in the study; here each suggestion gets a new one.
With a hundred running trials or more TPE makes many suggestions by one fit, see batched_tpe.py: a
new driver fits anew, so that those after its first one may differ.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import gcd
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from hpsearch.errors import unknown_name
from hpsearch.study import options
from hpsearch.study.batched_tpe import FINISHED, BatchedTPESampler, Fits
from hpsearch.study.space import SearchSpace, stored_point

GOLDEN_RATIO = 0.6180339887498949

RETRY_OF = "retry_of"  # user attribute of a trial that tries a failed one again

Point = Callable[[int], dict[str, Any]]  # values for a place in a sequence, as Optuna stores them


class SequenceSampler(BaseSampler):
    def __init__(self, space: SearchSpace, point: Point) -> None:
        self._distributions = space.distributions()
        self._point = point

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        # A retry has a number and takes no point.
        before = study._get_trials(deepcopy=False, use_cache=True)[: trial.number]
        return self._point(trial.number - sum(RETRY_OF in other.user_attrs for other in before))

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        raise KeyError(unknown_name("parameter", param_name, self._distributions))


def _qmc_points(space: SearchSpace, seed: int, qmc_options: options.QMCOptions) -> Point:
    def point(number: int) -> dict[str, Any]:
        # Imported here, because scipy.stats takes half a second.
        from scipy.stats import qmc

        sequence = {"sobol": qmc.Sobol, "halton": qmc.Halton}[qmc_options.sequence]
        engine = sequence(len(space.order), scramble=True, seed=seed)
        if number:  # Sobol.fast_forward(0) raises ValueError
            engine.fast_forward(number)
        shares = zip(space.order, engine.random(1)[0], strict=True)
        return {name: space.parameters[name].quantile(float(share)) for name, share in shares}

    return point


def _grid_points(space: SearchSpace, seed: int) -> Point:
    count = space.num_configurations()
    assert count is not None, "a continuous range is refused when the study file is read"
    stride = max(1, round(count * GOLDEN_RATIO))
    while gcd(stride, count) > 1:  # else it would not visit every index
        stride += 1
    return lambda number: space.configuration((seed + number * stride) % count)


def build_sampler(sampler: options.Sampler, seed: int, space: SearchSpace) -> BaseSampler:
    match sampler:
        case options.QMCOptions():
            return SequenceSampler(space, _qmc_points(space, seed, sampler))
        case options.GridOptions():
            return SequenceSampler(space, _grid_points(space, seed))
        case options.ListedOptions():
            points = [stored_point(space, values) for values in sampler.configurations]
            return SequenceSampler(space, lambda number: points[number % len(points)])
        case options.RandomOptions():
            return ReplayableSampler(seed, optuna.samplers.RandomSampler)
        case options.TPEOptions():
            intersects = sampler.multivariate and not space.is_conditional
            joint_space = JointSpace() if intersects else None
            is_grouped = sampler.multivariate and space.is_conditional
            if is_grouped:  # a sampler that learns of the groups, anew each time
                return ReplayableSampler(seed, partial(_tpe, sampler, Fits(), is_grouped=True))
            return ReplayableSampler(
                seed, _tpe(sampler, Fits(), is_grouped=False).seeded, joint_space
            )
        case options.CMAESOptions():
            return ReplayableSampler(seed, partial(_cmaes, sampler))
        case options.GPOptions():
            # It would warn that it is slower without greenlet, which spec_warnings.py tells.
            logging.getLogger("optuna._gp.batched_lbfgsb").setLevel(logging.ERROR)
            gp = partial(
                optuna.samplers.GPSampler,
                **_arguments(sampler),
                warn_independent_sampling=False,  # told once, by spec_warnings.py
            )
            return ReplayableSampler(seed, gp)
        case options.SamplerExtension():
            return ReplayableSampler(seed, sampler.build)


def blind(sampler: options.Sampler) -> options.Sampler:
    """Return a sampler that learns nothing from trials, for a population's first members."""
    is_blind = isinstance(sampler, options.KNOW_BEFOREHAND)
    return sampler if is_blind else options.RandomOptions("random")


class ReplayableSampler(BaseSampler):
    """Asks a new sampler for every suggestion, seeded by the trial's number and what is asked.

    ``make`` returns a sampler for its ``seed``. None is kept longer than for one joint suggestion,
    and none is told of the end of a trial: those built here learn from the storage alone. Where
    what they suggest together is an intersection over all trials, ``joint_space`` remembers it.
    """

    def __init__(
        self,
        seed: int,
        make: Callable[..., BaseSampler],
        joint_space: "JointSpace | None" = None,
    ) -> None:
        self._seed = seed
        self._make = make
        self._joint_space = joint_space
        self._joint: BaseSampler | None = None

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the parameters that are suggested together; `sample_relative` comes next."""
        self._joint = self._make(seed=derive_seed(self._seed, trial.number, "joint"))
        if self._joint_space is None:
            return self._joint.infer_relative_search_space(study, trial)
        return self._joint_space.of(study)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
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
        seed = derive_seed(self._seed, trial.number, f"parameter {param_name}")
        sampler = self._make(seed=seed)
        return sampler.sample_independent(study, trial, param_name, param_distribution)


class JointSpace:
    """The parameters that all finished trials of a study have in common, each looked at once.

    Optuna's `IntersectionSearchSpace`, which gives the same, goes through all trials since the
    first that runs whenever another one has finished: half a second with 130,000 of them.
    """

    def __init__(self) -> None:
        self._shared: dict[str, BaseDistribution] | None = None  # None before the first trial
        self._unfinished: list[int] = []  # numbers of those that had not ended at the last look
        self._num_seen = self._num_finished = 0  # at the last look

    def of(self, study: Study) -> dict[str, BaseDistribution]:
        num_finished = study._storage.get_n_trials(study._study_id, FINISHED)
        if num_finished != self._num_finished:
            self._look(study._get_trials(deepcopy=False, use_cache=True))
            self._num_finished = num_finished
        return {name: own for name, own in (self._shared or {}).items() if not own.single()}

    def _look(self, trials: Sequence[FrozenTrial]) -> None:
        looked_at = [*self._unfinished, *range(self._num_seen, len(trials))]
        self._num_seen, self._unfinished = len(trials), []
        for number in looked_at:
            trial = trials[number]
            if trial.state in FINISHED:
                shared = trial.distributions if self._shared is None else self._shared
                others = trial.distributions
                common = {name: own for name, own in shared.items() if others.get(name) == own}
                self._shared = dict(sorted(common.items()))
            elif not trial.state.is_finished():
                self._unfinished.append(number)


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


def _tpe(
    tpe: options.TPEOptions, fits: Fits, *, is_grouped: bool, seed: int = 0
) -> BatchedTPESampler:
    with warnings.catch_warnings():
        # Without groups, parameters that some trials lack would be suggested at random alone.
        warnings.filterwarnings("ignore", "Argument ``group``", ExperimentalWarning)
        return BatchedTPESampler(fits, **_arguments(tpe), group=is_grouped, seed=seed)


class _ManySeeds:
    """Stands for the random numbers by which Optuna's CMA-ES seeds each suggestion.

    Optuna draws one of 65,535 seeds, so that of a thousand running trials some would be equal.
    """

    def __init__(self, seed: int) -> None:
        self._state = np.random.RandomState(seed)

    @property
    def rng(self) -> "_ManySeeds":
        return self

    def randint(self, low: int, high: int) -> int:
        return int(self._state.randint(low, max(high, 2**31 - 2)))


def _cmaes(cmaes: options.CMAESOptions, seed: int) -> optuna.samplers.CmaEsSampler:
    sampler = optuna.samplers.CmaEsSampler(
        **_arguments(cmaes),
        seed=seed,
        warn_independent_sampling=False,  # told once, by spec_warnings.py
    )
    sampler._cma_rng = _ManySeeds(seed)  # type: ignore[assignment]
    return sampler


class Halving(optuna.pruners.SuccessiveHalvingPruner):
    """Optuna's successive halving, whose ``auto`` gives the same rungs after a restart.

    Optuna takes the longest of the trials that have finished when it first looks.
    """

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        if self._min_resource is None:
            complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            lasts = [
                (other.datetime_complete, other.number, other.last_step)
                for other in complete
                if other.last_step is not None
            ]
            if lasts:
                *_, last_step = min(lasts)
                self._min_resource = max(last_step // 100, 1)
        return super().prune(study, trial)


PRUNERS: Mapping[type, type[BasePruner]] = {
    options.NoPruning: optuna.pruners.NopPruner,
    options.MedianOptions: optuna.pruners.MedianPruner,
    options.SuccessiveHalvingOptions: Halving,
    options.HyperbandOptions: optuna.pruners.HyperbandPruner,
}


def build_pruner(pruner: options.Pruner) -> BasePruner:
    if isinstance(pruner, options.PrunerExtension):
        return pruner.build()
    return PRUNERS[type(pruner)](**_arguments(pruner))


def _arguments(given: options.Sampler | options.Pruner) -> dict[str, Any]:
    """Return what Optuna is told: its arguments have the names of our options."""
    return {name: value for name, value in vars(given).items() if name != "name"}
