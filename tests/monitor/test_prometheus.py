"""Gauges, read by Prometheus' own parser."""

import math
import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hpsearch.errors import ConflictError
from hpsearch.monitor.prometheus import MetricsServer, Textfile


def gauges(text):
    """Return {(name, labels): value} of the text, whose families must all be gauges."""
    families = list(text_string_to_metric_families(text))
    assert {family.type for family in families} <= {"gauge"}
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        return response.read().decode()


def test_the_textfile_holds_every_gauge(job, make_look):
    textfile = Textfile(job)
    textfile.write(make_look(10, 1.5, 2.5))
    written = gauges(job.textfile.read_text())
    study, job_label = ("study", "cubes"), ("job", "job-1")
    expected = {
        ("hpsearch_job_cpu_percent", job_label, study): 150.0,
        ("hpsearch_job_look_timestamp_seconds", job_label, study): 1010.0,
        ("hpsearch_job_section_seconds", job_label, ("section", "rollout"), study): 0.0075,
    }
    for trial, loss in (("0", 1.5), ("1", 2.5)):
        expected[("hpsearch_step", ("role", ""), study, ("trial", trial))] = 10.0
        expected[("hpsearch_loss", ("role", "host"), study, ("trial", trial))] = loss
        expected[("hpsearch_er", ("role", "agent"), study, ("trial", trial))] = 0.5
    assert written == expected
    assert [path.name for path in job.textfile.parent.iterdir()] == [job.textfile.name]
    textfile.close()
    assert not job.textfile.exists()


def test_a_member_that_left_has_no_gauges(job, make_look):
    textfile = Textfile(job)
    textfile.write(make_look(10, 1.5, 2.5))
    textfile.write(make_look(20, 1.5))
    assert '"1"' not in job.textfile.read_text()


def test_numbers_and_names_that_are_no_ordinary_ones(job, make_look):
    look = make_look(10, math.nan)
    look.members[0].scalars["host/rho vs. random"] = -math.inf
    textfile = Textfile(job)
    textfile.write(look)
    written = gauges(job.textfile.read_text())
    values = {name: value for (name, *_), value in written.items()}
    assert math.isnan(values["hpsearch_loss"])
    assert values["hpsearch_rho_vs__random"] == -math.inf


def test_the_newest_look_is_served(job, make_look, free_port):
    server = MetricsServer(job, free_port)
    try:
        assert gauges(get(free_port)) == {}
        server.write(make_look(10, 1.5))
        server.write(make_look(20, 2.5))
        values = {name: value for (name, *_), value in gauges(get(free_port)).items()}
        assert values["hpsearch_step"] == 20.0
        assert values["hpsearch_loss"] == 2.5
    finally:
        server.close()
    MetricsServer(job, free_port).close()  # the port has been given back


def test_a_port_that_is_taken(job, free_port):
    server = MetricsServer(job, free_port)
    try:
        with pytest.raises(ConflictError, match=f"port {free_port} of 127.0.0.1 cannot be used"):
            MetricsServer(job, free_port)
    finally:
        server.close()
