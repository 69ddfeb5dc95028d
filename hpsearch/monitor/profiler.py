"""A Chrome trace of some steps; outside them nothing is measured."""

from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import torch
from torch.profiler import ProfilerActivity, profile

from hpsearch.monitor.config import ProfilerConfig
from hpsearch.monitor.sections import NamedSections


class StepProfiler:
    """Traces the steps that the configuration names, once.

    Steps are counted from 1: step 200 is the one that brings the count from 199 to 200. A run that
    goes on from amid the steps traces the rest of them.
    """

    def __init__(
        self, config: ProfilerConfig, folder: Path, sections: NamedSections, device: torch.device
    ) -> None:
        self._before = config.first_step - 1
        self._last = self._before + config.steps
        self._folder = folder
        self._sections = sections
        self._activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            self._activities.append(ProfilerActivity.CUDA)
        self._running: tuple[int, profile] | None = None

    def steps_until_due(self, step: int) -> int | None:
        """Return how many steps after ``step`` the profiler starts or stops, None for never."""
        if step < self._before:
            return self._before - step
        return self._last - step if step < self._last else None

    def before_steps(self, step: int) -> None:
        """Start, if the next step is one of those to trace."""
        if self._running is None and self._before <= step < self._last:
            running = profile(activities=self._activities, acc_events=True)
            running.start()
            self._running = step + 1, running
            self._sections.annotated = True

    def after_steps(self, step: int) -> None:
        """Stop and write the trace, if the last step to trace has been made."""
        if step >= self._last:
            self.stop(step)

    def stop(self, step: int) -> None:
        """Write the steps traced up to ``step``; nothing if none are being traced.

        Raises:
            RuntimeError, OSError: if the trace cannot be written.
        """
        if self._running is None:
            return
        first, running = self._running
        self._running = None
        self._sections.annotated = False
        running.stop()
        if step >= first:
            _write(running, self._folder / f"trace-{first}-{step}.json")


def _write(trace: profile, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid4().hex}-{path.name}")
    try:
        trace.export_chrome_trace(str(temporary))
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()
