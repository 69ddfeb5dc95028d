"""The trials of a study in Optuna: asks for them, reports their values, tells their results."""

from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import NopPruner
from optuna.study._tell import _tell_with_warning
from optuna.trial import TrialState

from hpsearch.cluster.failures import LOST, OOM_GPU
from hpsearch.errors import ConflictError
from hpsearch.programs.config import TrialConfig, interval_of, read_trial_config, shape_of
from hpsearch.schema import Config, leaves
from hpsearch.study.breeding.lineage import island_number
from hpsearch.study.observe import CurveReport
from hpsearch.study.records import COMPLETE, FAIL, PRUNED, PlannedTrial, Trial
from hpsearch.study.samplers import RETRY_OF
from hpsearch.study.space import ALGORITHM, stored_point
from hpsearch.study.spec import Study
from hpsearch.study.storage import MirroredStorage

MAX_RUNGS = 20  # values that SQL holds of one learning curve; the whole curve is in metrics.jsonl

RUNG = "completed_rung_"  # how Optuna's successive halving names its notes in system attributes

REQUEST = "request"  # user attribute of a trial that a user enqueued: the request's id
FAILURE = "failure"  # user attribute of a trial that failed: the kind of its failure
MISFITS = "misfits"
"""user attribute of a trial that fails at once: parameters of which it has no possible values"""
ORIGIN = "origin"  # user attribute of a trial of a population: the key of its origin

_OPTUNA_STATES = {COMPLETE: TrialState.COMPLETE, PRUNED: TrialState.PRUNED, FAIL: TrialState.FAIL}


@contextmanager
def _only_writer() -> Iterator[None]:
    """Raise a ConflictError for another writer: one that ended a trial unknown to the mirror."""
    try:
        yield
    except UpdateFinishedTrialError as error:
        raise ConflictError(
            f"another driver has taken the study and told a trial ({error}); stop this one, or "
            "wait until that one ends"
        ) from error


