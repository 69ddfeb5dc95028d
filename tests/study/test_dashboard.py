"""The dashboard of a study: a real server, a real browser, and nothing that can be changed."""

import json
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest
from browser import opened
from cli_tools import Run, refused, write_study
from dashboards import Dashboard
from drives import drive, new_study, stored_events, stored_trials
from drives import opened as opened_driver
from fakes import FakeExecutor
from test_population_study import origins, population_study, teaching

from hpsearch.cluster.study_dir import StudyDir

pytest.importorskip(
    "optuna_dashboard", reason="needs optuna-dashboard: pip install hpsearch[dashboard]"
)

PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A population that has ended."""
    made = population_study(tmp_path_factory.mktemp("study"))
    drive(made, FakeExecutor(teaching=teaching))
    return made


@pytest.fixture(scope="module")
def folder(study):
    return StudyDir(study.path.parent / "runs" / study.spec.name)


@pytest.fixture(scope="module")
def dashboard(study):
    served = Dashboard(study.path.parent, study.spec.name)
    yield served
    code, _, err = served.close()
    assert (code, err) == (0, "")


@pytest.fixture
def serve():
    """Return a function that starts a dashboard, which ends with the test at the latest."""
    served = []

    def start(*arguments):
        served.append(Dashboard(*arguments))
        return served[-1]

    yield start
    for dashboard in served:
        dashboard.close()


def query(path, question):
    with closing(sqlite3.connect(path)) as file:
        return file.execute(question).fetchall()


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.5)


# What it shows.


def test_what_is_printed(dashboard, study):
    first, address, _, way = dashboard.said.splitlines()
    assert first == f"the dashboard of {study.spec.name}, read-only, until Ctrl-C:"
    assert address.strip().startswith("http://127.0.0.1:")
    port = dashboard.base.rpartition(":")[2]
    assert way.strip().startswith(f"ssh -L {port}:127.0.0.1:{port} ")


def test_the_trials_are_those_of_the_database(dashboard, study):
    shown = dashboard.study()
    trials = stored_trials(study)
    assert [trial["number"] for trial in shown["trials"]] == [trial.number for trial in trials]
    assert [trial.get("values") for trial in shown["trials"]] == [trial.values for trial in trials]
    assert [trial["trial_id"] for trial in shown["trials"]] == [trial._trial_id for trial in trials]
    best = max(trials, key=lambda trial: trial.value)
    assert shown["best_trials"][0]["number"] == best.number
    assert shown["objective_names"] == ["rho/host/choose_first"]


def test_the_figures_hold_the_studys_numbers(dashboard, study, folder):
    shown = {
        figure["id"]: json.loads(figure["graph_object"])
        for figure in dashboard.study()["plotly_graph_objects"]
    }
    assert shown.keys() == {
        "learning-curves",
        "cluster-load",
        "cluster-timeline",
        "lineage",
        "cross-play",
        "importances-0",
    }
    trials = stored_trials(study)
    parents = {number: origin["parents"] for number, origin in origins(study).items()}
    curves = [
        drawn for drawn in shown["learning-curves"]["data"] if "trial " in drawn.get("name", "")
    ]
    assert curves
    for curve in curves:
        told, line = {}, [int(curve["name"].removeprefix("trial "))]
        while line:
            told |= trials[line[0]].intermediate_values
            line = parents[line[0]][:1]
        assert len(told) > 1
        assert dict(zip(curve["x"], curve["y"], strict=True)) == pytest.approx(told, rel=1e-3)
    legend = [int(curve["name"].removeprefix("trial ")) for curve in curves]
    judged = stored_events(study, "bred")[-1][-1]["strengths"]
    assert legend == sorted(legend, key=lambda trial: -judged[str(trial)])
    last = max(int(path.name) for path in (folder.root / "matches").iterdir())
    games = np.load(folder.match(last).root / "games.npz")["moves"]
    rho = games[0].shape[-1] * len(games) / games.sum(axis=(0, 3))
    assert np.array(shown["cross-play"]["data"][0]["z"]) == pytest.approx(rho, rel=1e-3)
    (members,) = [drawn for drawn in shown["lineage"]["data"] if drawn["name"] == "trials"]
    assert len(members["x"]) == len(trials)
    for axis in ("xaxis", "yaxis"):  # else plotly writes 0, 1, 1, 2, 2
        assert shown["lineage"]["layout"][axis]["dtick"] == 1
    jobs = len({path.name for path in folder.jobs.iterdir()})
    bars = [drawn for drawn in shown["cluster-timeline"]["data"] if drawn.get("type") == "bar"]
    assert 0 < len({name for bar in bars for name in bar["y"]}) <= jobs


def test_the_champion_is_named_beside_the_best_trial(dashboard, study):
    shown = dashboard.study()
    champion = stored_events(study, "bred")[-1][-1]["champion"]
    told = {attr["key"]: attr["value"] for attr in shown["user_attrs"]}
    assert told["champion"].startswith(f"The champion is trial {champion}, ")
    body = f"{told['champion']}\n\n{told['importances']}"
    assert shown["note"] == {"version": 0, "body": body}
    kept = query(study.path.parent / "study.db", "SELECT key FROM study_system_attributes")
    assert kept
    assert not [key for (key,) in kept if "note" in key]


def test_importances_are_shown_with_their_noise(dashboard):
    """Optuna's chart draws 0 within it; the note says what may be concluded."""
    shown = dashboard.study()
    figures = {
        figure["id"]: json.loads(figure["graph_object"]) for figure in shown["plotly_graph_objects"]
    }
    noise, bars = figures["importances-0"]["data"]
    assert (noise["name"], bars["name"]) == ("noise", "importance, 95 % interval")
    above = any(share > limit for share, limit in zip(bars["x"], noise["x"], strict=True))
    assert ("Too few trials to tell" in shown["note"]["body"]) == (not above)
    assert "Optuna's chart draws those within the noise as 0." in shown["note"]["body"]
    status, body = dashboard.ask("GET", f"{dashboard.api}/param_importances")
    (drawn,) = json.loads(body)["param_importances"]
    expected = {
        name: share if share > limit else 0
        for name, share, limit in zip(bars["y"], bars["x"], noise["x"], strict=True)
    }
    assert status == 200
    assert {bar["name"]: bar["importance"] for bar in drawn} == pytest.approx(expected)


