"""Looks as gauges for Prometheus, by a textfile or by HTTP.

Gauges of a member have the labels study, trial and role: ``host/loss`` becomes
``hpsearch_loss{role="host"}``. Gauges of the job, ``hpsearch_job_*``, have study and job, those of
sections section too.
Layer statistics are left out: each would be a time series of its own.
"""

import re
from collections.abc import Iterator

from hpsearch.monitor.exposition import Endpoint, Metric, MetricsSnapshot
from hpsearch.monitor.snapshot import JobPlace, MonitorSnapshot

ADDRESS = "127.0.0.1"
"""what a job serves is for this machine alone, and nothing is asked for it"""
MEMBER_LABELS = ("study", "trial", "role")
JOB_LABELS = ("study", "job")
SECTION_LABELS = ("study", "job", "section")
PORT_REMEDY = (
    "another job of this machine may have it; give monitor.prometheus another port, or write a "
    "textfile"
)


class Textfile:
    """Rewrites a file for node_exporter's textfile collector; it goes when the job ends."""

    def __init__(self, job: JobPlace) -> None:
        """Import what writes gauges; UsageError if it is not installed."""
        self._job = job
        self._snapshot = MetricsSnapshot()

    def write(self, look: MonitorSnapshot) -> None:
        """Replace the file at once, so that no reader sees half of it."""
        from prometheus_client import write_to_textfile

        path = self._job.textfile
        self._snapshot.show(gauges(self._job, look))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_to_textfile(str(path), self._snapshot.registry)

    def close(self) -> None:
        """Remove the file: gauges of a job that has ended would be read for ever."""
        self._job.textfile.unlink(missing_ok=True)


class MetricsServer:
    """Serves the newest look at http://127.0.0.1:port/metrics."""

    def __init__(self, job: JobPlace, port: int) -> None:
        """Begin to serve.

        Raises:
            ConflictError: if the port is taken or may not be used.
            UsageError: if prometheus_client is not installed.
        """
        self._job = job
        self._snapshot = MetricsSnapshot()
        self._endpoint = Endpoint(self._snapshot, ADDRESS, port, token=None, remedy=PORT_REMEDY)

    def write(self, look: MonitorSnapshot) -> None:
        """Serve this look from now on."""
        self._snapshot.show(gauges(self._job, look))

    def close(self) -> None:
        """Give the port back."""
        self._endpoint.close()


_DOCUMENTATION = {
    "hpsearch_step": "training steps made",
    "hpsearch_job_section_seconds": "mean time in a section of a step since the last look",
    "hpsearch_job_look_timestamp_seconds": "when the gauges were taken",
    "hpsearch_job_steps_per_second": "training steps of the population, evaluations included",
    "hpsearch_job_cpu_percent": "use of one core by the process",
    "hpsearch_job_memory_bytes": "resident memory of the process",
    "hpsearch_job_gpu_percent": "time in which the GPU ran a kernel, of any process",
    "hpsearch_job_gpu_memory_bytes": "GPU memory in use, by any process",
    "hpsearch_job_gpu_temperature_celsius": "temperature of the GPU",
}


def gauges(job: JobPlace, look: MonitorSnapshot) -> list[Metric]:
    """Return every gauge of a look."""
    by_name: dict[str, tuple[tuple[str, ...], dict[tuple[str, ...], float]]] = {}
    for name, labels, label_values, value in _all_samples(job, look):
        by_name.setdefault(name, (labels, {}))[1][label_values] = value
    return [
        Metric(name, "gauge", _DOCUMENTATION.get(name, "as the trainer names it"), labels, values)
        for name, (labels, values) in by_name.items()
    ]


def _all_samples(
    job: JobPlace, look: MonitorSnapshot
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], float]]:
    for member in look.members:
        trial = member.place.trial
        yield "hpsearch_step", MEMBER_LABELS, (job.study, trial, ""), float(member.step)
        for name, value in member.scalars.items():
            role, _, quantity = name.rpartition("/")
            yield _metric(quantity), MEMBER_LABELS, (job.study, trial, role), value
    here = (job.study, job.job)
    for section, timing in look.timings.items():
        yield "hpsearch_job_section_seconds", SECTION_LABELS, (*here, section), timing.mean / 1e3
    for name, value in {**look.job, "look_timestamp_seconds": look.at}.items():
        yield _metric(f"job_{name}"), JOB_LABELS, here, value


def _metric(quantity: str) -> str:
    """Return the name of a gauge, of the characters that Prometheus allows."""
    return "hpsearch_" + re.sub(r"[^a-zA-Z0-9_]", "_", quantity)
