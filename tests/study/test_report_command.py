"""hpsearch report: what its page shows, against plain Optuna and the events in SQL."""

import json
import sys

import numpy as np
import optuna
import pytest
from drives import (
    METRIC,
    Clock,
    drive,
    new_study,
    opened,
    query,
    stored_events,
    stored_trials,
    tick_until,
)
from fakes import FakeExecutor, Fault
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.trial import TrialState
from pages import check_page, trace
from test_population_study import population_study, teaching

from hpsearch.cli import main
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.state import RUNNING

FAULTS = {(3, 1): Fault("nan", 8), (5, 1): Fault("error", 4), (7, 1): Fault("vanish", 4)}
SPACE = {
    "host.optim.args.lr": {"type": "float", "low": 1e-4, "high": 1e-1, "log": True},
    "host.gamma": {"type": "float", "low": 0.5, "high": 0.99},
    "agent.player": {"type": "categorical", "choices": ["choose_first", "random"]},
}


class Ticking(Clock):
    """A clock that goes on at each look."""

    def __call__(self) -> float:
        self.now += 10.0
        return self.now


def page_of(study, *options: str):
    """Return the page of a study, checked."""
    path = study.path.parent / "page.html"
    runs = str(study.path.parent / "runs")
    arguments = ["report", str(study.path), "--runs", runs, "--games", "0", "-o", str(path)]
    assert main([*arguments, *options]) == 0
    return check_page(path.read_text())


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """A search with pruned and failed trials, over a clock that goes on."""
    study = new_study(
        tmp_path_factory.mktemp("search"),
        space=SPACE,
        sampler={"name": "random"},
        pruner={"name": "median", "n_startup_trials": 4},
        budget={"trials": 30},
        max_failures=10,
        executor={"name": "local", "jobs": 2, "members_per_job": 3},
    )
    with opened(study, FakeExecutor(faults=FAULTS, gpus_per_job=2.0), Ticking()) as driver:
        tick_until(driver, lambda: driver.state.status != RUNNING)
    return study


@pytest.fixture(scope="module")
def search_page(search):
    return page_of(search)


def test_the_history_is_that_of_the_trials(search, search_page):
    chart, trials = search_page.charts["history-0"], stored_trials(search)
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert trace(chart, "finished")["x"] == [trial.number for trial in finished]
    assert trace(chart, "finished")["y"] == [trial.value for trial in finished]
    best = [max(trial.value for trial in finished[: n + 1]) for n in range(len(finished))]
    assert trace(chart, "best so far")["y"] == best
    pruned = [trial.number for trial in trials if trial.state == TrialState.PRUNED]
    assert pruned
    assert trace(chart, "pruned")["x"] == pruned
    failed = [trial.number for trial in trials if trial.state == TrialState.FAIL]
    assert trace(chart, "failed")["x"] == failed == [3, 5]


def test_the_answer_stands_first(search, search_page):
    best = max(
        (trial for trial in stored_trials(search) if trial.state == TrialState.COMPLETE),
        key=lambda trial: trial.value,
    )
    assert f"Trial {best.number}, the best of the search" in search_page.words
    rows = dict(search_page.tables[0][1:])
    assert rows["agent.player"] == best.params["agent.player"]
    assert float(rows["host.gamma"]) == pytest.approx(best.params["host.gamma"], rel=1e-3)


def test_importances_are_those_of_optuna_beyond_chance(search, search_page):
    check_importances(search_page, 0, importances(search, 0, "maximize"))


def check_importances(page, place: int, expected: dict[str, float]) -> None:
    bars = trace(page.charts[f"importances-{place}"], "importance, 95 % interval")
    drawn = dict(zip(bars["y"], bars["x"], strict=True))
    assert drawn == pytest.approx(expected, abs=0.1)  # other shuffles give another chance


