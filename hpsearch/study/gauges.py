"""A study as metrics for Prometheus: what a driver serves, as plain data.

Names begin with hpsearch_study_, and every metric has the label study. Counters of what the events
tell go on where a driver before left off; those of the driver itself begin with it.

Metrics of a driven study, served to Prometheus; no study ends for want of them.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from hpsearch.cluster.failures import KINDS
from hpsearch.cluster.records import Heartbeat
from hpsearch.monitor.prometheus import (
    Endpoint,
    Histogram,
    LabelValues,
    Metric,
    Metrics,
    MetricsSnapshot,
)
from hpsearch.study.gauge_token import read_token
from hpsearch.study.options import PrometheusOptions
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.study.spec import Objective
from hpsearch.study.state import STATUSES
from hpsearch.study.view import StudyView
from hpsearch.study.work import failures, pace, waste

PREFIX: Final = "hpsearch_study_"
WAITS: Final = (10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 28800, 86400)
"""seconds that tell a job which began at once from one that was queued for a day"""


@dataclass(frozen=True)
class DriverFigures:
    """What a driver knows of itself."""

    round_seconds: float
    """that its last round took"""
    num_calls: int
    """of the scheduler, since it began"""
    is_refused: bool
    """whether the scheduler took no jobs the last time"""
    beats: Mapping[int, Heartbeat]
    """signs of life that it saw in that round, by trial"""


def gauges(view: StudyView, driver: DriverFigures, now: float) -> Metrics:
    """Return all metrics of a study at a moment, in seconds since the epoch."""
    of_study = _OfStudy(view.study.spec.name)
    return [
        *_trials(view, of_study),
        *_best(view, of_study),
        *_jobs(view, of_study, now),
        *_work(view, driver, of_study, now),
        *_losses(view, of_study),
        *_population(view, of_study),
        *_driver(driver, of_study, now),
    ]


class _OfStudy:
    """Makes metrics whose first label is the study's name; counters are those named _total."""

    def __init__(self, study: str) -> None:
        self._study = study

    def one(self, name: str, text: str, value: float | None) -> Metric:
        """Return a number; the metric is empty where there is no value."""
        values: dict[LabelValues, float] = {}
        if value is not None:
            values[(self._study,)] = float(value)
        return Metric(PREFIX + name, _kind(name), text, ("study",), values)

    def each(self, name: str, text: str, label: str, numbers: Mapping[str, float]) -> Metric:
        """Return a number for each value of a label."""
        values: dict[LabelValues, float] = {}
        for key, number in numbers.items():
            values[(self._study, key)] = float(number)
        return Metric(PREFIX + name, _kind(name), text, ("study", label), values)

    def histogram(self, name: str, text: str, seconds: list[float]) -> Histogram:
        """Return how often something took how long."""
        return Histogram(PREFIX + name, text, ("study",), WAITS, {(self._study,): seconds})


def _kind(name: str) -> Literal["gauge", "counter"]:
    return "counter" if name.endswith("_total") else "gauge"


def _trials(view: StudyView, of_study: _OfStudy) -> Iterator[Metric]:
    spec, status = view.study.spec, view.status
    yield of_study.each(
        "status",
        "1 for the status that the study has, 0 for all others",
        "status",
        {known: known == status for known in STATUSES},
    )
    yield of_study.each("trials", "trials by state", "state", view.state.counts())
    yield of_study.one("budget_trials", "trials that the study may have", spec.budget.trials)
    yield of_study.one(
        "untrained_trials",
        "children of a population's closing, which are trials beyond its budget",
        view.state.num_untrained,
    )
    hours = spec.budget.gpu_hours
    yield of_study.one(
        "budget_gpu_seconds",
        "time of GPUs that the study may spend; none where it has no such limit",
        None if hours is None else 3600 * hours,
    )


def _best(view: StudyView, of_study: _OfStudy) -> Iterator[Metric]:
    best = {objective.metric: _best_by(view, objective) for objective in view.study.spec.objectives}
    bests = {metric: trial for metric, trial in best.items() if trial is not None}
    for name, key, text in (
        ("best_value", "value", "of the best finished trial, or of a population's champion"),
        ("best_low", "low", "lower end of the 95 % interval of the best value"),
        ("best_high", "high", "upper end of the 95 % interval of the best value"),
    ):
        values = {metric: trial.metrics[metric][key] for metric, trial in bests.items()}
        yield of_study.each(name, text, "metric", values)
    numbers = {metric: trial.number for metric, trial in bests.items()}
    yield of_study.each("best_trial", "number of the best finished trial", "metric", numbers)


def _best_by(view: StudyView, objective: Objective) -> Trial | None:
    """Return the best by one objective alone; of a population, the last champion."""
    champions = view.state.population.archive
    finished = [view.state.trials[champions[-1]]] if champions else view.state.told(COMPLETE)
    measured = [trial for trial in finished if objective.metric in trial.metrics]
    sign = 1.0 if objective.goal == "maximize" else -1.0
    key = objective.metric
    return max(measured, key=lambda trial: sign * trial.metrics[key]["value"], default=None)


def _jobs(view: StudyView, of_study: _OfStudy, now: float) -> Iterator[Metric | Histogram]:
    live = view.state.live_jobs()
    queued = [job for job in live if job.began_at is None]
    states = {"queued": len(queued), "running": len(live) - len(queued)}
    yield of_study.each("jobs", "jobs that have not ended, by state", "state", states)
    waits = [
        max(0.0, job.began_at - job.announced_at)
        for job in view.state.jobs.values()
        if job.began_at is not None
    ]
    yield of_study.histogram(
        "queue_wait_seconds", "from a job's announcement to its beginning, as was seen", waits
    )
    yield of_study.one(
        "longest_wait_seconds",
        "for which the first of the jobs in the queue has waited so far; 0 if there is none",
        max((max(0.0, now - job.announced_at) for job in queued), default=0.0),
    )


