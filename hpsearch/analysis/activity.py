"""What the learner and the actors of a job did of late, and how much of it at the same moment."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hpsearch.cluster.records import LEARNER, Span
from hpsearch.study.view import StudyView

MAX_SPANS: Final = 1000  # of a file, the newest

Times = Sequence[tuple[float, float]]  # beginnings and ends, in order, none within another


@dataclass(frozen=True)
class Activity:
    """Times at work, from when on until when both sides are known."""

    job: str
    begin: float
    end: float  # seconds since the epoch
    spans: tuple[Span, ...]  # cut to these times

    @property
    def seconds(self) -> float:
        return self.end - self.begin

    @property
    def actors(self) -> list[str]:
        names = {span.process for span in self.spans if span.process != LEARNER}
        return sorted(names, key=lambda name: (len(name), name))

    @property
    def learner_times(self) -> Times:
        return union(span for span in self.spans if span.process == LEARNER)

    @property
    def actor_times(self) -> Times:
        """When at least one actor was at work."""
        return union(span for span in self.spans if span.process != LEARNER)

    def share(self, times: Times) -> float:
        """Return the share of all seconds that ``times`` are, 0 to 1."""
        return sum(end - begin for begin, end in times) / self.seconds


def read_activity(view: StudyView) -> Activity | None:
    """Return that of the newest job that wrote a timeline; None if there is none."""
    if not view.study.has_actors:
        return None
    for job in reversed(list(view.state.jobs)):
        timeline = view.folder.job(job).timeline.try_read()
        activity = None if timeline is None else activity_of(job, timeline.spans)
        if activity is not None:
            return activity
    return None


def activity_of(job: str, spans: Iterable[Span]) -> Activity | None:
    """Return what spans tell, None unless the learner's and the actors' cover a common time."""
    # A clock that was set back may have ended a span before it began.
    ordered = sorted((s for s in spans if s.began <= s.ended), key=lambda span: span.ended)
    newest = ordered[-MAX_SPANS:]
    learner = [span for span in newest if span.process == LEARNER]
    actors = [span for span in newest if span.process != LEARNER]
    if not learner or not actors:
        return None
    begin = max(min(span.began for span in side) for side in (learner, actors))
    end = min(side[-1].ended for side in (learner, actors))
    if begin >= end:
        return None
    cut = (replace(s, began=max(s.began, begin), ended=min(s.ended, end)) for s in newest)
    return Activity(job, begin, end, tuple(span for span in cut if span.began < span.ended))


def union(spans: Iterable[Span]) -> Times:
    """Return when at least one of the spans lasted."""
    times: list[tuple[float, float]] = []
    for begin, end in sorted((span.began, span.ended) for span in spans):
        if times and begin <= times[-1][1]:
            times[-1] = times[-1][0], max(times[-1][1], end)
        else:
            times.append((begin, end))
    return times


def intersection(first: Times, second: Times) -> Times:
    """Return when both last."""
    common = ((max(a, c), min(b, d)) for a, b in first for c, d in second)
    return [(begin, end) for begin, end in common if begin < end]
