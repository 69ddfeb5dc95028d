"""The parts of the page: jobs, seeds, comparisons, escaping, size, against counting by hand."""

import errno
import json
import os
import random
import re
import sys
import time
from html import unescape
from pathlib import Path

import pytest
from cli_tools import write_study
from pages import check_page, read_page, trace
from views import METRIC, Story, rho

from hpsearch.analysis.confirmation import whole_confirmation
from hpsearch.analysis.importances import Importance, Importances
from hpsearch.dashboard.figures import timeline
from hpsearch.errors import UsageError
from hpsearch.parameters import CategoricalParameter, FloatParameter
from hpsearch.report.page import material as material_module
from hpsearch.report.page import page as page_module
from hpsearch.report.page import search as search_module
from hpsearch.report.page.answer import comparisons
from hpsearch.report.page.charts import words
from hpsearch.report.page.hours import (
    MAX_LOGS,
    hours_section,
    moment,
    states_chart,
    timeline_chart,
)
from hpsearch.report.page.html import code, figure, paragraph, table
from hpsearch.report.page.material import MeasuredCurve, gather, read_curve
from hpsearch.report.page.page import SMALLER, page_text, plotly_js
from hpsearch.report.page.parameters import (
    height,
    importance_chart,
    importance_sentence,
    log_ticks,
    reading,
    shared_out,
)
from hpsearch.report.page.search import best_so_far, check_comparable, over_seeds
from hpsearch.study.records import Match
from hpsearch.study.work import KINDS, counts_over_time, spans

MEGABYTE = 1_000_000
NASTY = "<b>\"&'</script>"


def unmeasured(view, trial):
    return "it was not asked for"


def page_of(story, program: str = ""):
    text = page_text(gather(story.view, 1_700_000_000.0, "", unmeasured), program)
    return text, check_page(text)


def told(story, number: int, value: float, **params) -> None:
    story.ask(number, **params)
    story.run(number, job=f"job-{number}")
    story.tell(number, "finished", value)


# Jobs.


@pytest.fixture
def jobs(story):
    """One that trained, one that was asked to leave, one that never began, one that still runs."""
    story.ask(0)
    story.ask(1)
    story.add("announced", job="a", trials=[{"trial": 0, "attempt": 1, "token": "t"}], gpus=2.0)
    story.add("job_began", job="a", at=3600.0)
    story.add("announced", job="b", trials=[], gpus=1.0, at=0.0)
    story.view.state.jobs["b"].groups.append(((1, 1, "u"),))
    story.add("job_began", job="b", at=7200.0)
    story.add("interrupting", job="b", at=7300.0)
    story.add("job_ended", job="b", at=9000.0)
    story.add("announced", job="c", trials=[], at=0.0)
    story.add("job_ended", job="c", at=1800.0)
    return story


def test_what_jobs_did_and_for_how_long(jobs):
    timeline = spans(jobs.view, 10_800.0)
    assert [(span.job, span.kind, span.begin, span.end) for span in timeline] == [
        ("a", "waited", 0.0, 3600.0),
        ("a", "trained", 3600.0, 10_800.0),
        ("b", "waited", 0.0, 7200.0),
        ("b", "was interrupted", 7200.0, 9000.0),
        ("c", "waited", 0.0, 1800.0),
    ]
    occupied = sum(span.gpus * (span.end - span.begin) for span in timeline)
    assert occupied == jobs.view.state.gpu_seconds(10_800.0)


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ([("interrupted", None)], "was interrupted"),
        ([("lost", "preempted")], "was interrupted"),
        ([("failed", "nan"), ("interrupted", None)], "was interrupted"),
        ([("failed", "nan"), ("finished", None)], "trained"),
        ([("failed", "oom_gpu")], "failed"),
        ([("interrupted", None), ("failed", "code")], "failed"),
        ([("lost", "silent")], "failed"),
    ],
)
def test_a_job_that_was_interrupted_did_not_fail(story, ends, kind):
    for number in range(len(ends)):
        story.ask(number)
    story.run(*range(len(ends)), job="a")
    story.add("job_began", job="a", at=10.0)
    for number, (status, failure) in enumerate(ends):
        how = {"status": status, "kind": failure, "message": "", "step": 20}
        story.add("attempt_ended", number, 1, job="a", at=90.0, **how)
    story.add("job_ended", job="a", at=100.0)
    assert [span.kind for span in spans(story.view, 200.0)] == ["waited", kind]
    bars = timeline(story.view, 200.0)["data"]
    assert [bar["name"] for bar in bars] == ["waited", kind]


