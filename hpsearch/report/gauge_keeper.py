"""Metrics of a driven study, served to Prometheus; no study ends for want of them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from hpsearch.monitor.exposition import (
    Endpoint,
    Histogram,
    LabelValues,
    Metric,
    Metrics,
    Snapshot,
)
from hpsearch.report.gauge_token import read_token
from hpsearch.report.gauges import DriverFigures, gauges
from hpsearch.report.view import StudyView
from hpsearch.study.options import PrometheusOptions

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
        self._snapshot = Snapshot()
        token = read_token(options, folder)
        self._endpoint = Endpoint(
            self._snapshot, options.host, options.port, token=token, remedy=REMEDY
        )
        self._highest: dict[str, Mapping[LabelValues, float]] = {}

    def show(self, metrics: Metrics) -> None:
        """Serve these metrics from now on."""
        self._snapshot.show([self._risen(one) for one in metrics])

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
