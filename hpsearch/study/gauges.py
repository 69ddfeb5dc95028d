"""A study as metrics for Prometheus, served by its driver; a failure here never ends the study.

Names begin with hpsearch_study_, and every metric has the label study. Counters made
from events go on where an earlier driver stopped; those of the driver itself begin at 0 with it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final, Literal

from hpsearch.cluster.failures import KINDS
from hpsearch.cluster.records import Heartbeat
from hpsearch.monitor.prometheus import Endpoint, Histogram, LabelValues, Metric, MetricsSnapshot
from hpsearch.study.options import PrometheusOptions
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.study.spec import Objective
from hpsearch.study.state import STATUSES
from hpsearch.study.url import read_token
from hpsearch.study.view import StudyView
from hpsearch.study.work import pace

PREFIX: Final = "hpsearch_study_"
WAITS: Final = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)
"""seconds that tell a job which began at once from one that was queued for a day"""

Row = tuple[str, str | None, str, float | Mapping[str, float] | None]
"""of a metric: its name, which ends in _total if it is a counter; its label beside study, if it has
one; its help; its value, None where there is none, or its values by that label"""


@dataclass(frozen=True)
class DriverFigures:
    round_seconds: float  # that its last round took
    num_calls: int  # of the scheduler, since it began
    is_refused: bool  # whether the last submission of jobs failed
    heartbeats: Callable[[], Mapping[int, Heartbeat]]  # that it saw in that round, by trial


def gauges(view: StudyView, driver: DriverFigures, now: float) -> list[Metric | Histogram]:
    study, metrics = view.name, list[Metric | Histogram]()
    rows = (*_of_study(view, now), *_of_driver(view, driver, now), *_counts(view))
    for name, label, text, value in (*rows, *_best(view), *_losses(view)):
        values: dict[LabelValues, float] = {}
        if isinstance(value, Mapping):
            values = {(study, key): float(number) for key, number in value.items()}
        elif value is not None:
            values = {(study,): float(value)}
        labels = ("study",) if label is None else ("study", label)
        kind: Literal["counter", "gauge"] = "counter" if name.endswith("_total") else "gauge"
        metrics.append(Metric(PREFIX + name, kind, text, labels, values))
    waits = [
        max(0.0, job.began_at - job.announced_at)
        for job in view.state.jobs.values()
        if job.began_at is not None
    ]
    text = "from a job's announcement to its beginning, as was seen"
    name = f"{PREFIX}queue_wait_seconds"
    return [*metrics, Histogram(name, text, ("study",), WAITS, {(study,): waits})]


def _of_study(view: StudyView, now: float) -> Iterator[Row]:
    state, spec = view.state, view.study.spec
    hours = spec.budget.gpu_hours
    yield "budget_trials", None, "trials that the study may have", spec.budget.trials
    text = "children of a population's closing, which are trials beyond its budget"
    yield "untrained_trials", None, text, state.num_untrained
    text = "time of GPUs that the study may spend; none where it has no such limit"
    yield "budget_gpu_seconds", None, text, None if hours is None else 3600 * hours
    queued = [job for job in state.live_jobs() if job.began_at is None]
    text = "for which the first of the jobs in the queue has waited so far; 0 if there is none"
    longest = max((max(0.0, now - job.announced_at) for job in queued), default=0.0)
    yield "longest_wait_seconds", None, text, longest
    running = sum(job.gpus for job in state.live_jobs() if job.began_at is not None)
    yield "gpus", None, "GPUs that running jobs occupy", running
    text = "time of GPUs that jobs have occupied"
    yield "gpu_seconds_total", None, text, state.gpu_seconds(now)
    judged = None if spec.population is None else state.population.num_judged
    yield "matches_judged_total", None, "matches of the population", judged


def _of_driver(view: StudyView, driver: DriverFigures, now: float) -> Iterator[Row]:
    steps, speed = pace(view, driver.heartbeats())
    text = "training steps made; one that was lost and made again is one"
    yield "training_steps_total", None, text, steps
    yield "steps_per_second", None, "training steps of all running trials", speed
    text = "calls of the scheduler by this driver"
    yield "scheduler_calls_total", None, text, driver.num_calls
    text = "whether the last submission of jobs failed"
    yield "scheduler_refuses", None, text, driver.is_refused
    yield "round_seconds", None, "that the driver's last round took", driver.round_seconds
    yield "look_timestamp_seconds", None, "when these metrics were taken", now


def _counts(view: StudyView) -> Iterator[Row]:
    state, status = view.state, view.status
    text = "1 for the status that the study has, 0 for all others"
    yield "status", "status", text, {known: known == status for known in STATUSES}
    yield "trials", "state", "trials by state", state.counts()
    live = state.live_jobs()
    running = sum(job.began_at is not None for job in live)
    states = {"queued": len(live) - running, "running": running}
    yield "jobs", "state", "jobs that have not ended, by state", states
    operators = state.population.operators.items()
    tried = {name: operator.tried for name, operator in operators}
    yield "children_total", "operator", "children made, by operator", tried
    adopted = {name: operator.accepted for name, operator in operators}
    text = "children that took their place in the population, by operator"
    yield "children_adopted_total", "operator", text, adopted


def _best(view: StudyView) -> Iterator[Row]:
    best = {objective.metric: _best_by(view, objective) for objective in view.study.spec.objectives}
    bests = {metric: trial for metric, trial in best.items() if trial is not None}
    for name, key, text in (
        ("best_value", "value", "of the best finished trial, or of a population's champion"),
        ("best_low", "low", "lower end of the 95 % interval of the best value"),
        ("best_high", "high", "upper end of the 95 % interval of the best value"),
    ):
        values = {metric: trial.metrics[metric][key] for metric, trial in bests.items()}
        yield name, "metric", text, values
    numbers = {metric: trial.number for metric, trial in bests.items()}
    yield "best_trial", "metric", "number of the best finished trial", numbers


def _best_by(view: StudyView, objective: Objective) -> Trial | None:
    champions = view.state.population.archive
    finished = [view.state.trials[champions[-1]]] if champions else view.state.told(COMPLETE)
    metric, sign = objective.metric, 1.0 if objective.goal == "maximize" else -1.0
    measured = [trial for trial in finished if metric in trial.metrics]
    return max(measured, key=lambda trial: sign * trial.metrics[metric]["value"], default=None)


def _losses(view: StudyView) -> Iterator[Row]:
    # Of every kind from the beginning: Prometheus takes no notice of a counter's first value.
    none, tally = dict.fromkeys(KINDS, 0), view.state.tally
    attempts = none | {kind: lost.attempts for kind, lost in tally.lost.items()}
    text = "attempts that ended without finishing their trial, by kind"
    yield "attempts_lost_total", "kind", text, attempts
    yield "trials_failed_total", "kind", "trials that failed, by kind", none | tally.failed
    seconds = none | {kind: lost.gpu_seconds for kind, lost in tally.lost.items()}
    text = "time of GPUs whose training was lost, by kind of failure"
    yield "gpu_seconds_wasted_total", "kind", text, seconds


REFRESH_SECONDS: Final = 5.0  # between two looks at the study
REMEDY: Final = "another study may have it; give prometheus of the study file another port"


@dataclass
class GaugeServer:
    """Keeps what is served up to date; whatever fails switches it off with a sentence."""

    options: PrometheusOptions | None  # where to serve; None: nowhere
    tell: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _next: float = field(default=-inf, init=False)  # when to look at the study again
    _served: tuple[MetricsSnapshot, Endpoint] | None = field(default=None, init=False)
    _highest: dict[str, Mapping[LabelValues, float]] = field(default_factory=dict, init=False)
    """values of counters that were shown"""

    def keep(self, view: StudyView, driver: DriverFigures) -> None:
        if self.options is None or self.clock() < self._next:
            return
        try:
            if self._served is None:
                token = read_token(self.options, view.study.path.parent)
                snapshot, place = MetricsSnapshot(), (self.options.host, self.options.port)
                self._served = snapshot, Endpoint(snapshot, *place, token=token, remedy=REMEDY)
            snapshot, _ = self._served
            snapshot.show([self._risen(metric) for metric in gauges(view, driver, time.time())])
        except Exception as error:
            self.options = None
            self.close()
            reason = str(error) or type(error).__name__
            self.tell(f"the study goes on without metrics for Prometheus: {reason}")
        self._next = self.clock() + REFRESH_SECONDS

    def close(self) -> None:
        if self._served is not None:
            self._served[1].close()
            self._served = None

    def _risen(self, metric: Metric | Histogram) -> Metric | Histogram:
        """Return a metric not below what was shown, if it is a counter.

        A killed job's work is taken back, but a fall means to Prometheus that a counter began anew.
        """
        if isinstance(metric, Histogram) or metric.kind != "counter":
            return metric
        before = self._highest.get(metric.name, {})
        values = {key: max(value, before.get(key, 0.0)) for key, value in metric.values.items()}
        self._highest[metric.name] = values
        return replace(metric, values=values)