def importances(study, objective: int, direction: str) -> dict[str, float]:
    """Return what Optuna says of the trials as plain SQL holds them, beyond what chance gives."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trials = [trial for trial in stored_trials(study) if trial.state == TrialState.COMPLETE]
    values = [trial.values[objective] for trial in trials]
    evaluator = PedAnovaImportanceEvaluator(target_quantile=min(0.4, 10 / len(trials)))
    rng = np.random.default_rng(11)

    def by_name(shown) -> dict[str, float]:
        alone = optuna.create_study(direction=direction)
        for trial, value in zip(trials, shown, strict=True):
            trial.values = [float(value)]
            alone.add_trial(trial)
        return evaluator.evaluate(alone)

    measured = by_name(values)
    shuffled = [by_name(rng.permutation(values)) for _ in range(60)]
    beyond = {
        name: max(0.0, measured[name] - np.mean([row[name] for row in shuffled]))
        for name in measured
    }
    return {name: value / sum(beyond.values()) for name, value in beyond.items()}


def test_the_page_says_where_chance_explains_the_importances(search, search_page, tmp_path):
    """In the search the step alone sets the value, so what parameters there are is noise."""
    noise = trace(search_page.charts["importances-0"], "noise")
    bars = trace(search_page.charts["importances-0"], "importance, 95 % interval")
    above = [
        name
        for name, limit, share in zip(noise["y"], noise["x"], bars["x"], strict=True)
        if share > limit
    ]
    said = "Too few trials to tell which parameters mattered" in search_page.words
    assert said == (not above)
    assert "100 shuffles" in search_page.words
    assert "100 resamples" in search_page.words
    assert all(end >= 0 for end in (*bars["error_x"]["array"], *bars["error_x"]["arrayminus"]))


def test_slices_are_the_values_by_parameter(search, search_page):
    finished = [trial for trial in stored_trials(search) if trial.state == TrialState.COMPLETE]
    charts = [chart for name, chart in search_page.charts.items() if name.startswith("slice-")]
    by_name = {chart["layout"]["xaxis"]["title"]["text"]: chart for chart in charts}
    assert set(by_name) == set(SPACE)
    for name, chart in by_name.items():
        points = trace(chart, "finished")
        assert points["x"] == [trial.params[name] for trial in finished]
        assert points["y"] == [trial.value for trial in finished]
    assert by_name["host.optim.args.lr"]["layout"]["xaxis"]["type"] == "log"


def test_every_finished_trial_is_a_line_through_its_coordinates(search, search_page):
    finished = [trial for trial in stored_trials(search) if trial.state == TrialState.COMPLETE]
    data = search_page.charts["coordinates"]["data"]
    crossed = [
        round(y, 9)
        for line in data
        for x, y in zip(line["x"], line["y"], strict=True)
        if x is not None and x == 1  # host.gamma, the second in the order of names
    ]
    expected = [round((trial.params["host.gamma"] - 0.5) / 0.49, 9) for trial in finished]
    assert sorted(crossed) == sorted(expected)


def test_rungs_count_what_was_reported(search, search_page):
    reports = [(trial, data) for _, trial, _, data in stored_events(search, "reported")]
    pruned = {step: 0 for step in (4, 8, 12, 16)}
    went_on = dict(pruned)
    for _, data in reports:
        (pruned if data["prune"] else went_on)[data["step"]] += 1
    chart = search_page.charts["rungs-reached"]
    for name, counts in (("pruned", pruned), ("went on", went_on)):
        bars = trace(chart, name)
        drawn = dict(zip(map(int, bars["x"]), bars["y"], strict=True))
        assert drawn == {step: counts[step] for step in drawn}
        assert sum(drawn.values()) == sum(counts.values())


def test_curves_are_what_the_files_hold(search, search_page):
    folder = StudyDir(search.path.parent / "runs" / "quick")
    drawn = [
        chart for chart in search_page.charts["curves"]["data"] if "trial" in chart.get("name", "")
    ]
    assert len(drawn) == 5
    for curve in drawn:
        number = int(curve["name"].removeprefix("trial "))
        lines = folder.trial(number).metrics.read_text().splitlines()
        rows = {row["step"]: row["metrics"][METRIC]["value"] for row in map(json.loads, lines)}
        assert dict(zip(curve["x"], curve["y"], strict=True)) == rows


def test_hours_are_those_of_the_jobs(search, search_page):
    began, hours = {}, 0.0
    rows = stored_events(search, "job_began", "job_ended")
    ends = {job: data.get("ended_at") for kind, _, job, data in rows if kind == "job_ended"}
    times = dict(_times(search))
    for (kind, job), at in times.items():
        if kind == "job_began":
            began[job] = at
    for job, at in began.items():
        end = min(ends[job] or times["job_ended", job], times["job_ended", job])
        hours += max(0.0, end - at) / 3600
    (table,) = [table for table in search_page.tables if table[0][0] == "jobs that"]
    ran = [row for row in table[1:] if row[0] != "waited"]
    assert sum(float(row[2]) for row in ran) == pytest.approx(hours, abs=0.01 * len(ran))
    assert sum(float(row[3]) for row in ran) == pytest.approx(2 * hours, abs=0.01 * len(ran))
    assert f"{len(ends)} jobs ran for {hours:.2f} hours" in search_page.words


def _times(study):
    rows = query(study, "SELECT kind, job, at FROM hpsearch_events WHERE job IS NOT NULL")
    for kind, job, at in rows:
        yield (kind, job), float(at)


def test_failures_are_counted_by_kind(search, search_page):
    (table,) = [table for table in search_page.tables if table[0][0] == "kind"]
    failed = {row[0]: int(row[1]) for row in table[1:]}
    told = [data["failure"] for *_, data in stored_events(search, "told") if data["failure"]]
    assert {kind: count for kind, count in failed.items() if count} == {
        kind: told.count(kind) for kind in told
    }


def test_all_trials_are_listed(search, search_page):
    (table,) = [table for table in search_page.tables if table[0][:2] == ["trial", "state"]]
    states = {
        TrialState.COMPLETE: "finished",
        TrialState.PRUNED: "pruned",
        TrialState.FAIL: "failed",
    }
    listed = [(int(row[0]), row[1]) for row in table[1:]]
    assert listed == [(trial.number, states[trial.state]) for trial in stored_trials(search)]


def test_the_page_says_how_to_do_it_again(search, search_page):
    assert search.path.read_text().strip() in search_page.words
    runs = search.path.parent / "runs"
    assert f"hpsearch run {search.path} --runs {runs}\nhpsearch confirm quick --runs {runs}" in (
        search_page.words
    )


def test_the_page_tells_no_path_above_the_folder_it_is_made_in(tmp_path, monkeypatch):
    study = new_study(tmp_path, budget={"trials": 1})
    drive(study, FakeExecutor())
    monkeypatch.chdir(tmp_path)
    assert main(["report", "quick", "--games", "0", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert f"hpsearch run {study.path.name}\n" in page
    assert str(tmp_path.parent) not in page.replace(study.spec.storage, "")


def test_a_file_that_says_something_else_is_not_shown_as_the_study(tmp_path):
    study = new_study(tmp_path, budget={"trials": 1})
    drive(study, FakeExecutor())
    study.path.write_text(study.path.read_text().replace("0.99", "0.98"))
    path = tmp_path / "page.html"
    runs = str(tmp_path / "runs")
    assert main(["report", "quick", "--runs", runs, "--games", "0", "-o", str(path)]) == 0
    words = check_page(path.read_text()).words
    assert "is gone or says something else by now" in words
    assert "high: 0.99" in words
    assert "high: 0.98" not in words


@pytest.mark.slow
def test_a_population(tmp_path):
    operators = [{"name": "clone"}, {"name": "aligned_average", "share": 0.5}]
    study = population_study(tmp_path, trials=16, operators=operators)
    drive(study, FakeExecutor(teaching=teaching))
    page = page_of(study)
    matches = [data for *_, data in stored_events(study, "bred") if data["match"]]
    assert f"Trial {matches[-1]['champion']}, the champion of the last match" in page.words
    born = {trial: data["origin"] for _, trial, _, data in stored_events(study, "asked")}
    trials = trace(page.charts["descent"], "trials")
    places = zip(trials["text"], trials["x"], trials["y"], strict=True)
    assert {int(number): (x, y) for number, x, y in places} == {
        trial: (origin["generation"], origin["member"]) for trial, origin in born.items()
    }
    edges = [chart for chart in page.charts["descent"]["data"] if chart["mode"] == "lines"]
    num_edges = sum(edge["x"].count(None) for edge in edges)
    assert num_edges == sum(len(origin["parents"]) for origin in born.values())
    _check_matrix(study, page.charts["crossplay"], len(matches))
    assert len(page.charts["strengths"]["data"]) == 4


def _check_matrix(study, chart, match: int) -> None:
    """Rho is the inverse of the mean length of a pair's games, whichever set of starts."""
    files = StudyDir(study.path.parent / "runs" / "quick").match(match)
    moves, plan = files.read_games().moves, files.plan.required()
    (heat,) = chart["data"]
    assert heat["y"] == [f"host {host.name}" for host in plan.hosts]
    assert heat["x"] == [f"agent {agent.name}" for agent in plan.agents]
    for p in range(len(plan.hosts)):
        for q in range(len(plan.agents)):
            games = moves[:, p, q].ravel().tolist()
            assert heat["z"][p][q] == pytest.approx(len(games) / sum(games))