def test_the_page_adds_up_what_jobs_took(jobs, monkeypatch):
    """In hours: 2 of two GPUs, half an hour of one; one, two and half an hour of waiting."""
    monkeypatch.setattr(time, "time", lambda: 10_800.0)
    cost, took, *_ = hours_section(gather(jobs.view, 10_800.0, "", unmeasured))
    said = "3 jobs ran for 2.50 hours and waited for 3.50; they occupied 4.50 GPU-hours."
    assert said in cost
    assert re.findall(r"<(?:td|th scope=\"row\")>(.*?)<", took) == [
        *("waited", "3", "3.50", "0.00"),
        *("trained", "1", "2.00", "4.00"),
        *("was interrupted", "1", "0.50", "0.50"),
    ]


def test_the_number_of_jobs_over_time(jobs):
    timeline, rng = spans(jobs.view, 10_800.0), random.Random(1)
    times, counts = counts_over_time(timeline)
    for _ in range(100):
        now = rng.uniform(0.0, 10_800.0)
        place = max(at for at, time in enumerate(times) if time <= now)
        for kind in KINDS:
            alive = sum(span.kind == kind and span.begin <= now < span.end for span in timeline)
            assert counts.get(kind, [0] * len(times))[place] == alive


def test_the_pictures_of_jobs_hold_these_times(jobs):
    timeline = spans(jobs.view, 10_800.0)
    bars = trace(timeline_chart(timeline), "trained")
    assert (bars["base"], bars["x"]) == ([moment(3600.0)], [7_200_000])
    assert moment(3600.0) == 3_600_000
    waited = trace(states_chart(timeline), "waited")
    assert waited["y"] == [3, 2, 1, 0, 0, 0]


# Numbers.


def test_best_so_far():
    rng = random.Random(2)
    values = [rng.random() for _ in range(50)]
    assert best_so_far(values, "maximize") == [max(values[: n + 1]) for n in range(50)]
    assert best_so_far(values, "minimize") == [min(values[: n + 1]) for n in range(50)]


def test_groups_of_lines():
    rng = random.Random(3)
    values = [rng.random() for _ in range(30)]
    lower, upper, top = shared_out(values, worst_first=True)
    assert sorted(lower + upper + top) == list(range(30))
    assert [len(lower), len(upper), len(top)] == [15, 12, 3]
    assert max(values[n] for n in lower) < min(values[n] for n in upper)
    assert max(values[n] for n in upper) < min(values[n] for n in top)
    assert [values[n] for n in shared_out(values, worst_first=False)[2]] == sorted(values)[2::-1]
    assert shared_out([1.0], worst_first=True) == [[], [], [0]]


def test_heights_on_an_axis():
    log = FloatParameter(1e-4, 1e-2, log=True)
    assert height(log, 1e-3, 0) == pytest.approx(0.5)
    assert height(FloatParameter(2.0, 4.0), 3.5, 0) == 0.75
    assert height(FloatParameter(2.0, 2.0), 2.0, 0) == 0.5
    choices = CategoricalParameter(([64, 64], "b", 3))
    assert height(choices, "b", 7) == pytest.approx(0.5, abs=0.02)
    assert height(choices, "[64, 64]", 7) == pytest.approx(0.0, abs=0.02)
    alike = CategoricalParameter((1, "1", 2))
    assert height(alike, "1", 7) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1e-4, 1e-2, [1e-4, 1e-3, 1e-2]),
        (8, 128, [10, 20, 50, 100]),
        (3.1e-5, 8.2e-5, [4e-5, 5e-5, 6e-5, 7e-5, 8e-5]),
        (0.11, 0.99, [0.2, 0.3, 0.5, 0.7]),
        (1, 3, [1, 2, 3]),
        (0.81, 0.97, [0.81, 0.9, 0.97]),
        (64, 64, [64]),
    ],
)
def test_ticks_of_a_logarithmic_axis(low, high, ticks):
    assert log_ticks(low, high) == ticks


