"""The metrics of a study, read by Prometheus' own parser and counted by hand."""

import json
import os
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cli_tools import METRIC, write_study
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from views import Story, rho

from hpsearch.cluster.records import Heartbeat
from hpsearch.monitor.prometheus import Histogram, MetricsSnapshot
from hpsearch.study import gauges as gauges_module
from hpsearch.study.gauges import REFRESH_SECONDS, DriverFigures, GaugeServer, gauges
from hpsearch.study.options import PrometheusOptions

QUIET = DriverFigures(round_seconds=0.25, num_calls=7, is_refused=False, heartbeats=dict)


def parsed(text: str) -> dict[tuple[str, ...], float]:
    """Return {(name, values of the labels in their names' order, without the study): value}."""
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "study")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def shown(story: Story, driver: DriverFigures = QUIET, now: float = 0.0) -> dict:
    snapshot = MetricsSnapshot()
    snapshot.show(gauges(story.view, driver, now))
    return parsed(generate_latest(snapshot.registry).decode())


def beat(step: int, steps_per_second: float) -> Heartbeat:
    return Heartbeat(0.0, step, 0, steps_per_second, "node", 1, False)


def begun(story: Story, *numbers: int, job: str, announced: float, began: float, gpus: float):
    """Let a job begin some time after it was announced."""
    trials = [{"trial": n, "attempt": 1, "token": f"token-{n}"} for n in numbers]
    story.add("announced", job=job, at=announced, trials=trials, gpus=gpus)
    story.add("job_began", job=job, at=began)


def test_names_and_labels(story):
    snapshot = MetricsSnapshot()
    snapshot.show(gauges(story.view, QUIET, 0.0))
    families = list(text_string_to_metric_families(generate_latest(snapshot.registry).decode()))
    assert all(family.name.startswith("hpsearch_study_") for family in families)
    assert all(family.documentation for family in families)
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["study"] for sample in samples} == {"tiny"}
    counters = {s.name for f in families if f.type == "counter" for s in f.samples}
    assert all(name.endswith("_total") for name in counters)
    assert {f.type for f in families} == {"gauge", "counter", "histogram"}


def test_trials_and_status(story):
    for number in range(4):
        story.ask(number)
    story.run(0, 1, job="00001")
    story.tell(0, "finished", 0.2)
    figures = shown(story)
    states = {key[1]: value for key, value in figures.items() if key[0] == "hpsearch_study_trials"}
    assert states == {"finished": 1, "running": 1, "waiting": 2, "pruned": 0, "failed": 0}
    assert figures["hpsearch_study_budget_trials",] == 6
    statuses = {key[1]: v for key, v in figures.items() if key[0] == "hpsearch_study_status"}
    assert statuses.pop("running") == 1
    assert len(statuses) == 6
    assert not any(statuses.values())
    story.add("requested", id="one", verb="pause", trials=[])
    figures = shown(story)
    assert figures["hpsearch_study_status", "paused"] == 1
    assert figures["hpsearch_study_status", "running"] == 0


def test_waits_of_jobs(story):
    waits = [0.0, 10.0, 10.1, 4000.0, 100_000.0]
    for number, wait in enumerate(waits):
        story.ask(number)
        begun(story, number, job=str(number), announced=5.0, began=5.0 + wait, gpus=2.0)
    for number, announced in ((5, 100.0), (6, 160.0)):
        story.ask(number)
        trials = [{"trial": number, "attempt": 1, "token": "t"}]
        story.add("announced", job=str(number), at=announced, trials=trials, gpus=4.0)
    figures = shown(story, now=200.0)
    name = "hpsearch_study_queue_wait_seconds"
    buckets = {key[1]: value for key, value in figures.items() if key[0] == f"{name}_bucket"}
    assert len(buckets) == 13
    for bound, number in buckets.items():
        assert number == sum(wait <= float(bound) for wait in waits), bound
    assert figures[f"{name}_count",] == 5
    assert figures[f"{name}_sum",] == pytest.approx(sum(waits))
    assert figures["hpsearch_study_longest_wait_seconds",] == 100.0
    assert figures["hpsearch_study_jobs", "queued"] == 2
    assert figures["hpsearch_study_jobs", "running"] == 5
    assert figures["hpsearch_study_gpus",] == 10.0