@pytest.mark.slow
def test_several_objectives(tmp_path):
    sampled = METRIC.replace("rho/", "rho_sampled/")
    goals = [{"metric": METRIC, "goal": "maximize"}, {"metric": sampled, "goal": "minimize"}]
    study = new_study(tmp_path, objectives=goals, budget={"trials": 12})
    drive(study, FakeExecutor())
    page = page_of(study)
    values = {trial.number: trial.values for trial in stored_trials(study)}
    front = [
        n
        for n, (a, b) in values.items()
        if not any(x >= a and y <= b and (x, y) != (a, b) for x, y in values.values())
    ]
    drawn = trace(page.charts["pareto"], "beaten by none")
    assert {int(label.removeprefix("trial ")) for label in drawn["text"]} == set(front)
    for place, direction in enumerate(("maximize", "minimize")):
        assert f"history-{place}" in page.charts
        check_importances(page, place, importances(study, place, direction))


def test_an_empty_study(tmp_path):
    study = new_study(tmp_path)
    with opened(study, FakeExecutor()):
        pass
    page = page_of(study)
    assert "There is no answer yet: no trial has finished." in page.words
    assert page.charts == {}


def test_a_running_study(tmp_path):
    study = new_study(tmp_path, budget={"trials": 9})
    with opened(study, FakeExecutor(), Ticking()) as driver:
        tick_until(driver, lambda: any(trial.reported for trial in driver.state.trials.values()))
        page = page_of(study)
    assert "There is no answer yet" in page.words
    assert {"curves", "jobs", "timeline"} <= set(page.charts)


