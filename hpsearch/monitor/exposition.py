"""Metrics as plain data, and how Prometheus comes to them: what jobs and drivers share."""

import hmac
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from hpsearch.errors import ConflictError
from hpsearch.monitor.config import needed

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


LabelValues = tuple[str, ...]


@dataclass(frozen=True)
class Metric:
    """One number, once for every combination of its labels."""

    name: str
    kind: Literal["gauge", "counter"]
    """a counter only rises, and its name ends in _total"""
    text: str
    """what it is"""
    labels: tuple[str, ...]
    """their names"""
    values: Mapping[LabelValues, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Histogram:
    """How often something took how long, once for every combination of its labels."""

    name: str
    text: str
    """what it is"""
    labels: tuple[str, ...]
    """their names"""
    bounds: tuple[float, ...]
    """upper ends of the buckets, ascending; what lies above them all has a bucket of its own"""
    observed: Mapping[LabelValues, Sequence[float]] = field(default_factory=dict)


Metrics = Sequence[Metric | Histogram]


class MetricsSnapshot:
    """The newest metrics as a registry of its own; what is not among them is not served."""

    def __init__(self) -> None:
        """Begin with nothing.

        Raises:
            UsageError: if prometheus_client is not installed.
        """
        with needed("prometheus_client"):
            from prometheus_client import CollectorRegistry
        self._families: Sequence[Any] = ()
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def show(self, metrics: Metrics) -> None:
        """Replace what is shown; another thread may be reading what was shown before."""
        self._families = [_family(metric) for metric in metrics]

    def collect(self) -> Iterable[Any]:
        """Return what is shown; called by the registry."""
        return self._families


class Endpoint:
    """Serves a snapshot at http://host:port/metrics, in a thread of its own."""

    def __init__(
        self, snapshot: MetricsSnapshot, host: str, port: int, *, token: str | None, remedy: str
    ) -> None:
        """Begin to serve.

        Args:
            snapshot: what is served.
            host: name or address of this machine.
            port: of it.
            token: what a request must show as ``Authorization: Bearer TOKEN``; None asks for none.
            remedy: what to do where the port is taken, as the end of a sentence.

        Raises:
            ConflictError: if the port is taken or may not be used.
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
        """Give the port back."""
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
    """Return a metric as prometheus_client writes it."""
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    if isinstance(metric, Histogram):
        histogram = HistogramMetricFamily(metric.name, metric.text, labels=metric.labels)
        for labels, seconds in metric.observed.items():
            histogram.add_metric(labels, _buckets(metric.bounds, seconds), sum(seconds))
        return histogram
    make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = make(metric.name, metric.text, labels=metric.labels)
    for labels, value in metric.values.items():
        family.add_metric(labels, value)
    return family


def _buckets(bounds: Sequence[float], observed: Sequence[float]) -> list[tuple[str, float]]:
    """Return for each bound, and for infinity, how many lie at it or below."""
    ascending = sorted(observed)
    buckets = [(f"{bound:g}", float(bisect_right(ascending, bound))) for bound in bounds]
    return [*buckets, ("+Inf", float(len(ascending)))]