def test_each_label_of_a_logarithmic_axis_is_a_number_by_itself(story):
    for number, lr in enumerate((0.0008, 0.002, 0.007)):
        told(story, number, 0.1, **{"host.optim.args.lr": lr})
    _, page = page_of(story)
    axes = [chart["layout"]["xaxis"] for name, chart in page.charts.items() if "slice" in name]
    (log_axis,) = [axis for axis in axes if axis["type"] == "log"]
    assert log_axis["tickvals"] == [0.001, 0.002, 0.005]
    assert log_axis["ticktext"] == ["0.001", "0.002", "0.005"]


def test_bands_over_seeds_are_at_shared_steps():
    curves = [
        MeasuredCurve(n, {step: (1.0 * n * step, 0.0, 0.0) for step in steps})
        for n, steps in ((1, (10, 20, 30)), (2, (10, 20, 30)), (6, (10, 30)))
    ]
    assert over_seeds(curves) == ([10, 30], [10, 30], [30, 90], [60, 180])


@pytest.mark.parametrize("is_population", [False, True])
def test_captions_tell_the_champion_from_the_best_value(story, is_population):
    told(story, 0, 0.1)
    told(story, 1, 0.2)
    if is_population:
        judged = Match(1, {0: 0}, ended=(0,), archive=(), strengths={0: -2.0}, champion=0)
        story.view.state.population.matches[1] = judged
        story.view.state.population.archive.append(judged.champion)
    _, page = page_of(story)
    (star,) = trace(page.charts["slice-0"], "best")["y"]
    assert star == (0.1 if is_population else 0.2)
    assert trace(page.charts["history-0"], "best so far")["y"] == [0.1, 0.2]
    for said in (
        "The star is the champion, by its strength in the last match",
        "the best so far by value, while the champion is chosen by strength",
    ):
        assert (said in page.words) == is_population


def test_the_history_is_in_the_order_of_asking(story):
    for number, value in ((2, 0.3), (0, 0.1), (1, 0.2)):  # as a snapshot may hold them
        told(story, number, value)
    _, page = page_of(story)
    line = trace(page.charts["history-0"], "best so far")
    assert (line["x"], line["y"]) == ([0, 1, 2], [0.1, 0.2, 0.3])
    assert line["hoverinfo"] == "skip", "the line takes the clicks that are meant for the points"


def test_the_verdict_is_that_of_the_exported_bundle(story):
    told(story, 0, 0.1)
    sentence = "Trial 0 is weaker than zeillinger."
    material = gather(story.view, 0.0, "", unmeasured, certify=lambda view, trial: [sentence])
    assert sentence in check_page(page_text(material, "")).words


def test_a_confirmation_has_bands_over_its_seeds(story):
    for number in range(2):
        told(story, number, 0.1, **{"host.gamma": 0.8 + number / 10})
    folder = story.view.folder
    rows = {0: (0.1, 0.3), 1: (0.2, 0.4), 2: (0.6, 0.2)}
    for trial, values in rows.items():
        files = type(folder)(folder.root.parent / "tiny-confirm").trial(trial)
        for step, value in zip((20, 40), values, strict=True):
            files.append_metrics({"step": step, "metrics": {METRIC: rho(value)}})
    huge = {"value": 10**400, "low": 0.0, "high": 1.0}  # no number of a chart
    files.append_metrics({"step": 99, "metrics": {METRIC: huge}})
    assert read_curve(files, 2, METRIC).column(0) == [0.6, 0.2]
    write_confirmation(story, [(1, [0, 1]), (0, [2])])
    _, page = page_of(story)
    band, mean = page.charts["curves-seeds"]["data"][:2]
    assert mean["y"] == pytest.approx([0.15, 0.35])
    assert band["y"] == pytest.approx([0.1, 0.3, 0.4, 0.2])
    assert "Trial 1, the best when compared on what the search never used" in page.words
    held_out = trace(page.charts["held-out"], "held out")
    assert held_out["y"] == ["trial 1", "trial 0"]
    assert held_out["x"] == pytest.approx([0.3, 0.2])


