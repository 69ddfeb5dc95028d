"""Metrics for Prometheus: as plain data, as a textfile, and by HTTP. No torch here.

Jobs show their snapshots, drivers their study (`study/gauges.py`). Gauges of a member have the
labels study, trial and role: ``host/loss`` becomes ``hpsearch_loss{role="host"}``. Gauges of the
job, ``hpsearch_job_*``, have study and job, those of sections section too. Layer statistics are
left out: each would be a time series.
"""

import hmac
import re
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hpsearch.errors import ConflictError
from hpsearch.monitor.config import needed
from hpsearch.monitor.snapshot import JobPlace, MonitorSnapshot

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


LabelValues = tuple[str, ...]


@dataclass(frozen=True)
class Metric:
    """One number, once for every combination of its labels."""

    name: str
    kind: Literal["gauge", "counter"]  # a counter only rises, and its name ends in _total
    text: str  # what it is
    labels: tuple[str, ...]  # their names
    values: Mapping[LabelValues, float] = field(default_factory=dict)  # by those of the labels


@dataclass(frozen=True)
class Histogram:
    """How often something took how long, once for every combination of its labels."""

    name: str
    text: str  # what it is
    labels: tuple[str, ...]  # their names
    bounds: tuple[float, ...]
    """upper ends of the buckets, ascending; what lies above them all has another bucket"""
    observed: Mapping[LabelValues, Sequence[float]] = field(default_factory=dict)  # seconds


Metrics = Sequence[Metric | Histogram]


class MetricsSnapshot:
    """The newest metrics as a registry; what is not among them is not served."""

    def __init__(self) -> None:
        """UsageError if prometheus_client is not installed."""
        with needed("prometheus_client"):
            from prometheus_client import CollectorRegistry
        self._families: Sequence[Any] = ()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def show(self, metrics: Metrics) -> None:
        """Replace what is shown; another thread may be reading what was shown before."""
        self._families = [_family(metric) for metric in metrics]

    def collect(self) -> Iterable[Any]:
        return self._families


class Endpoint:
    """Serves a snapshot at http://host:port/metrics, in its own thread."""

    def __init__(
        self, snapshot: MetricsSnapshot, host: str, port: int, *, token: str | None, remedy: str
    ) -> None:
        """Begin to serve; ConflictError, ending in ``remedy``, if the port cannot be used.

        A request must show the ``token``, if any, as ``Authorization: Bearer TOKEN``.
        """
        from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server

        start: Callable[..., tuple[Any, threading.Thread]] = start_http_server
        try:
            # It answers at once, so with nothing until it asks for the token.
            self._server, self._thread = start(port, addr=host, registry=CollectorRegistry())
        except OSError as error:
            raise ConflictError(
                f"port {port} of {host} cannot be used ({error.strerror}); {remedy}"
            ) from error
        application = make_wsgi_app(snapshot.registry)
        self._server.set_app(application if token is None else _behind(token, application))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _behind(token: str, inner: "WSGIApplication") -> "WSGIApplication":
    """Return an application that lets through to another one what shows the token."""

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        scheme, _, shown = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(shown.encode(), token.encode()):
            return inner(environ, start_response)
        body = b"the metrics of this study need its token, as authorization in Prometheus\n"
        headers = [("WWW-Authenticate", "Bearer"), ("Content-Length", str(len(body)))]
        start_response("401 Unauthorized", [("Content-Type", "text/plain"), *headers])
        return [body]

    return answer


def _family(metric: Metric | Histogram) -> Any:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    if isinstance(metric, Histogram):
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for labels, seconds in metric.observed.items():
            ascending = sorted(seconds)
            buckets = [
                (f"{bound:g}", float(bisect_right(ascending, bound))) for bound in metric.bounds
            ]
            histogram.add_metric(labels, [*buckets, ("+Inf", float(len(seconds)))], sum(seconds))
        return histogram
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = make(metric.name, metric.text, labels=metric.labels)
    for labels, value in metric.values.items():
        family.add_metric(labels, value)
    return family


