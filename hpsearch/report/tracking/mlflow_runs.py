"""Runs of MLflow, by its client alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpsearch.errors import UsageError
from hpsearch.report.tracking.mirror import RunStart, SentPoint
from hpsearch.study.options import MlflowTracker
from hpsearch.study.records import COMPLETE, FAIL, PRUNED

if TYPE_CHECKING:
    from mlflow.entities import Metric

AT_ONCE = 1000  # metrics in a call, the most that MLflow's servers take
MAX_VALUE = 500  # characters of a parameter, as MLflow's oldest servers take
STATES = {COMPLETE: "FINISHED", PRUNED: "KILLED", FAIL: "FAILED"}


class MlflowRuns:
    """Implements `mirror.TrackerRuns`."""

    def __init__(self, options: MlflowTracker, study: str) -> None:
        """Find or make the experiment; UsageError without the package."""
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise UsageError(
                "track with mlflow needs its client: pip install 'hpsearch[mlflow]'"
            ) from error
        self._client = MlflowClient(options.uri)
        name = options.experiment or study
        experiment = self._client.get_experiment_by_name(name)
        self._experiment: str = (
            self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        )

    def begin(self, start: RunStart, run: str | None) -> str:
        if run is not None:
            return run
        from mlflow.entities import Param

        tags = {"hpsearch.study": start.study, "hpsearch.trial": str(start.trial)}
        made = self._client.create_run(
            self._experiment, start_time=_ms(start.began_at), tags=tags, run_name=start.name
        )
        run = str(made.info.run_id)
        params = [Param(name, str(own)[:MAX_VALUE]) for name, own in start.params.items()]
        self._client.log_batch(run, params=params)
        return run

    def log(self, run: str, points: Sequence[SentPoint]) -> None:
        metrics = [*_metrics(points)]
        for place in range(0, len(metrics), AT_ONCE):
            self._client.log_batch(run, metrics=metrics[place : place + AT_ONCE])

    def end(self, run: str, state: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(run, f"final/{name}", value)
        self._client.set_terminated(run, STATES[state])

    def close(self) -> None:
        """Do nothing: a run that has not ended stays as it is."""


def _metrics(points: Sequence[SentPoint]) -> Iterator["Metric"]:
    from mlflow.entities import Metric

    make: Any = Metric  # untyped
    for point in points:
        for name, value in point.values.items():
            yield make(name, value, _ms(point.at), point.step)


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
