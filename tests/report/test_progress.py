"""The progress of a running study: speed and time left, on a terminal and in a log."""

import io
import time
from dataclasses import replace

import pytest
from rich.console import Console
from screens import Screen
from views import METRIC

from hpsearch.cluster.records import JobHeartbeat, MemberHeartbeat
from hpsearch.report import progress as module
from hpsearch.report.progress import Meter, Progress, open_panel, progress_text, speed_texts
from hpsearch.report.text import (
    cost_lines,
    duration_text,
    leader,
    status_summary,
    time_left_text,
)
from hpsearch.study.work import Pacer, cost, steps_made, time_left

NOTHING = dict.fromkeys(("finished", "running", "waiting", "pruned", "failed"), 0)


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes forward when told to."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def beat(story, number: int, step: int, speed: float) -> None:
    """Give a heartbeat of the trial beside those before."""
    trial = story.view.state.trials[number]
    member = MemberHeartbeat(number, trial.attempts, trial.token, step, 0)
    file = story.view.folder.job(trial.job).heartbeat
    known = file.try_read()
    members = (*(known.members if known is not None else ()), member)
    file.write(JobHeartbeat(0.0, "here", 1, False, speed, members))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00"),
        (59.6, "1:00"),
        (61, "1:01"),
        (3599.4, "59:59"),
        (3600, "1:00:00"),
        (9e4, "25:00:00"),
    ],
)
def test_duration_text(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (None, "measuring"),
        ((0.0, 0.0), "0:00"),
        ((1.0, 2.0), "0:05"),
        ((101.0, 183.0), "1:40 to 3:05"),
        ((590.0, 671.0), "9:50 to 11:00"),
        ((2e4, 3e4), "5:35:00 to 8:20:00"),
    ],
)
def test_a_range_is_no_more_exact_than_it_is_known(left, text):
    assert time_left_text(left) == text


def test_before_anything_is_known(story, clock):
    first = Meter(story.view).read(story.view)
    assert first == Progress(0.0, 0.0, 0.0, None, NOTHING, "0 of 6", "best", "no value yet")
    assert progress_text(first) == "0 of 6 (none yet) | no value yet | time left: measuring"


def test_the_first_value_is_shown_before_a_trial_has_ended(story, clock):
    """Before, a study of long trials showed none for as long as the first of them took."""
    for number in range(3):
        story.ask(number)
    story.run(0, 1, 2, job="00001")
    story.report(0, 1000, 0.9)
    story.report(0, 2000, 0.125)  # the newest one counts
    story.report(1, 1000, 0.25)
    so_far = f"{METRIC} 0.2500 so far (trial 1, step 1,000)"
    assert Meter(story.view).read(story.view).best == so_far
    story.report(2, 500, 0.5)
    assert Meter(story.view).read(story.view).best == f"{METRIC} 0.5000 so far (trial 2, step 500)"
    summary = status_summary(story.view)
    assert summary["leader"] == {"trial": 2, "step": 500, "metric": METRIC, "value": 0.5}
    story.tell(2, "failed", failure="nan")
    assert Meter(story.view).read(story.view).best == so_far
    story.tell(0, "finished", 0.1)
    assert Meter(story.view).read(story.view).best == f"{METRIC} 0.1000 [0.0900, 0.1100] (trial 0)"
    assert status_summary(story.view)["leader"] is None


def test_of_what_is_minimised_the_least_is_ahead_and_what_is_pruned_is_not(story, clock):
    for number in range(3):
        story.ask(number)
    story.run(0, 1, 2, job="00001")
    for number, value in enumerate((0.25, 0.125, 0.0625)):
        story.report(number, 10, value)
    story.tell(2, "pruned")
    story.end(1, "interrupted", 10)  # it waits, and may go on
    assert leader(story.view)["trial"] == 0
    study = story.view.study
    goals = (replace(study.spec.objectives[0], goal="minimize"),)
    minimising = replace(study, spec=replace(study.spec, objectives=goals))
    assert leader(replace(story.view, study=minimising))["trial"] == 1