def write_confirmation(story, entries) -> None:
    from hpsearch import files

    trials = [
        {
            "trial": trial, "search": {"value": 0.5, "low": 0.4, "high": 0.6}, "chance": 0.7,
            "mean": 0.3 - 0.1 * place, "low": 0.1, "high": 0.5, "iqm": None, "failed": 0,
            "seeds": [{"seed": seed, "trial": seed, "metrics": {}} for seed in seeds],
        }
        for place, (trial, seeds) in enumerate(entries)
    ]  # fmt: skip
    data = {
        "study": "tiny", "match": None, "favourite": 0, "held_up": True,
        "trained_by": "tiny-confirm", "metric": METRIC, "goal": "maximize", "games": 100,
        "top": len(entries), "best": trials[0]["trial"], "advice": "take it", "trials": trials,
    }  # fmt: skip
    files.write_json(story.view.folder.confirmation, data)


@pytest.mark.parametrize("wrong", [None, {"mean": None}, {"low": None}, {"high": None}])
def test_a_damaged_confirmation_does_not_stop_the_page(story, wrong):
    told(story, 0, 0.1)
    path = story.view.folder.confirmation
    path.parent.mkdir(parents=True, exist_ok=True)
    write_confirmation(story, [(0, [0])])
    assert "confirmation.json" not in page_of(story)[1].words
    if wrong is None:
        path.write_text("{")
    else:
        data = json.loads(path.read_text())
        data["trials"][0] |= wrong
        path.write_text(json.dumps(data))
    assert "confirmation.json" in page_of(story)[1].words


def test_a_confirmation_of_a_later_version_may_hold_more(story):
    told(story, 0, 0.1)
    path = story.view.folder.confirmation
    path.parent.mkdir(parents=True, exist_ok=True)
    write_confirmation(story, [(0, [0, 1])])
    known = whole_confirmation(story.view)
    data = json.loads(path.read_text())
    (trial,) = data["trials"]
    for record in (data, trial, *trial["seeds"]):
        record["later"] = [{"seed": 1}]
    path.write_text(json.dumps(data))
    assert whole_confirmation(story.view) == known
    assert [seed.seed for seed in known.trials[0].seeds] == [0, 1]


def test_a_confirmation_that_may_not_be_read_does_not_stop_the_page(story, monkeypatch):
    told(story, 0, 0.1)
    path = story.view.folder.confirmation
    opened, stat = os.open, os.stat

    def refuse(call):
        def refusing(name, *arguments, **options):
            if name == path:
                raise PermissionError(errno.EACCES, "Permission denied", str(name))
            return call(name, *arguments, **options)

        return refusing

    monkeypatch.setattr(os, "open", refuse(opened))
    monkeypatch.setattr(os, "stat", refuse(stat))
    assert f"{path} cannot be read" in page_of(story)[1].words


def test_the_front_holds_the_trials_that_no_other_beats_in_everything(tmp_path):
    other = "rho_sampled/host/choose_first"
    goals = [{"metric": METRIC, "goal": "maximize"}, {"metric": other, "goal": "minimize"}]
    changes = {"objectives": goals, "budget": {"trials": 60}}
    story, rng = Story(write_study(tmp_path, changes)), random.Random(5)
    points = [(rng.randrange(1, 12) / 20, rng.randrange(1, 12) / 20) for _ in range(60)]
    for number, (value, cost) in enumerate(points):
        story.ask(number)
        story.run(number, job=f"job-{number}")
        metrics = {METRIC: rho(value), other: rho(cost)}
        how = {"value": None, "failure": None, "message": ""}
        story.add("told", number, state="finished", metrics=metrics, **how)
    unbeaten = {
        n
        for n, (value, cost) in enumerate(points)
        if not any(a >= value and b <= cost and (a, b) != (value, cost) for a, b in points)
    }
    _, page = page_of(story)
    drawn = trace(page.charts["pareto"], "beaten by none")
    assert {int(name.removeprefix("trial ")) for name in drawn["text"]} == unbeaten
    assert drawn["x"] == sorted(drawn["x"], reverse=True)
    assert len(trace(page.charts["pareto"], "beaten")["x"]) == 60 - len(unbeaten)
    assert f"{len(unbeaten)} of 60 finished trials are beaten by no other" in page.words


