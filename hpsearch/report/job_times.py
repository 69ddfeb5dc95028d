"""When jobs waited, ran and ended, and as what: the numbers behind the pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from hpsearch.cluster.failures import CANCELLED, DIVERGED, FREE, NAN
from hpsearch.report.view import StudyView
from hpsearch.study.records import Job

WAITED, TRAINED, PLAYED = "waited", "trained", "played a match"
LEFT, FAILED = "was interrupted", "failed"
KINDS: Final = (WAITED, TRAINED, PLAYED, LEFT, FAILED)
NO_FAILURES: Final = FREE | {CANCELLED, "interrupted", NAN, DIVERGED}
"""how attempts end without a failure of their job: by the user, the cluster, or for themselves"""


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
    return [span for job in view.state.jobs.values() for span in _of_job(view, job, until)]


def _of_job(view: StudyView, job: Job, until: float) -> Iterator[Span]:
    end = until if job.ended_at is None else job.ended_at
    began = end if job.began_at is None else job.began_at
    yield Span(job.name, WAITED, job.announced_at, max(job.announced_at, began), 0.0)
    if job.began_at is not None:
        yield Span(job.name, kind_of(view, job), began, max(began, end), job.gpus)


def kind_of(view: StudyView, job: Job) -> str:
    """Return what a job that ran did, or how it ended: one of KINDS."""
    if job.is_silent or (job.is_leaving and not _lost(view, job) <= NO_FAILURES):
        return FAILED
    if job.is_leaving or job.interrupted:
        return LEFT
    return PLAYED if job.match is not None else TRAINED


def _lost(view: StudyView, job: Job) -> set[str]:
    """Return how those attempts of a job ended that did not finish their trials."""
    attempts = [(number, attempt) for group in job.groups for number, attempt, _ in group]
    return {
        loss.kind
        for number, attempt in attempts
        for loss in view.state.trials[number].losses
        if loss.attempt == attempt
    }


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