@pytest.mark.parametrize("starting", [0, 5, 30, 90])
@pytest.mark.parametrize("interval", [0.5, 10.0])
def test_time_left_is_measured_until_it_is_nearly_true(starting, interval):
    """Jobs start for a while, then make ten steps a second, seen every five seconds, of 6,000."""
    pacer, shown = Pacer(0), []
    for look in range(1, round((starting + 600) / interval)):
        elapsed = look * interval
        trained = max(0.0, elapsed - starting)
        left = pacer.read(elapsed, 10 * int(trained // 5 * 5), 6000)
        truth = starting + 600 - elapsed
        if left is not None and truth > 30:
            shown.append(elapsed)
            low, high = left
            assert low / 1.3 <= truth <= high * 1.3, (elapsed, left)
            assert high <= 2 * low
    assert shown[0] >= starting  # before, 4:59:10 was shown of ten minutes of work
    assert shown[0] <= 2 * starting + 40
    assert len(shown) > 0.9 * (600 - 30 - starting - 40) / interval  # and hardly ever hidden again


def test_a_burst_is_no_speed():
    """44:00 was shown, then 1:41: a wave of trials ended at once, the next one has begun."""
    pacer = Pacer(0)
    seen = [pacer.read(look / 2, look * 2, 6000) for look in range(1, 121)]
    assert seen[-1] == pytest.approx((1440, 1440), rel=0.01)
    assert pacer.read(61.0, 1500, 6000) is None


@pytest.mark.parametrize(("gained", "is_known"), [(19, False), (20, True)])
def test_little_of_what_was_left_says_nothing_of_the_speed(gained, is_known):
    """Two percent of the 1,000 steps that were left at the beginning."""
    pacer = Pacer(5000)
    assert pacer.read(10.0, 5000 + gained // 2, 6000) is None
    left = pacer.read(20.0, 5000 + gained, 6000)
    assert (left is not None and left > (0.0, 0.0)) == is_known


def test_before_the_last_step_some_time_is_left():
    pacer = Pacer(5000)
    pacer.read(10.0, 5499, 6000)
    left = pacer.read(20.0, 5999, 6000)
    assert left is not None
    assert left > (0.0, 0.0)


def test_the_end_leaves_no_time(story, clock):
    meter = Meter(story.view)
    for number in range(6):
        story.ask(number)
        story.run(number, job=str(number))
        story.tell(number, "finished", 0.1)
    clock[0] += 5
    seen = meter.read(story.view)
    assert (seen.done, seen.time_left, seen.trials) == (1.0, (0.0, 0.0), "6 of 6")
    assert progress_text(seen).endswith("(trial 0) | time left: 0:00")
    assert "steps/s" not in progress_text(seen)


def test_speed_and_share_follow_the_steps_made(story, clock):
    """Six trials of 60 steps are 360."""
    meter = Meter(story.view)
    for number in range(3):
        story.ask(number)
    story.run(0, 1, 2, job="00001")
    for number in range(3):
        beat(story, number, 12, 2.5)
    clock[0] += 20
    seen = meter.read(story.view)
    assert (seen.done, seen.steps_per_second) == (0.1, 7.5)
    story.tell(0, "finished", 0.1)  # all of its 60 steps count
    story.tell(1, "pruned")
    story.end(2, "interrupted", 24)
    seen = meter.read(story.view)
    assert seen.done == (60 + 60 + 24) / 360
    assert (seen.trials, seen.steps_per_second) == ("2 of 6", 0.0)
    assert seen.counts["waiting"] == 1


def test_time_passed_counts_what_was_before_an_interruption(story, clock):
    """Two jobs together for 100 s, a night without any, one for 50 s, and 7 s of this run."""
    hour = 3600.0
    for name, begin, end in (("1", 0, 80), ("2", 20, 100), ("3", 9 * hour, 9 * hour + 50)):
        story.add("announced", job=name, trials=[], gpus=0.0, at=1e6 + begin)
        story.add("job_began", job=name, at=1e6 + begin + 5)
        story.add("job_ended", job=name, at=1e6 + end)
    meter = Meter(story.view)
    clock[0] += 7
    assert meter.read(story.view).elapsed == 157


def test_a_study_that_goes_on_is_judged_from_where_it_stood(story, clock):
    for number in range(3):
        story.ask(number)
        story.run(number, job=str(number))
        story.tell(number, "finished", 0.1)
    meter = Meter(story.view)
    assert meter.read(story.view).time_left is None
    story.ask(3)
    story.run(3, job="3")
    beat(story, 3, 45, 1.0)
    clock[0] += 15
    seen = meter.read(story.view)
    assert (seen.time_left, seen.done) == ((45, 45), 225 / 360)
    assert seen.best == f"{METRIC} 0.1000 [0.0900, 0.1100] (trial 0)"


@pytest.mark.parametrize(
    ("speed", "line"), [(1.0, "time left: 5:20 to 6:25"), (5.0, "time left: measuring")]
)
def test_status_gives_a_range_once_two_ways_to_judge_agree(story, monkeypatch, speed, line):
    """320 steps are left; 40 were made in 48 s, at 5/6 of a step a second, or as the job says."""
    monkeypatch.setattr(time, "time", lambda: 1048.0)
    story.ask(0)
    story.run(0, job="00001")
    story.add("job_began", job="00001", at=1000.0)
    beat(story, 0, 40, speed)
    assert line in cost_lines(status_summary(story.view))


def test_two_jobs_make_what_is_left_together(story):
    """One made 20 steps in 40 s, and says so. What the other had made before its job began, and
    had to make again, is no gain of it: 30 steps in 20 s."""
    for number in range(2):
        story.ask(number)
    story.run(1, job="00001")
    story.end(1, "interrupted", 10)
    for number, began in ((0, 1000.0), (1, 1020.0)):
        story.run(number, job=f"0001{number}")
        story.add("job_began", job=f"0001{number}", at=began)
    beat(story, 0, 20, 0.5)
    beat(story, 1, 40, 1.5)
    left = 6 * 60 - 60
    assert time_left(story.view, 1040.0) == (left / 2, left / 2)
    assert time_left(story.view, 1020.0) == pytest.approx((left / 2, left))  # the second begins now


@pytest.mark.parametrize(("made", "is_known"), [(7, False), (8, True)])
def test_two_percent_of_all_steps_are_made_before_a_range_is_given(story, made, is_known):
    story.ask(0)
    story.run(0, job="00001")
    story.add("job_began", job="00001", at=1000.0)
    beat(story, 0, made, 0.5)
    assert (time_left(story.view, 1000.0 + 2 * made) is not None) == is_known


def test_an_interval_counts_from_where_its_parent_ended(story):
    story.ask_interval(0, 40, 100)
    story.run(0, job="00001")
    story.add("job_began", job="00001", at=1000.0)
    beat(story, 0, 60, 0.5)
    assert steps_made(story.view) == 20
    left = 60 - 20 + 5 * 60
    assert time_left(story.view, 1040.0) == (2 * left, 2 * left)
    story.end(0, "interrupted", 70)
    assert steps_made(story.view) == 30


def test_where_no_step_was_made_the_time_left_is_not_known(story):
    story.ask(0)
    story.run(0, job="00001")
    story.end(0, "interrupted", 20)
    story.run(0, job="00002")
    story.add("job_began", job="00002", at=1000.0)
    beat(story, 0, 20, 0.05)  # what it said last, when it went on from its checkpoint
    assert time_left(story.view, 1020.0) is None


def test_no_time_is_left_when_all_trials_have_ended(story):
    for number in range(6):
        assert time_left(story.view, 1000.0) is None
        story.ask(number)
        story.run(number, job=str(number))
        story.tell(number, "failed", failure="nan")
    assert time_left(story.view, 1000.0) == (0.0, 0.0)
    story.add("requested", id="one", verb="retry", trials=[0])
    assert time_left(story.view, 1000.0) is None


def run_two_of_six(story) -> None:
    """They took three GPUs for half an hour: the other four take twice that."""
    for number in range(2):
        story.ask(number)
    story.run(0, 1, job="00001", gpus=3.0)
    story.add("job_began", job="00001", at=1800.0)
    for number in range(2):
        story.tell(number, "finished", 0.1)


@pytest.mark.parametrize(
    ("kind", "data", "hours_left"),
    [
        (None, {}, 3.0),
        ("requested", {"id": "one", "verb": "pause", "trials": []}, 3.0),
        ("requested", {"id": "one", "verb": "stop", "trials": []}, 3.0),
        ("requested", {"id": "one", "verb": "cancel", "trials": []}, None),
        ("ended", {"status": "failed"}, None),
        ("ended", {"status": "finished"}, None),
    ],
)
def test_only_a_study_that_goes_on_has_hours_left(story, monkeypatch, kind, data, hours_left):
    monkeypatch.setattr(time, "time", lambda: 3600.0)
    run_two_of_six(story)
    if kind is not None:
        story.add(kind, **data)
    seen = cost(story.view)
    assert (seen.gpu_hours_spent, seen.gpu_hours_left) == (1.5, hours_left)


@pytest.mark.parametrize(("cap", "left"), [(9.0, 3.0), (2.0, 0.5), (1.5, 0.0), (1.0, 0.0)])
def test_no_more_hours_are_left_than_the_budget_has(story, monkeypatch, cap, left):
    monkeypatch.setattr(time, "time", lambda: 3600.0)
    run_two_of_six(story)
    spec = story.view.study.spec
    capped = replace(spec, budget=replace(spec.budget, gpu_hours=cap))
    view = replace(story.view, study=replace(story.view.study, spec=capped))
    seen = cost(view)
    assert (seen.gpu_hours_spent, seen.gpu_hours_left) == (1.5, left)


@pytest.mark.parametrize(("made", "is_known"), [(3, False), (4, True)])
def test_hours_are_told_when_a_percent_of_all_steps_is_made(story, monkeypatch, made, is_known):
    """Of 360 steps; 4 were made by one GPU in an hour, and at 2 steps a second, as its job says."""
    monkeypatch.setattr(time, "time", lambda: 3600.0)
    story.ask(0)
    story.run(0, job="00001", gpus=1.0)
    story.add("job_began", job="00001", at=0.0)
    beat(story, 0, made, 2.0)
    seen = cost(story.view)
    expected = (89.0, 178.0) if is_known else (None, None)
    assert (seen.gpu_hours_left, seen.seconds_left) == expected


def progress(finished: int) -> Progress:
    counts = NOTHING | {"finished": finished, "running": 1}
    return Progress(5.0, 0.5, 1234.0, (65.0, 90.0), counts, f"{finished} of 6", "best", "rho 0.1")


def test_a_log_gets_a_line_when_something_changed_or_time_passed(clock):
    console = Console(file=io.StringIO(), width=40)  # lines are not broken for it
    with open_panel(console) as panel:
        for passed, finished in ((0, 1), (1, 1), (2, 2), (3, 2), (12.5, 2)):
            clock[0] = 100 + passed
            panel.show_progress(progress(finished))
    assert console.file.getvalue().splitlines() == [
        f"[0:05] {n} of 6 ({n} finished, 1 running) | rho 0.1 | 1,234 steps/s | "
        "time left: 1:05 to 1:30"
        for n in (1, 2, 2)
    ]


def test_a_terminal_gets_a_live_panel(terminal):
    console = Console(file=Screen(), width=80)
    with open_panel(console) as panel:
        panel.show_progress(progress(1))
        panel.show_progress(progress(2))
    text = console.file.getvalue()
    assert "trials: " in text
    assert "2 finished" in text
    assert "1,234 steps/s, all members together" in text
    assert "0:05 passed, time left: 1:05 to 1:30" in text
    assert "\x1b[?25h" in text  # the cursor is given back
    assert module.LOG_SECONDS > 0


def test_a_job_that_starts_has_no_speed_and_last_measurements_no_time_left(terminal):
    console = Console(file=Screen(), width=80)
    with open_panel(console) as panel:
        panel.show_progress(replace(progress(5), steps_per_second=0.0, time_left=(0.0, 0.0)))
    text = console.file.getvalue()
    assert "speed:  starting" in text
    assert "all members" not in text
    assert "time left" not in text


def test_a_broken_block_gives_the_terminal_back(terminal):
    console = Console(file=Screen(), width=80)

    def interrupted() -> None:
        with open_panel(console) as panel:
            panel.show_progress(progress(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert console.file.getvalue().rstrip().endswith("\x1b[?25h")


@pytest.mark.parametrize(
    ("speed", "running", "text"),
    [
        (0.0, 0, []),
        (0.0, 3, ["starting"]),
        (0.043, 3, ["0.043 steps/s"]),
        (9.4, 3, ["9.4 steps/s"]),
        (10.4, 3, ["10 steps/s"]),
        (1234.5, 3, ["1,234 steps/s"]),
    ],
)
def test_slow_steps_are_told_too(speed, running, text):
    counts = NOTHING | {"running": running}
    assert speed_texts(Progress(1.0, 0.5, speed, None, counts, "0 of 6", "best", "")) == text


def test_a_job_that_compiles_is_told_until_it_trains(story):
    story.ask(0)
    story.run(0, job="compiles")
    file = story.view.folder.job("compiles").compiles
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    meter = Meter(story.view)
    assert speed_texts(meter.read(story.view)) == ["compiling kernels (first run only)"]
    assert status_summary(story.view)["compiling"]
    beat(story, 0, 1, 10.0)
    assert speed_texts(meter.read(story.view)) == ["10 steps/s"]