def test_steps_and_gpu_seconds(story):
    for number in range(4):
        story.ask(number)
    begun(story, 0, 1, 2, job="00001", announced=0.0, began=10.0, gpus=2.0)
    story.add("attempt_ended", 0, 1, at=20.0, status="finished", kind=None, message="", step=60)
    story.add("attempt_ended", 1, 1, at=20.0, status="pruned", kind=None, message="", step=20)
    # 3 has no running attempt, so what is said of it is old.
    driver = DriverFigures(0.0, 0, True, lambda: {2: beat(33, 1.5), 3: beat(50, 9.0)})
    figures = shown(story, driver, now=30.0)
    assert figures["hpsearch_study_training_steps_total",] == 60 + 20 + 33
    assert figures["hpsearch_study_steps_per_second",] == 1.5
    assert figures["hpsearch_study_gpu_seconds_total",] == 40.0
    assert figures["hpsearch_study_scheduler_refuses",] == 1
    story.add("attempt_ended", 2, 1, at=30.0, status="interrupted", kind=None, message="", step=40)
    story.add("job_ended", job="00001", at=30.0, seen=True)
    figures = shown(story, driver, now=99.0)
    assert figures["hpsearch_study_training_steps_total",] == 60 + 20 + 40
    assert figures["hpsearch_study_gpu_seconds_total",] == 40.0
    assert figures["hpsearch_study_gpus",] == 0.0


def test_steps_of_an_interval_count_from_where_its_parent_ended(story):
    story.ask_interval(0, 40, 100)
    begun(story, 0, job="00001", announced=0.0, began=10.0, gpus=0.0)
    figures = shown(story, DriverFigures(0.0, 0, False, lambda: {0: beat(70, 1.5)}))
    assert figures["hpsearch_study_training_steps_total",] == 30


def test_losses_by_kind(story):
    for number in range(3):
        story.ask(number)
    begun(story, 0, 1, job="00001", announced=0.0, began=0.0, gpus=1.0)
    lost = {"status": "lost", "message": "", "step": 10, "began": True}
    story.add("attempt_ended", 0, 1, **lost, kind="node_fail", lost_seconds=100.0)
    story.add("attempt_ended", 1, 1, **lost, kind="oom_gpu", lost_seconds=30.0)
    told = {"state": "failed", "value": None, "metrics": {}, "message": ""}
    story.add("told", 1, **told, failure="oom_gpu")
    figures = shown(story)
    for name, expected in (
        ("attempts_lost", {"node_fail": 1.0, "oom_gpu": 1.0}),
        ("trials_failed", {"oom_gpu": 1.0}),
        ("gpu_seconds_wasted", {"node_fail": 50.0, "oom_gpu": 15.0}),
    ):
        by_kind = {k[1]: v for k, v in figures.items() if k[0] == f"hpsearch_study_{name}_total"}
        assert {kind: value for kind, value in by_kind.items() if value} == pytest.approx(expected)
        assert len(by_kind) == 13, "all kinds, from the beginning"


def test_each_objective_has_its_best(tmp_path):
    other = "rho_sampled/host/choose_first"
    goals = [{"metric": METRIC, "goal": "maximize"}, {"metric": other, "goal": "minimize"}]
    story = Story(write_study(tmp_path, {"objectives": goals}))
    assert not [key for key in shown(story) if key[0].startswith("hpsearch_study_best")]
    for number, values in enumerate(((0.1, 0.5), (0.3, 0.4), (0.2, 0.2))):
        story.ask(number)
        story.run(number, job=str(number))
        metrics = {METRIC: rho(values[0]), other: rho(values[1])}
        told = {"state": "finished", "value": values[0], "metrics": metrics}
        story.add("told", number, **told, failure=None, message="")
    figures = {k: v for k, v in shown(story).items() if k[0].startswith("hpsearch_study_best")}
    assert figures == pytest.approx(
        {
            ("hpsearch_study_best_value", METRIC): 0.3,
            ("hpsearch_study_best_low", METRIC): 0.29,
            ("hpsearch_study_best_high", METRIC): 0.31,
            ("hpsearch_study_best_trial", METRIC): 1,
            ("hpsearch_study_best_value", other): 0.2,
            ("hpsearch_study_best_low", other): 0.19,
            ("hpsearch_study_best_high", other): 0.21,
            ("hpsearch_study_best_trial", other): 2,
        }
    )