def test_published_numbers_stand_beside_games_of_that_size_alone(tmp_path):
    small = Story(write_study(tmp_path / "small"))
    told(small, 0, 0.1)
    large = {"base": "large.yaml"}
    text = (tmp_path / "small" / "trainer.yaml").read_text()
    for old, new in (
        ("max_num_points: 5", "max_num_points: 20"),
        ("max_value: 8", "max_value: 20"),
    ):
        text = text.replace(old, new)
    (tmp_path / "small" / "large.yaml").write_text(text.replace("max_steps: 30", "max_steps: 100"))
    big = Story(write_study(tmp_path / "small", large))
    told(big, 0, 0.1)
    (comparison,) = comparisons(gather(small.view, 0.0, "", unmeasured))
    assert [player for player, _ in comparison.rows] == ["trial 0, greedy"]
    (comparison,) = comparisons(gather(big.view, 0.0, "", unmeasured))
    published = {
        player: {name: rho["value"] for name, rho in rhos.items()}
        for player, rhos in comparison.rows[1:]
    }
    assert published == {
        "zeillinger, published": {"choose_first": 0.079, "random": 0.186},
        "all_coord, published": {"random": 0.215},
        "published DQN": {"choose_first": 0.05, "random": 0.175},
    }


# What is left out.


def test_sections_and_charts_with_nothing_in_them_are_left_out(story):
    _, empty = page_of(story)
    assert set(empty.ids) == {"answer", "confirmation", "again"}
    told(story, 0, 0.1)
    _, page = page_of(story)
    assert {"history", "parameters", "trials", "hours"} <= set(page.ids)
    assert not {"rungs", "learning", "yardsticks"} & set(page.ids)
    assert "What failed" not in page.words
    assert "rho-host" not in page.charts, "one point says no more than its table"
    story.ask(1)
    story.run(1, job="b")
    story.tell(1, "failed", failure="code", message="a fault")
    assert "What failed" in page_of(story)[1].words


def test_titles_stand_at_their_ticks(story):
    told(story, 0, 0.1)
    _, page = page_of(story)
    axes = [
        axis
        for chart in page.charts.values()
        for name, axis in chart["layout"].items()
        if name in ("xaxis", "yaxis") and axis.get("title", {}).get("text")
    ]
    assert axes
    assert {axis["title"]["standoff"] for axis in axes} == {6}


# The page as a file.


def test_nothing_from_outside_becomes_markup():
    for made in (paragraph(NASTY), code(NASTY), table((NASTY,), [(NASTY,)])):
        page = read_page(made)
        assert page.faults == []
        assert NASTY in page.words
    chart = {"data": [{"name": NASTY}], "layout": {"height": 1}}
    page = read_page(figure(chart, "one", NASTY))
    assert page.faults == []
    assert page.charts["one"] == chart
    assert NASTY in page.words
    assert "<" not in words(NASTY)
    assert unescape(words(NASTY)) == NASTY


def test_messages_of_failures_are_escaped(story):
    story.ask(0)
    story.run(0, job="a")
    story.tell(0, "failed", failure="code", message=NASTY)
    _, page = page_of(story)
    assert NASTY in page.words


def test_of_many_failures_the_first_are_shown_and_where_the_others_are(tmp_path):
    story = Story(write_study(tmp_path, {"budget": {"trials": MAX_LOGS + 2}}))
    for number in range(MAX_LOGS + 2):
        story.ask(number)
        story.run(number, job="a")
        story.tell(number, "failed", failure="code", message=f"fault of {number}")
    words = check_page(page_text(gather(story.view, 0.0, " --runs here", unmeasured), "")).words
    shown = [number for number in range(MAX_LOGS + 2) if f"fault of {number}" in words]
    assert shown == list(range(MAX_LOGS))
    name = story.view.study.spec.name
    assert f"2 more trials failed; see: hpsearch status {name} --runs here" in words


