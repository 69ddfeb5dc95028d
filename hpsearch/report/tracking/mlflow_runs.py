"""Runs of MLflow, by its client alone."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpsearch.errors import UsageError
from hpsearch.study.options import MlflowTracker
from hpsearch.study.records import COMPLETE, FAIL, PRUNED
from hpsearch.study.tracker_runs import RunStart, SentPoint

if TYPE_CHECKING:
    from mlflow.entities import Metric

KEY = "hpsearch.key"  # tag by which a run is found again
PARAMS_AT_ONCE = 100  # parameters in a call, likewise
AT_ONCE = 1000  # metrics in a call, the most that MLflow's servers take
MAX_KEY = 250  # characters of a name
MAX_VALUE = 500  # characters of a parameter, as MLflow's oldest servers take
STATES = {COMPLETE: "FINISHED", PRUNED: "KILLED", FAIL: "FAILED"}


class MlflowRuns:
    """Implements `TrackerRuns`."""

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

        # One that was made, of which no record tells.
        known = self._client.search_runs([self._experiment], f"tags.`{KEY}` = '{start.key}'")
        tags = {"hpsearch.study": start.study, "hpsearch.trial": str(start.trial), KEY: start.key}
        made = known[0] if known else None
        if made is None:
            made = self._client.create_run(
                self._experiment, start_time=_ms(start.began_at), tags=tags, run_name=start.name
            )
        run = str(made.info.run_id)
        params = [Param(_key(name), str(own)[:MAX_VALUE]) for name, own in start.params.items()]
        for place in range(0, len(params), PARAMS_AT_ONCE):
            self._client.log_batch(run, params=params[place : place + PARAMS_AT_ONCE])
        return run

    def log(self, run: str, points: Sequence[SentPoint]) -> None:
        metrics = [*_metrics(points)]
        for place in range(0, len(metrics), AT_ONCE):
            self._client.log_batch(run, metrics=metrics[place : place + AT_ONCE])

    def end(self, run: str, state: str, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(run, _key(f"final/{name}"), value)
        self._client.set_terminated(run, STATES[state])

    def close(self) -> None:
        """Do nothing: a run that has not ended stays as it is."""


def _metrics(points: Sequence[SentPoint]) -> Iterator["Metric"]:
    from mlflow.entities import Metric

    make: Any = Metric  # untyped
    for point in points:
        for name, value in point.values.items():
            yield make(_key(name), value, _ms(point.at), point.step)


def _key(name: str) -> str:
    """Return a name that MLflow takes: of certain characters, and a path within a folder."""
    plain = re.sub(r"[^\w./ :-]", "_", name, flags=re.ASCII).replace("..", "_")
    return posixpath.normpath(plain).strip("/")[:MAX_KEY]


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
