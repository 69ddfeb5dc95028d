"""The page's section on actors, from timelines made by hand: exact shares, whole charts."""

import random

import pytest
from pages import check_page

from hpsearch.analysis.activity import activity_of, intersection, union
from hpsearch.cluster.records import Span, Timeline
from hpsearch.report.page.actors import activity_chart, overlap_sentence
from hpsearch.report.page.material import gather
from hpsearch.report.page.page import page_text


def span(process: str, began: float, ended: float, version: int = 0) -> Span:
    return Span(process, version, 1_700_000_000.0 + began, 1_700_000_000.0 + ended)


# Known of both sides from 2 to 12: the learner was at work from 3 to 5 and from 7 to 12, at least
# one actor from 2 to 4 and from 6 to 11.
SPANS = (
    span("actor 0", 0, 4, 5),
    span("learner", 2, 2, 9),
    span("actor 1", 3, 4, 5),
    span("learner", 3, 5, 10),
    span("actor 10", 6, 9, 10),
    span("actor 0", 8, 11, 10),
    span("learner", 7, 14, 12),
    span("actor 1", 11.5, 12, 10),
)
SENTENCE = (
    "In 10.0 seconds of job job-2, learner and actors were at work at the same moment for 55% of "
    "the time: the learner for 70%, at least one of 3 actors for 75%."
)


@pytest.fixture
def with_actors(story, monkeypatch):
    for base in story.view.study.bases.values():
        monkeypatch.setitem(base, "rollouts", {"mode": "actors"})
    return story


def page_of(story):
    unmeasured = "it was not asked for"
    return check_page(page_text(gather(story.view, 1.7e9, "", lambda view, trial: unmeasured), ""))


def test_the_share_is_that_of_the_time_that_is_known_of_both():
    activity = activity_of("job-2", SPANS)
    assert activity.seconds == 10.0
    assert activity.share(activity.learner_times) == pytest.approx(0.7)
    assert activity.share(activity.actor_times) == pytest.approx(0.75)
    both = intersection(activity.learner_times, activity.actor_times)
    # From 3 to 4, from 7 to 11, and from 11.5 to 12.
    assert [(a - 1.7e9, b - 1.7e9) for a, b in both] == [(3, 4), (7, 11), (11.5, 12)]
    assert overlap_sentence(activity) == SENTENCE


@pytest.mark.parametrize("seed", range(5))
def test_shares_equal_those_of_moments_counted_one_by_one(seed):
    rng = random.Random(seed)
    spans = []
    for process in ("learner", "actor 0", "actor 1"):
        moments = sorted(rng.sample(range(200), 40))
        spans += [span(process, *times) for times in zip(moments[::2], moments[1::2], strict=True)]
    rng.shuffle(spans)
    activity = activity_of("a", spans)
    first, last = (int(moment - 1.7e9) for moment in (activity.begin, activity.end))

    def at_work(is_learner: bool, moment: int) -> bool:
        sides = (s for s in spans if (s.process == "learner") == is_learner)
        return any(s.began - 1.7e9 <= moment < s.ended - 1.7e9 for s in sides)

    known = [[m for m in range(200) if at_work(side, m)] for side in (True, False)]
    assert (first, last) == (max(known[0][0], known[1][0]), min(known[0][-1], known[1][-1]) + 1)
    seconds = range(first, last)
    for is_learner, times in ((True, activity.learner_times), (False, activity.actor_times)):
        counted = sum(at_work(is_learner, moment) for moment in seconds)
        assert activity.share(times) == pytest.approx(counted / len(seconds))
    counted = sum(at_work(True, moment) and at_work(False, moment) for moment in seconds)
    both = intersection(activity.learner_times, activity.actor_times)
    assert activity.share(both) == pytest.approx(counted / len(seconds))


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [span("learner", 0, 1), span("learner", 1, 2)],
        [span("actor 0", 0, 1)],
        [span("learner", 0, 1), span("actor 0", 1, 2)],
        [span("learner", 0, 1), span("actor 0", 0.5, 0.2)],  # a clock was set back
        [span("learner", 1, 1), span("actor 0", 1, 1)],
    ],
)
def test_nothing_is_told_without_a_time_that_is_known_of_both(spans):
    assert activity_of("a", spans) is None


def test_times_that_touch_are_one():
    spans = [span("a", 3, 4), span("b", 0, 2), span("c", 2, 3), span("d", 1, 1.5), span("e", 6, 7)]
    assert [(a - 1.7e9, b - 1.7e9) for a, b in union(spans)] == [(0, 4), (6, 7)]


def test_a_bar_a_span_in_a_row_a_process():
    chart = activity_chart(activity_of("job-2", SPANS))
    (bars,) = chart["data"]
    rows = zip(
        bars["y"], bars["base"], bars["x"], bars["text"], bars["marker"]["color"], strict=True
    )
    assert sorted(rows) == [
        ("actor 0", 0.0, 2.0, "5", 5),
        ("actor 0", 6.0, 3.0, "10", 10),
        ("actor 1", 1.0, 1.0, "5", 5),
        ("actor 1", 9.5, 0.5, "10", 10),
        ("actor 10", 4.0, 3.0, "10", 10),
        ("learner", 1.0, 2.0, "10", 10),
        ("learner", 5.0, 5.0, "12", 12),
    ]
    # plotly.js draws the last one at the top.
    rows = ["actor 10", "actor 1", "actor 0", "learner"]
    assert chart["layout"]["yaxis"]["categoryarray"] == rows


def test_the_page_shows_the_newest_job_that_has_a_timeline(with_actors):
    for number in range(4):
        with_actors.ask(number)
        with_actors.run(number, job=f"job-{number}")
    assert "actors" not in page_of(with_actors).ids
    for job, spans in (("job-1", SPANS[:3]), ("job-2", SPANS), ("job-3", ())):
        with_actors.view.folder.job(job).timeline.write(Timeline(spans))
    page = page_of(with_actors)
    assert "actors" in page.ids
    assert SENTENCE in page.words
    assert set(page.charts["actors-timeline"]["data"][0]["y"]) == {
        *("learner", "actor 0", "actor 1", "actor 10")
    }


def test_a_damaged_timeline_is_as_none(with_actors):
    with_actors.ask(0)
    with_actors.run(0, job="job-0")
    file = with_actors.view.folder.job("job-0").timeline
    file.write(Timeline(SPANS))
    for wrong in ("1e300", "-1.0", "NaN"):
        damaged = file.path.read_text().replace("1700000003.0", wrong)
        file.path.write_text(damaged)
        assert "actors" not in page_of(with_actors).ids
        file.write(Timeline(SPANS))
    assert "actors" in page_of(with_actors).ids