ADDRESS = "127.0.0.1"  # what a job serves is for this machine alone, without a token
MEMBER_LABELS = ("study", "trial", "role")
JOB_LABELS = ("study", "job")
SECTION_LABELS = ("study", "job", "section")
PORT_REMEDY = (
    "another job of this machine may have it; give monitor.prometheus another port, or write a "
    "textfile"
)


class Textfile:
    """Rewrites a file for node_exporter's textfile collector; it goes when the job ends.

    Where that is killed, the study's driver removes the file.
    """

    def __init__(self, job: JobPlace) -> None:
        """UsageError if prometheus_client is not installed."""
        self._job = job
        self._snapshot = MetricsSnapshot()

    def write(self, snapshot: MonitorSnapshot) -> None:
        """Replace the file at once, so that no reader sees half of it."""
        from prometheus_client import write_to_textfile

        path = self._job.textfile
        self._snapshot.show(gauges(self._job, snapshot))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(path), self._snapshot.registry)

    def close(self) -> None:
        """Remove the file: gauges of a job that has ended would be read for ever."""
        self._job.textfile.unlink(missing_ok=True)


class MetricsServer:
    """Serves the newest snapshot at http://127.0.0.1:port/metrics."""

    def __init__(self, job: JobPlace, port: int) -> None:
        """ConflictError if the port is taken or may not be used; UsageError as above."""
        self._job = job
        self._snapshot = MetricsSnapshot()
        self._endpoint = Endpoint(self._snapshot, ADDRESS, port, token=None, remedy=PORT_REMEDY)

    def write(self, snapshot: MonitorSnapshot) -> None:
        self._snapshot.show(gauges(self._job, snapshot))

    def close(self) -> None:
        self._endpoint.close()


_DOCUMENTATION = {
    "hpsearch_step": "training steps made",
    "hpsearch_job_section_seconds": "mean time in a section of a step since the last look",
    "hpsearch_job_look_timestamp_seconds": "when the gauges were taken",
    "hpsearch_job_steps_per_second": "training steps of the population, evaluations included",
    "hpsearch_job_actors_running": "actors that play",
    "hpsearch_job_actors_require_sync": "actors that are to get newer weights",
    "hpsearch_job_actors_waiting_sync": "actors that wait until they may play on",
    "hpsearch_job_actors_stopped": "actors that are lost",
    "hpsearch_job_cpu_percent": "use of one core by the process",
    "hpsearch_job_memory_bytes": "resident memory of the process",
    "hpsearch_job_gpu_percent": "time in which the GPU ran a kernel, of any process",
    "hpsearch_job_gpu_memory_bytes": "GPU memory in use, by any process",
    "hpsearch_job_gpu_temperature_celsius": "temperature of the GPU",
}


def gauges(job: JobPlace, snapshot: MonitorSnapshot) -> list[Metric]:
    samples: dict[str, tuple[tuple[str, ...], dict[LabelValues, float]]] = {}

    def add(name: str, labels: tuple[str, ...], label_values: LabelValues, value: float) -> None:
        samples.setdefault(name, (labels, {}))[1][label_values] = value

    for member in snapshot.members:
        trial = member.place.trial
        add("hpsearch_step", MEMBER_LABELS, (job.study, trial, ""), float(member.step))
        for name, value in member.scalars.items():
            role, _, quantity = name.rpartition("/")
            add(_metric(quantity), MEMBER_LABELS, (job.study, trial, role), value)
    here = (job.study, job.job)
    for section, timing in snapshot.timings.items():
        add("hpsearch_job_section_seconds", SECTION_LABELS, (*here, section), timing.mean / 1e3)
    for name, value in {**snapshot.job, "look_timestamp_seconds": snapshot.at}.items():
        add(_metric(f"job_{name}"), JOB_LABELS, here, value)
    return [
        Metric(name, "gauge", _DOCUMENTATION.get(name, "as the trainer names it"), labels, values)
        for name, (labels, values) in samples.items()
    ]


def _metric(quantity: str) -> str:
    """Return the name of a gauge, of the characters that Prometheus allows."""
    return "hpsearch_" + re.sub(r"[^a-zA-Z0-9_]", "_", quantity)
