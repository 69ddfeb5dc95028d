"""What a study may still do: its budget of trials and hours, and the failures that it allows."""

from collections.abc import Callable

from hpsearch.study.recorder import Recorder
from hpsearch.study.spec import StudySpec
from hpsearch.study.state import StudyState


class Limits:
    """Holds a study to what its file allows."""

    def __init__(self, spec: StudySpec, recorder: Recorder, clock: Callable[[], float]) -> None:
        """Take what is allowed, who knows what has been used, and the time."""
        self._budget = spec.budget
        self._max_failures = spec.max_failures
        self._recorder = recorder
        self._clock = clock

    def are_failures_too_many(self) -> bool:
        """Return whether more trials have failed than the study allows."""
        return self._state.num_failures() > self._max_failures

    def allow_another(self) -> bool:
        """Return whether one more trial may be asked for that trains; a retry is no more."""
        wall_hours, began = self._budget.wall_hours, self._state.started_at
        if self._state.num_asked >= self._budget.trials or not self.allow_gpu_hours():
            return False
        if wall_hours is None or began is None:
            return True
        return self._clock() - began < wall_hours * 3600

    def num_allowed(self) -> int:
        """Return how many more trials may be asked for, those of a closing besides the budget."""
        untrained = len(self._state.population.untrained) if self.allow_gpu_hours() else 0
        left = self._budget.trials - self._state.num_asked if self.allow_another() else 0
        return untrained + left

    def allow_gpu_hours(self) -> bool:
        """Return whether jobs may occupy GPUs any longer."""
        cap = self._budget.gpu_hours
        return cap is None or self._state.gpu_seconds(self._clock()) < cap * 3600

    @property
    def _state(self) -> StudyState:
        return self._recorder.state