def test_the_program_that_draws_takes_less_than_a_megabyte(story):
    """Packed; plotly.js alone has 4.8. The tests of the page in a browser draw with it."""
    if not (Path(sys.prefix) / SMALLER).exists():
        pytest.skip(
            "the smaller plotly.js is not there: make install takes it from the npm registry"
        )
    told(story, 0, 0.1)
    text, _ = page_of(story, plotly_js())
    assert len(text.encode()) < 0.75 * MEGABYTE


def test_the_smaller_program_is_taken_in_the_version_of_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    whole = plotly_js()
    place = tmp_path / SMALLER
    place.parent.mkdir(parents=True)
    place.write_text("/**\n* plotly.js (cartesian - minified) v0.1.0\n*/")
    assert plotly_js() == whole
    version = re.search(r"plotly\.js v([0-9.]+)", whole)[1]
    place.write_text(f"/**\n* plotly.js (cartesian - minified) v{version}\n*/")
    assert plotly_js() == place.read_text()


@pytest.mark.slow
def test_a_page_of_a_thousand_trials(tmp_path):
    story, rng = Story(write_study(tmp_path, {"budget": {"trials": 1000}})), random.Random(4)
    for number in range(1000):
        story.ask(number, **{"host.gamma": 0.8 + 0.17 * rng.random()})
        story.run(number, job=f"{number:05}", gpus=1.0)
        story.add("job_began", job=f"{number:05}", at=10.0 * number)
        for step in range(3, 61, 3):
            value = rng.random()
            story.add("reported", number, step=step, value=value, prune=False, rungs=0)
        story.tell(number, "finished", rng.random())
        story.add("job_ended", job=f"{number:05}", at=10.0 * number + 95.0)
    text, page = page_of(story, plotly_js())
    assert len(text.encode()) < 15 * MEGABYTE
    assert len(trace(page.charts["history-0"], "finished")["x"]) == 1000
    assert "The jobs are not drawn one by one" in page.words


def test_of_very_many_trials_the_best_and_some_are_drawn(story, monkeypatch):
    """Before, the page of 100,000 trials had 54 MB, more than a browser can draw."""
    monkeypatch.setattr(material_module, "MAX_DRAWN", 20)
    monkeypatch.setattr(search_module, "MAX_DRAWN", 20)
    values = [((37 * number) % 100) / 100 for number in range(100)]
    for number, value in enumerate(values):
        told(story, number, value)
    _, page = page_of(story)
    history = page.charts["history-0"]
    drawn = trace(history, "finished")["x"]
    best = [number for number in range(100) if values[number] in (0.99, 0.98)]
    assert drawn == sorted({*range(0, 100, 12), *best})
    line = trace(history, "best so far")
    assert (line["x"][0], line["x"][-1], line["y"][-1]) == (0, 99, 0.99)
    steps = dict(zip(line["x"], line["y"], strict=True))
    best_of_all = best_so_far(values, "maximize")
    assert all(steps[number] == best_of_all[number] for number in steps)
    assert {n for n in range(1, 100) if best_of_all[n] != best_of_all[n - 1]} <= steps.keys()
    (rows,) = [table for table in page.tables if table[0][:2] == ["trial", "state"]]
    assert [int(row[0]) for row in rows[1:]] == drawn
    assert page.words.count(f"Of 100 trials {len(drawn)} were chosen:") == 4
    upper = trace(page.charts["coordinates"], "best tenth")["x"]
    assert upper.count(None) == sum(values[number] >= 0.9 for number in drawn)


def test_the_page_needs_nothing_else(story):
    told(story, 0, 0.1)
    program = plotly_js()
    text, _ = page_of(story, program)
    # The program knows addresses of maps; the page asks the browser to let nothing out.
    own = text.replace(program, "")
    assert "http://" not in own
    assert "https://" not in own
    assert page_module.POLICY.startswith("default-src 'none'")
    assert text.index("Content-Security-Policy") < text.index("<script")


