"""When a study's notices are due, by a study whose events come one by one."""

import pytest

from hpsearch.study.notices import NoticeWatch
from hpsearch.study.options import CommandNotice

ALL = ("ended", "failed", "stalled", "best")


def watch(story, *on: str) -> NoticeWatch:
    return NoticeWatch(CommandNotice("command", ("true",), on, 1.0), story.view, 0.0)


def seen(watcher: NoticeWatch, story, now: float = 0.0) -> list[str]:
    return list(watcher.see(story.view, now))


def test_a_better_trial_is_told_once(story):
    watcher = watch(story, *ALL)
    for number, value, told in ((0, 0.1, ["best"]), (1, 0.05, []), (2, 0.2, ["best"])):
        story.ask(number)
        story.run(number, job=f"job-{number}")
        story.tell(number, "finished", value)
        assert seen(watcher, story) == told
        assert seen(watcher, story) == []


def test_what_was_found_before_is_not_told(story):
    story.ask(0)
    story.run(0, job="job-0")
    story.tell(0, "finished", 0.1)
    assert seen(watch(story, *ALL), story) == []


@pytest.mark.parametrize(
    ("status", "occasion"),
    [("finished", "ended"), ("stopped", "ended"), ("cancelled", "ended"), ("failed", "failed")],
)
def test_the_end_is_told(story, status, occasion):
    watcher = watch(story, *ALL)
    story.add("ended", status=status)
    assert seen(watcher, story) == [occasion]
    assert seen(watcher, story, 1e6) == []


def test_a_study_stalls_where_nothing_happens(story):
    """It is told once, and again if something has happened in between."""
    watcher = watch(story, *ALL)
    story.ask(0)
    assert seen(watcher, story, 10.0) == []
    assert seen(watcher, story, 3609.0) == []
    assert seen(watcher, story, 3610.0) == ["stalled"]
    assert seen(watcher, story, 9999.0) == []
    story.run(0, job="job-0")
    assert seen(watcher, story, 10000.0) == []
    assert seen(watcher, story, 13600.0) == ["stalled"]


def test_only_what_is_asked_for_is_told(story):
    watcher = watch(story, "failed")
    story.ask(0)
    story.run(0, job="job-0")
    story.tell(0, "finished", 0.1)
    story.add("ended", status="finished")
    assert seen(watcher, story, 1e6) == []


def test_an_outage_is_no_stall(story):
    watcher = watch(story, *ALL)
    watcher.go_on(5000.0)
    assert seen(watcher, story, 5010.0) == []
    assert seen(watcher, story, 8600.0) == ["stalled"]
