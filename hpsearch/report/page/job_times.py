"""When jobs waited, ran and ended, and as what: the numbers behind the pictures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from hpsearch.report.view import StudyView
from hpsearch.study.records import Job

WAITED, TRAINED, PLAYED = "waited", "trained", "played a match"
LEFT, FAILED = "was interrupted", "failed"
KINDS: Final = (WAITED, TRAINED, PLAYED, LEFT, FAILED)


@dataclass(frozen=True)
class Span:
    """A time in which a job was in one state; seconds since the epoch."""

    job: str
    kind: str
    """of KINDS"""
    begin: float
    end: float
    gpus: float
    """that it occupied"""

    @property
    def hours(self) -> float:
        """Return how long it was."""
        return (self.end - self.begin) / 3600


def spans(view: StudyView, until: float) -> list[Span]:
    """Return what all jobs did until a moment, waits and runs, by when they were announced."""
    return [span for job in view.state.jobs.values() for span in _of_job(job, until)]


def _of_job(job: Job, until: float) -> Iterable[Span]:
    end = until if job.ended_at is None else job.ended_at
    began = end if job.began_at is None else job.began_at
    yield Span(job.name, WAITED, job.announced_at, max(job.announced_at, began), 0.0)
    if job.began_at is not None:
        yield Span(job.name, kind_of(job), began, max(began, end), job.gpus)


def kind_of(job: Job) -> str:
    """Return what a job that ran did, or how it ended."""
    if job.is_leaving or job.is_silent:
        return FAILED
    if job.interrupted:
        return LEFT
    return PLAYED if job.match is not None else TRAINED


def counts_over_time(found: Sequence[Span]) -> tuple[list[float], dict[str, list[int]]]:
    """Return when the number of jobs of some kind changes, and how many there are from then on."""
    times = sorted({moment for span in found for moment in (span.begin, span.end)})
    place = {moment: at for at, moment in enumerate(times)}
    counts: dict[str, list[int]] = {}
    for kind in KINDS:
        change = [0] * len(times)
        for span in found:
            if span.kind == kind and span.end > span.begin:
                change[place[span.begin]] += 1
                change[place[span.end]] -= 1
        total, series = 0, []
        for step in change:
            total += step
            series.append(total)
        if any(series):
            counts[kind] = series
    return times, counts
