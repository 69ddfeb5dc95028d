"""What people and programs read: numbers with intervals, counts, tables, summaries."""

import io

import pytest
from rich.console import Console
from views import METRIC, rho

from hpsearch.errors import HpsearchError
from hpsearch.export.text import print_rows
from hpsearch.printable import interval_text
from hpsearch.report.text import (
    operator_line,
    print_status,
    setting_text,
    status_summary,
)
from hpsearch.report.trial_record import plain_record, trial_record
from hpsearch.study.events import DriverLog, Event, line
from hpsearch.study.records import FAIL
from hpsearch.study.state import StudyState
from hpsearch.study.view import StudyView, best_trial, counts_text, list_lines, standing_text


def printed(show) -> str:
    console = Console(file=io.StringIO(), width=200)
    show(console)
    return console.file.getvalue()


def test_interval_text():
    assert interval_text(rho(0.12345)) == "0.1235 [0.1135, 0.1335]"


def test_setting_text():
    assert setting_text(0.000123456) == "0.0001235"
    assert setting_text(256) == "256"
    assert setting_text([64, "b"]) == "[64, 'b']"


def test_counts_text_names_what_there_is():
    none = dict.fromkeys(("finished", "running", "waiting", "pruned", "failed"), 0)
    assert counts_text(none) == "none yet"
    assert counts_text(none | {"failed": 1, "finished": 12}) == "12 finished, 1 failed"
    assert counts_text(none | {"finished": 12}, 4) == "12 finished, 4 of them untrained"


def test_failed_trials_that_were_tried_again_are_no_more_of_the_budget():
    """A budget of 4, of which all failed twice, and one of them once more."""
    state, failure = StudyState(), {"state": FAIL, "value": None, "metrics": {}}
    failure |= {"failure": "code", "message": ""}
    for number in range(9):
        retry_of = None if number < 4 else number - 4
        state.retries += [] if retry_of is None else [retry_of]
        asked = {"params": {}, "retry_of": retry_of}
        state.apply([Event(2 * number, "asked", 0.0, number, None, None, asked)])
        if number < 8:
            state.apply([Event(2 * number + 1, "told", 0.0, number, None, None, failure)])
    assert standing_text(state) == "1 waiting, 3 failed (5 more failed and were tried again)"
    assert state.num_asked == 4


def test_operators_that_were_tried_and_that_were_not():
    tried, untried = {"made": 9, "tried": 4, "adopted": 2}, {"made": 2, "tried": 0, "adopted": 0}
    assert operator_line("grow", untried) == "operator grow: 2 made, adopted untried"
    assert operator_line("average", tried) == "operator average: 2 of 4 children adopted"