def test_a_failed_study(tmp_path):
    study = new_study(tmp_path, max_failures=0)
    drive(study, FakeExecutor(faults={(0, 1): Fault("error", 4)}))
    page = page_of(study)
    assert "failed" in page.words
    assert "trial 0 (code)" in page.words


def test_what_is_no_page_is_refused(search, capsys):
    assert main(["report", str(search.path), "-o", "page.pdf"]) == 2
    assert "a page is an .html file, got 'page.pdf'" in capsys.readouterr().err
    assert main(["report", "quick", "-o", "nowhere/page.html"]) == 2
    assert "there is no folder nowhere for the page; make it first" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["folder.html", "/proc/page.html"])
def test_a_page_that_cannot_be_written_costs_no_work(search, capsys, tmp_path, monkeypatch, place):
    (tmp_path / "folder.html").mkdir()
    gather = "hpsearch.report.page.material.gather"
    monkeypatch.setattr(gather, lambda *_: pytest.fail("the work began"))
    runs = str(search.path.parent / "runs")
    path = tmp_path / place  # which is the place itself where it begins with /
    assert main(["report", str(search.path), "--runs", runs, "-o", str(path)]) in (2, 6)
    err = capsys.readouterr().err
    assert "choose another" in err
    assert len(err.splitlines()) == 1


def test_progress_is_told_beside_the_path(search, capsys):
    page_of(search)
    out, err = capsys.readouterr()
    assert out.endswith("page.html\n")
    assert len(out.splitlines()) == 1
    assert "hpsearch: drawing the page" in err


def test_without_plotly_a_sentence_says_what_to_do(search, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    assert main(["report", str(search.path)]) == 2
    assert "pip install plotly" in capsys.readouterr().err
