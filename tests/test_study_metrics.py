"""Prometheus and the driver of a real study: scraped while it runs, however the port fares."""

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from cli_tools import (
    METRIC,
    PATIENCE_SECONDS,
    Run,
    hpsearch,
    jobs_of,
    kill_jobs,
    no_jobs_left,
    read,
    write_study,
)
from prometheus_client.parser import text_string_to_metric_families

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.view import open_view

pytestmark = pytest.mark.slow

MONITORING = Path(__file__).parents[1] / "monitoring"
ENDLESS = 10**7
SPEED = "hpsearch_study_steps_per_second"
STEPS = (60, 60, ENDLESS, ENDLESS)
TOKEN = "5f1d-only-for-Prometheus"
TOY = Path(__file__).parent / "programs/toy.py"
WALKS = {
    "base": {
        "command": ["python", str(TOY), "{config}", "{folder}"],
        "parameters": {"rate": 0.5},
        "steps": 3,
    },
    "objectives": [{"metric": "walked", "goal": "maximize"}],
    "space": {"parameters.rate": {"type": "float", "low": 0.1, "high": 1.0}},
    "budget": {"trials": 2},
    "executor": {"name": "local", "jobs": 1, "members_per_job": 2},
}
"""two trials that end at once"""


def write_token(folder: Path) -> Path:
    path = folder / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


def study_file(folder: Path, port: int, token: str) -> Path:
    """Write a study whose trials train for STEPS, two at a time."""
    configurations = [
        {"host.optim.args.lr": 1e-3 / (1 + number), "host.gamma": 0.9, "steps": step}
        for number, step in enumerate(STEPS)
    ]
    changes = {
        "space/steps": {"type": "int", "low": 60, "high": ENDLESS},
        "sampler": {"name": "listed", "configurations": configurations},
        "budget": {"trials": len(STEPS)},
        "executor": {"name": "local", "jobs": 1, "members_per_job": 2, "cpus_per_job": 1},
        "prometheus": {"port": port, "token": token},
    }
    return write_study(folder, changes)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(address: str) -> str:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read().decode()


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """Return {(name, label values but the study's): value}, empty while nothing answers."""
    try:
        text = get(f"http://127.0.0.1:{port}/metrics")
    except OSError:
        return {}
    return {
        (sample.name, *(v for k, v in sorted(sample.labels.items()) if k != "study")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


# Ways in which there can be no metrics, before a study trains until this file ends.


def test_a_study_goes_on_where_the_port_is_taken(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        write_study(tmp_path, WALKS | {"prometheus": {"port": other.getsockname()[1]}})
        done = hpsearch(tmp_path, "run", "study.yaml", "--no-export")
    sentences = [line for line in done.stderr.splitlines() if "Prometheus" in line]
    assert len(sentences) == 1
    assert sentences[0].startswith("hpsearch: the study goes on without metrics for Prometheus: ")
    assert read(tmp_path, "status", "tiny")["state"] == "finished"
    log = (tmp_path / "runs/tiny/driver.log").read_text()
    assert log.count(f"note message={sentences[0].removeprefix('hpsearch: ')}") == 1


def test_a_study_goes_on_where_the_package_is_missing(tmp_path, monkeypatch):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/prometheus_client.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(str(tmp_path / "broken"))
    write_study(tmp_path, WALKS | {"prometheus": {"port": free_port()}})
    root = Path(__file__).parents[1]
    env = {"PYTHONPATH": f"{tmp_path / 'broken'}:{root}"}
    done = hpsearch(tmp_path, "run", "study.yaml", "--no-export", env=env)
    assert done.stderr.count("Prometheus") == 1
    assert "pip install 'hpsearch[monitor]'" in done.stderr
    assert read(tmp_path, "status", "tiny")["state"] == "finished"


def test_a_driver_without_a_terminal_serves_too(tmp_path):
    port = free_port()
    endless = WALKS["base"] | {"parameters": {"rate": 0.5, "seconds": 0.5}, "steps": ENDLESS}
    write_study(tmp_path, WALKS | {"base": endless, "prometheus": {"port": port}})
    hpsearch(tmp_path, "submit", "study.yaml")
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while scrape(port).get(("hpsearch_study_jobs", "running")) != 1:
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.5)
    finally:
        hpsearch(tmp_path, "cancel", "tiny")
        assert no_jobs_left(tmp_path)
    while scrape(port):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.2)


# The metrics of a study that trains.


class Served:
    """A study that runs, has two trials behind it, and has lost a job."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.token = write_token(folder)
        study_file(folder, self.port, self.token.name)
        self.run = Run(folder)

    def lose_a_job(self) -> None:
        trains = {("hpsearch_study_trials", "finished"): 2, ("hpsearch_study_jobs", "running"): 1}
        self._wait(trains)
        for job in jobs_of(self.folder):  # once: the driver starts another one
            job.kill()
        self._wait(trains | {("hpsearch_study_attempts_lost_total", "lost"): 2})

    def _wait(self, expected: dict) -> None:
        """Wait until this is scraped, and the trials train."""

        def condition() -> bool:
            time.sleep(0.2)
            gauges = scrape(self.port)
            return expected.items() <= gauges.items() and gauges[SPEED,] > 0

        self.run.wait_until(condition)

    def close(self) -> tuple[int, str, str]:
        ended = self.run.end(signal.SIGINT)
        kill_jobs(self.folder)
        return ended


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = Served(tmp_path_factory.mktemp("served"))
    try:
        made.lose_a_job()
        yield made
    finally:
        code, _, err = made.close()
    assert code == 130
    assert "Prometheus" not in err
    assert scrape(made.port) == {}, "the port has been given back"


def test_what_is_scraped_is_the_studys_state(served, monkeypatch):
    monkeypatch.chdir(served.folder)
    gauges = scrape(served.port)
    said = read(served.folder, "status", "tiny")
    state = open_view("tiny", Path("runs")).state
    by_name = {
        name: {key[1]: value for key, value in gauges.items() if key[0] == f"hpsearch_study_{name}"}
        for name in ("trials", "jobs", "status", "best_value", "best_low", "best_high")
    }
    assert by_name["trials"] == said["trials"]
    assert by_name["jobs"] | {"ended": 2} == said["jobs"]
    assert [name for name, value in by_name["status"].items() if value] == [said["state"]]
    best = said["best"]["metrics"][METRIC]
    for key in ("value", "low", "high"):
        assert by_name[f"best_{key}"] == {METRIC: best[key]}
    assert gauges["hpsearch_study_best_trial", METRIC] == said["best"]["trial"]
    assert gauges["hpsearch_study_budget_trials",] == said["budget"]
    assert said["waste"]["lost"]["attempts"] == 2
    waits = [job.began_at - job.announced_at for job in state.jobs.values()]
    assert gauges["hpsearch_study_queue_wait_seconds_count",] == len(waits) == 3
    assert gauges["hpsearch_study_queue_wait_seconds_sum",] == pytest.approx(sum(waits))
    assert abs(time.time() - gauges["hpsearch_study_look_timestamp_seconds",]) < 60
    assert gauges["hpsearch_study_round_seconds",] > 0
    folder = StudyDir(served.folder / "runs/tiny")
    beats = [folder.heartbeat(number, 2) for number in (2, 3)]
    assert 120 < gauges["hpsearch_study_training_steps_total",] <= 120 + sum(b.step for b in beats)


def test_without_the_token_nothing_is_told(served):
    with pytest.raises(urllib.error.HTTPError, match="401") as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics", timeout=10)
    assert b"hpsearch_study" not in refused.value.read()


def test_another_driver_leaves_the_port_to_the_first(served):
    done = hpsearch(served.folder, "run", "study.yaml", code=4)
    assert "Prometheus" not in done.stderr
    assert scrape(served.port)["hpsearch_study_trials", "finished"] == 2


# A real Prometheus, and the dashboard's questions to it.


@pytest.fixture(scope="module")
def prometheus(served, tmp_path_factory):
    """The address of a Prometheus that has scraped the driver."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("needs prometheus: apt-get install prometheus")
    folder, port = tmp_path_factory.mktemp("prometheus"), free_port()
    config = (MONITORING / "prometheus.yml").read_text()
    assert "127.0.0.1:9464" in config
    config = config.replace("9464", str(served.port)).replace(
        "scrape_interval: 15s", "scrape_interval: 1s"
    )
    config = config.replace("# authorization:", "authorization:")
    (folder / "prometheus.yml").write_text(config)
    (folder / "token").symlink_to(served.token)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE_SECONDS
        # Rates need two samples.
        while not ask(address, "count_over_time(hpsearch_study_gpus[1m]) > 2"):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_SECONDS)