# Two studies.


def another(folder: Path, changes) -> Story:
    (folder / "other").mkdir()
    return Story(write_study(folder / "other", changes))


def test_two_studies_lie_over_each_other(story, tmp_path):
    told(story, 0, 0.1)
    told(story, 1, 0.3)
    other = another(tmp_path, {"name": "later"})
    for number, value in enumerate((0.2, 0.15, 0.4)):
        told(other, number, value)
        for step, measured in ((20, value / 2), (40, value)):
            row = {"step": step, "metrics": {METRIC: rho(measured)}}
            other.view.folder.trial(number).append_metrics(row)
    both = gather(story.view, 0.0, "", unmeasured, other.view)
    page = check_page(page_text(both, ""))
    best = page.charts["overlay-best"]
    assert [line["name"] for line in best["data"]] == ["tiny", "later"]
    assert [line["y"] for line in best["data"]] == [[0.1, 0.3], [0.2, 0.2, 0.4]]
    (curve,) = [chart for chart in page.charts["overlay-curves"]["data"] if "name" in chart]
    assert (curve["name"], curve["x"], curve["y"]) == ("later, trial 2", [20, 40], [0.2, 0.4])
    (rows,) = [table for table in page.tables if table[0][:2] == ["study", "best trial"]]
    assert [row[:2] for row in rows[1:]] == [["tiny", "1"], ["later", "2"]]
    assert "overlay-best" not in page_of(story)[1].charts


def test_studies_of_other_objectives_are_refused(story, tmp_path):
    goal = [{"metric": METRIC, "goal": "minimize"}]
    other = another(tmp_path, {"name": "later", "objectives": goal})
    with pytest.raises(UsageError, match=r"tiny \(maximize .*\) and later \(minimize .*\) have"):
        check_comparable(story.view, other.view)


# Importances.


def importances_of(num_finished: int = 20, **bars: tuple[float, ...]) -> Importances:
    """Return importances by 20 trials: of each parameter share, low, high and noise."""
    by_name = {name: Importance(*numbers) for name, numbers in bars.items()}
    return Importances(by_name, 20, num_finished, best_share=0.4)


def test_noise_beyond_one_ends_at_the_edge_of_the_chart():
    shown = importances_of(decides=(0.9, 0.7, 1.0, 0.2), rare=(0.1, 0.0, 0.3, 3.5))
    chart = importance_chart(shown)
    noise, bars = chart["data"]
    assert chart["layout"]["xaxis"]["range"] == [0, 1]
    assert dict(zip(noise["y"], noise["x"], strict=True)) == {"rare": 3.5, "decides": 0.2}
    assert bars["y"] == ["rare", "decides"], "the most important is on top"
    assert bars["error_x"]["array"] == pytest.approx([0.2, 0.1])
    assert bars["error_x"]["arrayminus"] == pytest.approx([0.1, 0.2])
    assert "one longer than 1 is cut at the edge" in reading(shown)


def test_what_is_said_of_importances_ends_where_the_noise_begins():
    shown = importances_of(decides=(0.9, 0.7, 1.0, 0.2), rare=(0.1, 0.0, 0.3, 3.5))
    assert importance_sentence(shown, METRIC) == (
        f"decides mattered for {METRIC} more than chance explains. "
        "Of the others 20 trials are too few to tell."
    )
    quiet = importances_of(rare=(1.0, 0.0, 1.0, 3.5))
    assert "no parameter stands above the noise" in importance_sentence(quiet, METRIC)
    assert "were drawn" not in reading(shown)
    assert "Of 9,000 finished trials, 500 were drawn." in reading(importances_of(9000))


def test_marks_are_explained_only_where_there_are_some(story):
    told(story, 0, 0.1)
    assert "Marks below" not in page_of(story)[1].words
    story.ask(1)
    story.run(1, job="job-1")
    story.tell(1, "failed", None)
    _, page = page_of(story)
    assert "Marks below: pruned and failed trials." in page.words
    assert trace(page.charts["history-0"], "failed")["x"] == [1]