class Trials:
    """What the driver does with Optuna; each call may be repeated after a crash."""

    def __init__(self, study: Study, optuna_study: optuna.Study, storage: MirroredStorage) -> None:
        self._study = study
        self._optuna = optuna_study
        self._storage = storage
        self._study_id = storage.get_study_id_from_name(study.spec.name)
        self._configs: dict[int, TrialConfig] = {}  # by trial, until it is told
        self._lengths: dict[int, _Length] = {}  # likewise
        self._orphans: list[int] | None = None  # created and not recorded; None: not looked up
        self.metric_names = tuple(objective.metric for objective in study.spec.objectives)

    @property
    def metric(self) -> str:
        return self.metric_names[0]

    def ask(
        self, known: Container[int], retries: Sequence[int], planned: Sequence[PlannedTrial]
    ) -> Trial:
        """Return a new trial: one that no event knows yet, a planned one, a retry, a suggestion.

        It is written when `asking` ends.
        """
        if self._orphans is None:
            running = self._optuna.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
            self._orphans = sorted(trial.number for trial in running if trial.number not in known)
        trial = self._next(retries, planned)
        while misfits := self._misfits(trial):
            trial.set_user_attr(MISFITS, misfits)
            self._optuna.tell(trial.number, state=TrialState.FAIL)
            trial = self._next(retries, planned)
        attrs = trial.user_attrs
        origin = next((origin for origin in planned if origin.key == attrs.get(ORIGIN)), None)
        if origin is None or origin.params is None:
            self._study.space.suggest(trial)
        retry_of = attrs.get(RETRY_OF)
        return Trial(trial.number, trial.params, retry_of=retry_of, origin=origin)

    def _next(self, retries: Sequence[int], planned: Sequence[PlannedTrial]) -> optuna.trial.Trial:
        trial = self._next_orphan({origin.key for origin in planned})
        if trial is not None:
            return trial
        if planned:
            return self._start_planned(planned[0])
        if retries:
            tried = self._storage.get_trial(self._id(retries[0]))
            return self._create(tried.params, tried.distributions, {RETRY_OF: retries[0]})
        return self._optuna.ask()

    def _misfits(self, trial: optuna.trial.Trial) -> list[str]:
        """Return the parameters of a trial for which Optuna was given what their ranges lack.

        By `enqueue` none is: only who calls Optuna's own `enqueue_trial` can do that.
        """
        attrs = self._storage.get_trial(trial._trial_id).system_attrs
        given: dict[str, Any] = attrs.get("fixed_params", {})
        ranges = self._study.space.distributions() if given else {}
        return [name for name in ranges if name in given and not _fits(ranges[name], given[name])]

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Write the trials that are asked for in the block together, at its end."""
        self._storage.discard()  # of asks that failed
        yield
        self._storage.keep(self._study_id)

    def enqueue(self, request: str, params: Mapping[str, Any]) -> None:
        """Let the next trial that is asked for have some values; once for each ``request``."""
        known = self._optuna.get_trials(deepcopy=False)
        if not any(trial.user_attrs.get(REQUEST) == request for trial in known):
            stored = stored_point(self._study.space, params)
            self._optuna.enqueue_trial(stored, user_attrs={REQUEST: request})

    def recount(self) -> None:
        """Forget which trials were created and not recorded; the next `ask` looks again."""
        self._orphans = None

    def _next_orphan(self, planned: Collection[str]) -> optuna.trial.Trial | None:
        """Return a trial that no event knows; one whose plan a closing has replaced fails."""
        while self._orphans:
            trial = optuna.trial.Trial(self._optuna, self._id(self._orphans.pop(0)))
            if trial.user_attrs.get(ORIGIN) in (None, *planned):
                return trial
            self._optuna.tell(trial.number, state=TrialState.FAIL)
        return None

    def _start_planned(self, origin: PlannedTrial) -> optuna.trial.Trial:
        if origin.params is None:
            trial = self._optuna.ask()
            trial.set_user_attr(ORIGIN, origin.key)
            return trial
        distributions = self._study.space.distributions()
        ranges = {name: distributions[name] for name in origin.params}
        attrs = {ORIGIN: origin.key, "generation": origin.generation, "parents": origin.parents}
        attrs |= {"operator": origin.operator["name"]}
        return self._create(dict(origin.params), ranges, attrs)

    def _create(
        self,
        params: dict[str, Any],
        distributions: dict[str, BaseDistribution],
        attrs: dict[str, Any],
    ) -> optuna.trial.Trial:
        template = optuna.trial.create_trial(
            state=TrialState.RUNNING, params=params, distributions=distributions, user_attrs=attrs
        )
        created = self._storage.create_new_trial(self._study_id, template)
        return optuna.trial.Trial(self._optuna, created)

    def is_told(self, trial: Trial) -> bool:
        """Return whether Optuna knows its end, perhaps of a driver that did not record it."""
        return self._storage.get_trial(self._id(trial.number)).state.is_finished()

    def report(self, trial: Trial, report: CurveReport, *, last: bool) -> bool:
        """Tell a value of a curve; return whether it prunes, which the ``last`` does not."""
        trial_id = self._id(trial.number)
        if report.step not in self._storage.get_trial(trial_id).intermediate_values:
            with _only_writer():
                self._storage.set_trial_intermediate_value(trial_id, report.step, report.value)
        if self.never_prunes or last:
            return False
        # Rungs noted by a driver that died before it recorded the verdict. With them the pruner
        # would believe that it had already looked at this one.
        self._storage.hide_system_attrs(trial_id, self.rungs(trial)[trial.rungs :])
        return bool(self._optuna.pruner.prune(self._optuna, self._storage.get_trial(trial_id)))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Write what is reported and told in the block together, at its end."""
        with _only_writer(), self._storage.together(self._study_id):
            yield

    def tell(
        self,
        trial: Trial,
        outcome: str,
        metrics: Mapping[str, Mapping[str, float]],
        *,
        failure: str | None,
    ) -> None:
        """Tell how a trial ended; a trial that has been told stays as it is.

        One that needed more memory than a GPU has is infeasible, which samplers learn to avoid: of
        a failed trial they would learn nothing.
        """
        self._configs.pop(trial.number, None)
        self._lengths.pop(trial.number, None)
        trial_id = self._id(trial.number)
        if self.is_told(trial):
            return
        state = _OPTUNA_STATES[outcome]
        values = None
        if outcome == COMPLETE:
            values = [metrics[name]["value"] for name in self.metric_names]
        with _only_writer():
            for name in self.metric_names:
                if name in metrics:
                    interval = [metrics[name]["low"], metrics[name]["high"]]
                    self._storage.set_trial_user_attr(trial_id, f"{name} 95%", interval)
            if failure is not None:
                self._storage.set_trial_user_attr(trial_id, FAILURE, failure)
            if failure == OOM_GPU:
                optuna.trial.Trial(self._optuna, trial_id).set_constraint("gpu_memory", 1.0)
                state = TrialState.PRUNED
            # As Study.tell, which copies the whole trial in order to return it.
            _tell_with_warning(self._optuna, trial.number, values, state)

    def failure(self, trial: Trial) -> str | None:
        """Return the kind of failure that a driver before told Optuna, None if of none."""
        stored = self._storage.get_trial(self._id(trial.number))
        if not stored.state.is_finished() or stored.state == TrialState.COMPLETE:
            return None
        return str(stored.user_attrs.get(FAILURE, LOST))

    def group_key(self, trial: Trial) -> Hashable:
        """Return the same for trials that can share a job: of one shape, and of one island."""
        return self.shape(trial), island_number(trial.origin, self._study.spec.population)

    def config(self, trial: Trial) -> TrialConfig:
        """Return a trial's complete configuration, or that of the last copy in its place."""
        config = self._configs.get(trial.number)
        if config is None:
            config = read_trial_config(self._study.config_of(trial), source=f"trial {trial.number}")
            if trial.told is None:  # else it would never be forgotten
                self._configs[trial.number] = config
        return config

    def shape(self, trial: Trial) -> str:
        """Return a name of the trial's shape; trials of one shape can train together."""
        return self._shapes.of(trial, self.config)

    @cached_property
    def _shapes(self) -> "Shapes":
        return Shapes(self._study)

    @property
    def never_prunes(self) -> bool:
        """Whether no value prunes; Optuna prunes by one objective alone."""
        return len(self.metric_names) > 1 or isinstance(self._optuna.pruner, NopPruner)

    def is_rung(self, trial: Trial, step: int) -> bool:
        """Return whether the value at a step is told; at most MAX_RUNGS of a trial are."""
        return step % self._rung_steps(trial) == 0

    def is_at_last_rung(self, trial: Trial) -> bool:
        """Return whether a trial has told all values but the last, or its end."""
        reached = max(trial.reported, default=trial.first_step)
        return trial.is_over or reached + self._rung_steps(trial) >= self.steps(trial)

    def steps(self, trial: Trial) -> int:
        return self._length(trial).steps

    def _rung_steps(self, trial: Trial) -> int:
        length = self._length(trial)
        steps = length.steps - trial.first_step
        return length.interval * max(1, ceil(steps / length.interval / MAX_RUNGS))

    def _length(self, trial: Trial) -> "_Length":
        length = self._lengths.get(trial.number)
        if length is None:
            config = self._study.config_of(trial)
            length = _Length(config["steps"], interval_of(config))
            if trial.told is None:  # else it would never be forgotten
                self._lengths[trial.number] = length
        return length

    def rungs(self, trial: Trial) -> list[str]:
        """Return the names under which successive halving has noted a trial's rungs, in order."""
        attrs = self._storage.get_trial(self._id(trial.number)).system_attrs
        rungs = [name for name in attrs if name.startswith(RUNG)]
        return sorted(rungs, key=lambda name: int(name.removeprefix(RUNG)))

    def _id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)