@pytest.mark.slow
def test_a_browser_draws_the_figures_without_complaint(dashboard):
    page = opened(dashboard.url)
    assert page.console == []
    assert "The champion is trial" in page.dom.partition('<div id="root"')[0]  # above their page
    for name in ("learning-curves", "cluster-timeline", "lineage", "cross-play"):
        assert f'id="user-defined-plot:{name}"' in page.dom
    for title in (
        "learning curves: the lines",
        "the cluster: jobs over time",
        "descent: the champion",
    ):
        assert title in page.dom
    assert page.dom.count("js-plotly-plot") >= 8  # theirs too
    assert page.dom.count('class="trace scatter') >= 6
    assert 'class="legendtext"' in page.dom


@pytest.mark.slow
@pytest.mark.parametrize("place", ["trials", "trialTable", "analytics", "note"])
def test_a_browser_opens_the_other_pages_without_complaint(dashboard, place):
    address, token = dashboard.url.split("?")
    page = opened(f"{address}/{place}?{token}")
    assert page.console == []
    assert "quick" in page.dom


def test_what_a_page_complains_of_is_seen():
    """Else no complaint would be no news."""
    page = opened("data:text/html,<script>console.error('wrong'); nothing.there</script>")
    assert len(page.console) == 2
    assert "wrong" in page.console[0]


def test_files_can_be_looked_at(dashboard, study, folder):
    shown = dashboard.study()
    number = dashboard.api.rpartition("/")[2]
    (file,) = [artifact for artifact in shown["artifacts"] if artifact["filename"] == "study.yaml"]
    status, body = dashboard.ask("GET", f"/artifacts/{number}/{file['artifact_id']}")
    assert (status, body) == (200, study.path.read_bytes())
    best = shown["best_trials"][0]
    (config,) = [
        artifact for artifact in best["artifacts"] if artifact["filename"] == "config.yaml"
    ]
    path = f"/artifacts/{number}/{best['trial_id']}/{config['artifact_id']}"
    assert dashboard.ask("GET", path)[1] == folder.trial(best["number"]).config.read_bytes()
    other = "00000000-0000-0000-0000-000000000000"
    assert dashboard.ask("GET", f"/artifacts/{number}/{other}")[0] == 404


# What it refuses.