def test_a_certificate_has_a_table_for_each_role():
    measured = {"value": 0.1, "low": 0.05, "high": 0.15, "games": 100}
    opponents = {"host": ["choose_first", "random"], "agent": ["zeillinger"]}
    names = [f"{mode}/{role}/{opponent}" for role, some in opponents.items() for opponent in some
             for mode in ("rho", "rho_sampled")]  # fmt: skip
    rows = [
        {"player": "trained", "metrics": dict.fromkeys(names, measured)},
        {"player": "zeillinger", "metrics": {"rho/host/random": measured}},
        {"player": "choose_last", "metrics": {"rho/agent/zeillinger": measured | {"value": 0.2}}},
    ]
    console = Console(file=io.StringIO(), width=40)
    print_rows(console, "trial 7", rows)
    number = "0.1000 [0.0500, 0.1500]"
    lines = [line.strip().split("  ") for line in console.file.getvalue().splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells[-8:] == [
        ["rho as host, against", "choose_first", "random"],
        ["trial 7", number, number],
        ["trial 7, sampled", number, number],
        ["zeillinger", number],
        ["rho as agent, against", "zeillinger"],
        ["trial 7", number],
        ["trial 7, sampled", number],
        ["choose_last", number.replace("0.1000", "0.2000")],
    ]


def fill(story) -> None:
    """Two finished, one pruned, one failed, one running, one waiting."""
    for number in range(6):
        story.ask(number, **{"host.gamma": 0.8 + number / 100})
    story.run(0, 1, 2, job="00001")
    story.run(3, 4, 5, job="00002")
    story.tell(0, "finished", 0.1)
    story.tell(1, "finished", 0.2)
    story.tell(2, "pruned")
    story.tell(3, "failed", failure="nan", message="the weights became [NaN]")
    story.end(5, "interrupted", 30)


def test_status_summary(story):
    assert status_summary(story.view)["best"] is None
    fill(story)
    summary = status_summary(story.view)
    counts = {"finished": 2, "running": 1, "waiting": 1, "pruned": 1, "failed": 1}
    assert summary["trials"] == counts
    assert (summary["study"], summary["state"], summary["budget"]) == ("tiny", "running", 6)
    assert summary["failures"] == {"nan": 1}
    assert summary["best"]["trial"] == 1
    assert summary["best"]["params"] == {"host.gamma": 0.81, "host.optim.args.lr": 1e-3}


def test_trial_summaries(story):
    fill(story)
    summaries = [
        plain_record(trial_record(story.view, trial)) for trial in story.view.state.trials.values()
    ]
    states = ["finished", "finished", "pruned", "failed", "running", "waiting"]
    assert [summary["state"] for summary in summaries] == states
    assert summaries[3]["failure"] == "nan"
    assert summaries[4]["metrics"] == {}
    assert summaries[5]["config"]["host"]["gamma"] == pytest.approx(0.85)


def test_the_best_is_the_goals(story):
    with pytest.raises(HpsearchError, match="no trial of tiny has finished yet; look at it with"):
        best_trial(story.view)
    fill(story)
    assert best_trial(story.view).number == 1


def test_a_study_without_a_driver_is_interrupted_until_it_ends(story):
    view = story.view
    asleep = StudyView(view.study, view.folder, view.state, is_driven=False)
    assert (view.status, asleep.status) == ("running", "interrupted")
    story.add("ended", status="finished")
    assert (view.status, asleep.status) == ("finished", "finished")


def test_the_table_has_a_row_a_trial(story):
    fill(story)
    lines = [line.split() for line in list_lines(story.view)]
    assert lines[0] == ["trial", "state", METRIC, "lr", "gamma"]
    assert lines[2] == ["1", "finished", "0.2000", "[0.1900,", "0.2100]", "0.001", "0.81"]
    assert lines[5] == ["4", "running", "0.001", "0.84"]


def test_the_status_shows_failures_as_they_are(story):
    fill(story)
    summary = status_summary(story.view)
    text = printed(lambda console: print_status(console, story.view, summary))
    assert text.splitlines()[:6] == [
        "tiny: running",
        "trials: 4 of 6 (2 finished, 1 running, 1 waiting, 1 pruned, 1 failed)",
        "jobs: 0 running, 2 queued",
        "failed: 1 attempts, 0:00 of training (0.00 GPU-hours) lost with them",
        "interrupted: 1 attempts, 0:00 of training (0.00 GPU-hours) lost with them",
        "trial 3 failed (nan): the weights became [NaN]",
    ]
    best = f"best: trial 1, {METRIC} 0.2000 [0.1900, 0.2100] on 9 games of the search"
    assert best in text.splitlines()


def test_what_a_study_costs_and_what_was_lost(story, tmp_path):
    """Six trials of 60 steps; four GPUs for an hour so far, on two members a job."""
    for number in range(4):
        story.ask(number)
    story.run(0, 1, job="00001", gpus=4.0)
    story.add("job_began", job="00001", at=1000.0)
    story.tell(0, "finished", 0.1)
    story.add(
        "attempt_ended", 1, 1, status="lost", kind="node_fail", message="", step=30,
        lost_seconds=900.0, log=["[12:00] the node", "went away"],
    )  # fmt: skip
    story.add("job_ended", job="00001", at=4600.0)
    story.run(2, 3, job="00002", gpus=4.0)
    summary = status_summary(story.view)
    assert summary["jobs"] == {"queued": 1, "running": 0, "ended": 1}
    spent, left = summary["gpu_hours"]["spent"], summary["gpu_hours"]["left"]
    assert spent == pytest.approx(4.0)
    assert left == pytest.approx(4.0 * (360 - 90) / 90)  # at the price of the 90 steps made
    assert summary["seconds_left"] is None
    assert summary["waste"] == {
        "node_fail": {"attempts": 1, "hours": 0.25, "gpu_hours": 0.5},
    }  # fmt: skip
    assert plain_record(trial_record(story.view, story.view.state.trials[1]))["losses"] == [
        {
            "attempt": 1, "kind": "node_fail", "seconds": 900.0, "gpus": 2.0,
            "log": ("[12:00] the node", "went away"),
        }
    ]  # fmt: skip
    text = printed(lambda console: print_status(console, story.view, summary))
    assert "GPU-hours: 4.00 spent, about 12.00 more to come" in text.splitlines()
    assert (
        "node_fail: 1 attempts, 15:00 of training (0.50 GPU-hours) lost with them"
        in text.splitlines()
    )


def test_the_last_words_stand_under_a_failure(story):
    for number in range(2):  # of one job, whose last words are the same
        story.ask(number)
        story.run(number, job=f"0000{number}")
        story.add(
            "told", number, state="failed", value=None, metrics={}, failure="code",
            message="no such layer",
        )  # fmt: skip
        story.add(
            "attempt_ended", number, 1, status="failed", kind="code", message="", step=0,
            log=["Traceback", "[no such] layer"],
        )  # fmt: skip
    summary = status_summary(story.view)
    lines = printed(lambda console: print_status(console, story.view, summary)).splitlines()
    at = lines.index("trial 0 failed (code): no such layer")
    once = ["    Traceback", "    [no such] layer", "trial 1 failed (code): no such layer"]
    assert lines[at + 1 :] == once


def test_the_log_has_a_line_an_event(tmp_path):
    event = Event(0, "told", 0.0, trial=3, data={"state": "failed", "value": None, "metrics": {}})
    assert line(event)[20:] == "told trial 3 state=failed"
    path = tmp_path / "deep" / "driver.log"
    for _ in range(2):
        with DriverLog(path) as log:
            assert not path.exists() or path.read_text()
            log.write(event)
    assert path.read_text() == f"{line(event)}\n" * 2