def ask(address: str, expression: str) -> list[dict]:
    """Return the vector that an expression evaluates to now."""
    query = urllib.parse.urlencode({"query": expression})
    try:
        answer = json.loads(get(f"{address}/api/v1/query?{query}"))
    except urllib.error.HTTPError as error:
        raise AssertionError((expression, error.read())) from error
    except OSError:  # it has not started yet
        return []
    assert answer["status"] == "success", answer
    assert answer["data"]["resultType"] == "vector", answer
    return answer["data"]["result"]


def expressions() -> list[tuple[str, str]]:
    """Return every panel's expressions, with its title."""
    panels = json.loads((MONITORING / "grafana.json").read_text())["panels"]
    return [
        (panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())
    ]


EMPTY = {
    "max(hpsearch_study_budget_gpu_seconds) / 3600",
    "sum by (kind) (hpsearch_study_gpu_seconds_wasted_total) / 3600 > 0",
    "sum by (kind) (hpsearch_study_trials_failed_total) > 0",
    "sum(hpsearch_study_matches_judged_total)",
    "sum by (operator) (hpsearch_study_children_total)",
    "sum by (operator) (hpsearch_study_children_adopted_total) "
    "/ sum by (operator) (hpsearch_study_children_total)",
}
"""expressions, without the study, of which this study, a search on a CPU, has nothing"""


def test_every_expression_of_the_dashboard_is_answered(prometheus):
    answered = {}
    for _, expression in expressions():
        name = expression.replace('{study="$study"}', "").replace('study="$study", ', "")
        answered[name] = ask(prometheus, expression.replace("$study", "tiny"))
    assert {name for name, answer in answered.items() if not answer} == EMPTY
    (status,) = answered["max by (status) (hpsearch_study_status) == 1"]
    assert status["metric"] == {"status": "running"}
    (lost,) = answered["sum by (kind) (hpsearch_study_attempts_lost_total) > 0"]
    assert (lost["metric"], float(lost["value"][1])) == ({"kind": "lost"}, 2.0)


def test_every_metric_of_the_dashboard_is_served(served):
    text = get(f"http://127.0.0.1:{served.port}/metrics")
    families = list(text_string_to_metric_families(text))
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name for family in families
    }
    names |= {sample.name for family in families for sample in family.samples}
    dashboard = (MONITORING / "grafana.json").read_text()
    assert set(re.findall(r"hpsearch_study_\w+", dashboard)) <= names


def test_promtool_finds_no_fault(served):
    """Its lint knows the conventions of names, units and texts."""
    if shutil.which("promtool") is None:
        pytest.skip("needs promtool: apt-get install prometheus")
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=get(f"http://127.0.0.1:{served.port}/metrics"),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