def routes():
    """Return all that Optuna's dashboard answers beside reading."""
    import optuna
    from optuna_dashboard import wsgi

    app = wsgi(optuna.storages.InMemoryStorage())
    fill = {"study_id:int": "1", "trial_id:int": "1", "history_id": "x"}
    for route in app.routes:
        path = route.rule
        for name, value in fill.items():
            path = path.replace(f"<{name}>", value)
        path = path.split("<artifact_id")[0] + ("00-00" if "<artifact_id" in path else "")
        if route.method not in ("GET", "HEAD"):
            yield route.method, path


def test_every_request_that_changes_something_is_refused(dashboard, study):
    before = stored_trials(study)
    requests = list(routes())
    assert ("DELETE", "/api/studies/1") in requests
    assert len(requests) > 10
    for method, path in [*requests, ("PATCH", "/api/studies/1"), ("DELETE", "/api/studies/1/")]:
        status, body = dashboard.ask(method, path, {})
        assert (status, method, path) == (403, method, path)
        assert "read-only" in json.loads(body)["reason"]
    assert stored_trials(study) == before
    assert len(dashboard.study()["trials"]) == len(before)


def test_without_the_token_nothing_is_seen(dashboard):
    for path in ("/", "/dashboard", dashboard.api, "/api/studies?token=wrong", "/csv/1"):
        status, body = dashboard.ask_as_stranger("GET", path)
        assert status == 403
        assert b"with its token" in body
    assert dashboard.ask_as_stranger("DELETE", dashboard.api)[0] == 403


@pytest.mark.slow
def test_notes_can_be_written_and_nothing_else(tmp_path, serve):
    study = new_study(tmp_path, budget={"trials": 4})
    drive(study, FakeExecutor())
    before = stored_trials(study)
    trial = before[2]
    writing = serve(tmp_path, study.spec.name, "--write")
    told = {"version": 1, "body": "a *note*"}
    assert writing.ask("PUT", f"{writing.api}/note", told)[0] == 204
    assert writing.ask("PUT", f"{writing.api}/{trial._trial_id}/note", told)[0] == 204
    assert writing.study()["note"] == told
    for method, path in routes():
        if not path.endswith("/note"):
            status, body = writing.ask(method, path, {})
            assert (status, path) == (403, path)
            assert "only the driver changes a study" in json.loads(body)["reason"]
    writing.close()
    reading = serve(tmp_path, study.spec.name)
    shown = reading.study()
    assert (shown["note"], shown["trials"][2]["note"]) == (told, told)
    assert reading.ask("PUT", f"{reading.api}/note", told | {"version": 2})[0] == 403
    reading.close()
    assert stored_trials(study) == before


# How it follows the study.


@pytest.mark.slow
def test_rounds_of_a_driver_are_followed(tmp_path, serve):
    """A driver that comes and goes, as cron calls it."""
    study = new_study(tmp_path, budget={"trials": 6})
    with opened_driver(study, FakeExecutor()) as driver:
        driver.tick()
    served = serve(tmp_path, study.spec.name)
    begun = len(served.study()["trials"])
    assert begun == len(stored_trials(study)) > 0
    # Without --write nothing is steered.
    assert served.ask("POST", "/hpsearch/requests", {"verb": "cancel"})[0] == 403
    assert b"data-verb" not in served.ask("GET", "/dashboard")[1]
    with opened_driver(study, FakeExecutor()) as driver:
        assert driver.state.status == "running"
        while driver.is_busy:
            driver.tick()
    ended = [trial.values for trial in stored_trials(study)]
    wait_until(lambda: [trial.get("values") for trial in served.study()["trials"]] == ended)
    served.close()


@pytest.mark.slow
def test_real_jobs_are_followed(tmp_path, serve):
    write_study(tmp_path, {"budget/trials": 3})
    run, trials = Run(tmp_path, "--no-export"), tmp_path / "runs/tiny/trials"
    run.wait_until(trials.exists)
    served = serve(tmp_path, "tiny")
    assert len(served.study()["trials"]) > 0
    assert run.wait()[0] == 0
    states = lambda: [trial["state"] for trial in served.study()["trials"]]  # noqa: E731
    wait_until(lambda: states() == ["Complete"] * 3)
    assert served.close()[0] == 0


# What it cannot do.


def test_a_study_that_was_not_started(tmp_path):
    assert "no study 'missing'" in refused(tmp_path, "dashboard", "missing", "--port", "0", code=2)


def test_a_host_that_is_not_this_machine(study):
    message = refused(study.path.parent, "dashboard", "quick", "--host", "192.0.2.1", code=2)
    assert "192.0.2.1 is no address of this machine" in message