def _work(
    view: StudyView, driver: DriverFigures, of_study: _OfStudy, now: float
) -> Iterator[Metric]:
    made = pace(view, driver.beats)
    yield of_study.one(
        "training_steps_total",
        "training steps made; one that was lost and made again is one",
        made.steps,
    )
    yield of_study.one(
        "steps_per_second", "training steps of all running trials", made.steps_per_second
    )
    running = [job for job in view.state.live_jobs() if job.began_at is not None]
    yield of_study.one("gpus", "GPUs that running jobs occupy", sum(job.gpus for job in running))
    yield of_study.one(
        "gpu_seconds_total", "time of GPUs that jobs have occupied", view.state.gpu_seconds(now)
    )


def _losses(view: StudyView, of_study: _OfStudy) -> Iterator[Metric]:
    # Of every kind from the beginning: Prometheus takes no notice of a counter's first value.
    none, lost = dict.fromkeys(KINDS, 0), waste(view)
    yield of_study.each(
        "attempts_lost_total",
        "attempts that ended without finishing their trial, by kind",
        "kind",
        none | {kind: loss.attempts for kind, loss in lost.items()},
    )
    failed = none | failures(view)
    yield of_study.each("trials_failed_total", "trials that failed, by kind", "kind", failed)
    yield of_study.each(
        "gpu_seconds_wasted_total",
        "time of GPUs whose training was lost, by kind of failure",
        "kind",
        none | {kind: 3600 * loss.gpu_hours for kind, loss in lost.items()},
    )


def _population(view: StudyView, of_study: _OfStudy) -> Iterator[Metric]:
    record = view.state.population
    is_bred = view.study.spec.population is not None
    judged = sum(match.is_over for match in record.matches.values())
    yield of_study.one(
        "matches_judged_total", "matches of the population", judged if is_bred else None
    )
    children = {name: operator.tried for name, operator in record.operators.items()}
    yield of_study.each("children_total", "children made, by operator", "operator", children)
    adopted = {name: operator.accepted for name, operator in record.operators.items()}
    text = "children that took their place in the population, by operator"
    yield of_study.each("children_adopted_total", text, "operator", adopted)


def _driver(driver: DriverFigures, of_study: _OfStudy, now: float) -> Iterator[Metric]:
    yield of_study.one(
        "scheduler_calls_total", "calls of the scheduler by this driver", driver.num_calls
    )
    text = "whether the scheduler took no jobs the last time"
    yield of_study.one("scheduler_refuses", text, driver.is_refused)
    yield of_study.one("round_seconds", "that the driver's last round took", driver.round_seconds)
    yield of_study.one("look_timestamp_seconds", "when these metrics were taken", now)


REFRESH_SECONDS: Final = 5.0
"""between two looks at the study; what is served meanwhile is the last one"""
REMEDY: Final = "another study may have it; give prometheus of the study file another port"


class GaugeKeeper:
    """Keeps what is served up to date; whatever fails switches it off with a sentence."""

    def __init__(
        self,
        options: PrometheusOptions | None,
        tell: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Serve where ``options`` say, from the first look on; nothing without any."""
        self._options = options
        self._tell = tell
        self._clock = clock
        self._next = clock()
        self._served: _Served | None = None

    def keep(self, view: StudyView, driver: DriverFigures) -> None:
        """Look at the study if it is time."""
        if self._options is None or self._clock() < self._next:
            return
        try:
            if self._served is None:
                self._served = _Served(self._options, view.study.path.parent)
            self._served.show(gauges(view, driver, time.time()))
        except Exception as error:
            self._options = None
            self.close()
            reason = str(error) or type(error).__name__
            self._tell(f"the study goes on without metrics for Prometheus: {reason}")
        self._next = self._clock() + REFRESH_SECONDS

    def close(self) -> None:
        """Give the port back."""
        if self._served is not None:
            self._served.close()
            self._served = None


class _Served:
    """An endpoint, whose counters never fall."""

    def __init__(self, options: PrometheusOptions, folder: Path) -> None:
        self._snapshot = MetricsSnapshot()
        token = read_token(options, folder)
        self._endpoint = Endpoint(
            self._snapshot, options.host, options.port, token=token, remedy=REMEDY
        )
        self._highest: dict[str, Mapping[LabelValues, float]] = {}

    def show(self, metrics: Metrics) -> None:
        """Serve these metrics from now on."""
        self._snapshot.show([self._risen(metric) for metric in metrics])

    def close(self) -> None:
        """Give the port back."""
        self._endpoint.close()

    def _risen(self, metric: Metric | Histogram) -> Metric | Histogram:
        """Return a metric that does not fall below what was shown, if it is a counter.

        What a killed job had done since its last checkpoint is taken back, and a job may turn out
        to have ended earlier. Prometheus takes any fall for a counter that began anew, and adds all
        of it once more.
        """
        if isinstance(metric, Histogram) or metric.kind != "counter":
            return metric
        before = self._highest.get(metric.name, {})
        values = {key: max(value, before.get(key, 0.0)) for key, value in metric.values.items()}
        self._highest[metric.name] = values
        return replace(metric, values=values)