def _fits(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return distribution._contains(distribution.to_internal_repr(value))
    except (TypeError, ValueError):  # no number, no choice, or NaN
        return False


class _Length(NamedTuple):
    steps: int
    interval: int  # between two evaluations


MOST_SHAPES = 1000  # that are known at a time


class Shapes:
    """Names of shapes, worked out once for all trials that differ in what members may differ in."""

    def __init__(self, study: Study) -> None:
        bases: list[tuple[str | int, Config]] = [*study.bases.items(), *enumerate(study.founders)]
        searched = {*study.space.parameters}
        self._free = {
            base: _free_paths(read_trial_config(config, source="a base")) & searched
            for base, config in bases
        }
        """by algorithm, or founder: the parameters in which members may differ"""
        self._first = next(iter(study.bases))
        self._known: dict[str, str | None] = {}
        """None where a trial of the key shares what members of its base may differ in"""

    def of(self, trial: Trial, config_of: Callable[[Trial], TrialConfig]) -> str:
        params, origin = trial.last_params, trial.origin
        founder = None if origin is None else origin.founder
        base = params.get(ALGORITHM, self._first) if founder is None else founder
        free = self._free[base]
        rest = sorted(item for item in params.items() if item[0] not in free)
        key = repr((base, rest, None if origin is None else origin.steps))
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) == MOST_SHAPES:
                self._known.clear()
            config = config_of(trial)
            shape = shape_of(config)
            is_for_all = free & params.keys() <= _free_paths(config)
            self._known[key] = shape if is_for_all else None
        return shape


def _free_paths(config: TrialConfig) -> set[str]:
    """Return the paths of the values in which members that train together may differ."""
    return {leaf.path for leaf in leaves(config) if leaf.per_member}