def test_matches_are_counted_where_there_is_a_population(tmp_path):
    name = ("hpsearch_study_matches_judged_total",)
    assert name not in shown(Story(write_study(tmp_path)))
    story = Story(write_study(tmp_path, {"population": {"members": 2, "interval": 20}}))
    assert shown(story)[name] == 0
    story.view.state.population.num_judged = 3
    assert shown(story)[name] == 3


def test_the_driver_itself(story):
    figures = shown(story, now=123.0)
    assert figures["hpsearch_study_scheduler_calls_total",] == 7
    assert figures["hpsearch_study_round_seconds",] == 0.25
    assert figures["hpsearch_study_look_timestamp_seconds",] == 123.0


def test_a_histogram_without_bounds_counts_all():
    snapshot = MetricsSnapshot()
    snapshot.show([Histogram("waits_seconds", "waits", (), (), {(): [1.0, 2.0]})])
    text = generate_latest(snapshot.registry).decode()
    assert 'waits_seconds_bucket{le="+Inf"} 2.0' in text


# What serves them.


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def scraped(port: int) -> dict:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        return parsed(response.read().decode())


def test_one_look_every_five_seconds(story, port):
    clock, told = Clock(), []
    server = GaugeServer(PrometheusOptions(port), told.append, clock=clock)
    try:
        for at, number, expected in ((0.0, 0, 1), (4.9, 1, 1), (5.0, 2, 3)):
            clock.now = at
            story.ask(number)
            server.keep(story.view, QUIET)
            assert scraped(port)["hpsearch_study_trials", "waiting"] == expected
    finally:
        server.close()
    assert told == []
    with socket.socket() as again:  # the port has been given back
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


def test_counters_never_fall(story, port):
    """A killed job takes back what it did since its last checkpoint."""
    clock = Clock()
    server = GaugeServer(PrometheusOptions(port), pytest.fail, clock=clock)
    try:
        story.ask(0)
        begun(story, 0, job="00001", announced=0.0, began=0.0, gpus=1.0)
        seen = []
        for step, rate in ((50, 2.0), (40, 1.0), (60, 3.0)):
            heartbeats = {0: beat(step, rate)}
            server.keep(story.view, DriverFigures(0.0, 0, False, heartbeats.copy))
            clock.now += REFRESH_SECONDS
            figures = scraped(port)
            seen.append(
                [
                    figures["hpsearch_study_training_steps_total",],
                    figures["hpsearch_study_steps_per_second",],
                ]
            )
    finally:
        server.close()
    assert seen == [[50, 2.0], [50, 1.0], [60, 3.0]]


def test_a_port_that_is_taken_is_told_once(story, port):
    clock, told = Clock(), []
    server = GaugeServer(PrometheusOptions(port), told.append, clock=clock)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        for _ in range(3):
            server.keep(story.view, QUIET)
            clock.now += REFRESH_SECONDS
    server.close()
    (sentence,) = told
    assert sentence.startswith("the study goes on without metrics for Prometheus: port ")
    assert f"{port} of 127.0.0.1 cannot be used (Address already in use)" in sentence
    assert "give prometheus of the study file another port" in sentence


def test_a_failure_while_it_serves_gives_the_port_back(story, port, monkeypatch):
    clock, told = Clock(), []
    server = GaugeServer(PrometheusOptions(port), told.append, clock=clock)
    server.keep(story.view, QUIET)
    assert scraped(port)["hpsearch_study_budget_trials",] == 6
    monkeypatch.setattr(gauges_module, "gauges", lambda *arguments: 1 / 0)
    clock.now += REFRESH_SECONDS
    server.keep(story.view, QUIET)
    assert told == ["the study goes on without metrics for Prometheus: division by zero"]
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_told(story, port, host, monkeypatch):
    told = []
    monkeypatch.setenv(VARIABLE, TOKEN)
    server = GaugeServer(PrometheusOptions(port, host, f"env:{VARIABLE}"), told.append)
    server.keep(story.view, QUIET)
    (sentence,) = told
    assert f"port {port} of {host} cannot be used" in sentence


VARIABLE, TOKEN = "HPSEARCH_TEST_TOKEN", "5f1d-only-for-Prometheus"


