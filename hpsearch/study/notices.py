"""When a study is worth a message: it has ended, failed, stalled, or found a better trial."""

from collections.abc import Iterator

from hpsearch.study.options import Notice, Occasion
from hpsearch.study.state import BUSY, CANCELLED, FAILED, FINISHED, STOPPED
from hpsearch.study.view import StudyView

ENDS: dict[str, Occasion] = {
    FINISHED: "ended",
    STOPPED: "ended",
    CANCELLED: "ended",
    FAILED: "failed",
}


class NoticeWatch:
    """Tells of a study that is looked at again and again when one of its notices is due."""

    def __init__(self, notice: Notice, view: StudyView, now: float) -> None:
        """Begin with how the study is ``now``, of which nothing is told."""
        self._notice = notice
        self._status, self._best = view.state.status, _best(view)
        self._last_event, self._changed_at = view.state.last_event, now
        self._has_stalled = False

    def go_on(self, now: float) -> None:
        """Count from ``now`` how long nothing happens: the driver was away."""
        self._changed_at = now

    def see(self, view: StudyView, now: float) -> Iterator[Occasion]:
        """Yield each occasion that has come about since the last look, and is asked for."""
        for occasion in self._occasions(view, now):
            if occasion in self._notice.on:
                yield occasion

    def _occasions(self, view: StudyView, now: float) -> Iterator[Occasion]:
        status, best = view.state.status, _best(view)
        if best != self._best:
            self._best = best
            yield "best"
        if status != self._status:
            self._status = status
            if status in ENDS:
                yield ENDS[status]
        if view.state.last_event != self._last_event or status not in BUSY:
            self._last_event, self._changed_at = view.state.last_event, now
            self._has_stalled = False
        elif not self._has_stalled and now - self._changed_at >= 3600 * self._notice.stalled_hours:
            self._has_stalled = True
            yield "stalled"


def _best(view: StudyView) -> int | None:
    best = view.best()
    return None if best is None else best.number