def status(port: int, authorization: str | None) -> int:
    headers = {} if authorization is None else {"Authorization": authorization}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            assert b"hpsearch_study_trials" in response.read()
            return response.status
    except urllib.error.HTTPError as error:
        told = error.read()
        code = error.code
    assert b"hpsearch_study" not in told
    return code


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("source", ["file", "variable"])
def test_with_a_token_nothing_is_told_without_it(story, port, host, source, monkeypatch):
    monkeypatch.setenv(VARIABLE, TOKEN)
    path = story.view.study.path.parent / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    token = "token" if source == "file" else f"env:{VARIABLE}"
    server = GaugeServer(PrometheusOptions(port, host, token), pytest.fail)
    try:
        server.keep(story.view, QUIET)
        for wrong in (None, "", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer ", f"Bearer {TOKEN}x"):
            assert status(port, wrong) == 401
        assert status(port, "Bearer \xe9") == 401
        assert status(port, f"Bearer {TOKEN}") == status(port, f"bearer {TOKEN}") == 200
    finally:
        server.close()


@pytest.mark.parametrize(
    ("host", "token", "words"),
    [
        ("0.0.0.0", None, ["host 0.0.0.0 is reached from other machines", "prometheus.token must"]),
        ("::", None, ["is reached from other machines"]),
        ("box", None, ["is reached from other machines"]),
        ("127.0.0.1", "env:HPSEARCH_NOT_SET", ["variable HPSEARCH_NOT_SET", "openssl rand"]),
        ("0.0.0.0", "missing", ["missing cannot be read (No such file or directory)"]),
        ("0.0.0.0", "open", ["but its mode is 0644", "chmod 600"]),
        ("0.0.0.0", "empty", ["1 to 1024 letters", "has 0 characters"]),
        ("0.0.0.0", "two", ["without spaces"]),
        ("0.0.0.0", "long", ["1 to 1024 letters"]),
        ("0.0.0.0", "pipe", ["pipe is no regular file"]),
    ],
)
def test_without_a_token_of_its_own_nothing_is_served(story, port, host, token, words):
    folder = story.view.study.path.parent
    for name, text in {"open": TOKEN, "empty": "\n", "two": "a b", "long": "x" * 1025}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644 if name == "open" else 0o600)
    os.mkfifo(folder / "pipe", 0o600)
    told = []
    server = GaugeServer(PrometheusOptions(port, host, token), told.append)
    server.keep(story.view, QUIET)
    (sentence,) = told
    assert all(word in sentence for word in words), sentence
    with socket.socket() as free:  # nothing listens
        free.bind(("127.0.0.1", port))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "::1"])
def test_loopback_needs_no_token(host):
    assert PrometheusOptions(9464, host).is_local


def test_a_missing_package_is_told(story, port, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    told = []
    server = GaugeServer(PrometheusOptions(port), told.append)
    server.keep(story.view, QUIET)
    (sentence,) = told
    assert "pip install 'hpsearch[monitor]'" in sentence


def test_nothing_is_served_unasked(story, monkeypatch):
    for served in ("Endpoint", "MetricsSnapshot"):
        monkeypatch.setattr(gauges_module, served, pytest.fail)
    GaugeServer(None, pytest.fail).keep(story.view, QUIET)


# The dashboard of Grafana.

GRAFANA = Path(__file__).parents[2] / "monitoring/grafana.json"


def test_the_dashboard_is_one_of_grafanas(monkeypatch):
    """Read and written again by Grafana's own types, nothing of it is lost."""
    reason = "needs Grafana's types: pip install grafana-foundation-sdk"
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard", reason=reason)
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()
    dashboard = json.loads(GRAFANA.read_text())
    read = models.Dashboard.from_json(dashboard)
    assert dashboard["schemaVersion"] == models.Dashboard().schema_version
    assert list(_lost(dashboard, json.loads(JSONEncoder().encode(read)), "")) == []


def _lost(there, again, path):
    """Yield what is there and not again."""
    if isinstance(there, dict) and isinstance(again, dict):
        for key, value in there.items():
            yield from _lost(value, again.get(key), f"{path}.{key}")
    elif isinstance(there, list) and isinstance(again, list) and len(there) == len(again):
        for place, pair in enumerate(zip(there, again, strict=True)):
            yield from _lost(*pair, f"{path}[{place}]")
    elif there != again:
        yield f"{path}: {there!r}, {again!r}"


def test_the_panels_of_the_dashboard_do_not_overlap():
    panels = json.loads(GRAFANA.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) == 23
