"""Named sections of a step: how long each takes, and in which one the loop hangs; traces of steps.

``with sections("rollout"): ...`` costs half a microsecond while nothing asks for it, and one or two
while timed. On a GPU it measures by events in the stream, which nothing waits for: they are read
when they have passed.
"""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from torch.profiler import ProfilerActivity, profile

from hpsearch.monitor.config import ProfilerConfig
from hpsearch.monitor.snapshot import Timing

MAX_PENDING = 4096
"""timed blocks whose events are kept; at so many, those that the GPU has passed are added up"""

Sections = Callable[[str], AbstractContextManager[Any]]
"""from the name of a section to its block; sections may lie inside each other"""

_NOTHING: AbstractContextManager[Any] = nullcontext()


def _no_section(name: str) -> AbstractContextManager[Any]:
    return _NOTHING


NO_SECTIONS: Sections = _no_section  # blocks that do nothing, while the loop is not observed


class NamedSections:
    """Tells where the loop is and, while ``timed``, measures; written by the loop alone."""

    def __init__(self, device: torch.device, *, timed: bool) -> None:
        self.annotated = False  # whether a profiler that runs sees the sections by name
        self.signs = 0  # of progress
        make = _CudaTimer if device.type == "cuda" else _CpuTimer
        self._timer = make() if timed else None
        self._sections: dict[str, _Section] = {}
        self._names: list[str] = []  # of the open ones, also while one is entered or left
        self._open: list[tuple[Any, AbstractContextManager[Any] | None]] = []

    def beat(self) -> None:
        self.signs += 1

    @property
    def section(self) -> str | None:
        """The open sections from the outermost in, as ``update/backward``."""
        return "/".join(self._names) or None

    def __call__(self, name: str) -> AbstractContextManager[Any]:
        section = self._sections.get(name)
        if section is None:
            section = self._sections[name] = _Section(name, self)
        return section

    def read(self) -> Mapping[str, Timing]:
        """Return each section's time since the last reading; empty while not timed."""
        return {} if self._timer is None else self._timer.read()

    def enter(self, name: str) -> None:
        self._names.append(name)  # before a device that hangs lets the timer wait
        self.beat()
        annotation = None
        if self.annotated:
            annotation = torch.profiler.record_function(name)
            annotation.__enter__()
        start = None if self._timer is None else self._timer.start()
        self._open.append((start, annotation))

    def leave(self) -> None:
        start, annotation = self._open.pop()
        if self._timer is not None:
            self._timer.stop(self._names[-1], start)
        if annotation is not None:
            annotation.__exit__(None, None, None)
        self._names.pop()
        self.beat()


class _Section:
    """The block of one name; may be open more than once."""

    __slots__ = ("_name", "_sections")

    def __init__(self, name: str, sections: NamedSections) -> None:
        self._name = name
        self._sections = sections

    def __enter__(self) -> None:
        self._sections.enter(self._name)

    def __exit__(self, *error: object) -> None:
        self._sections.leave()


class _CpuTimer:
    def __init__(self) -> None:
        self._totals: dict[str, list[float]] = {}  # milliseconds and count, by section

    def start(self) -> Any:
        return time.perf_counter()

    def stop(self, name: str, start: Any) -> None:
        self._add(name, 1e3 * (time.perf_counter() - start))

    def read(self) -> dict[str, Timing]:
        """Return each section's time since the last reading, and begin anew."""
        totals, self._totals = self._totals, {}
        return {name: Timing(total, int(count)) for name, (total, count) in totals.items()}

    def _add(self, name: str, milliseconds: float) -> None:
        total = self._totals.setdefault(name, [0.0, 0])
        total[0] += milliseconds
        total[1] += 1


class _CudaTimer(_CpuTimer):
    """Pairs of events in the current stream; those that have not passed wait for the next reading.

    While a CUDA graph is captured nothing is measured: the events would become part of the graph.
    """

    def __init__(self) -> None:
        super().__init__()
        self._spare: list[torch.cuda.Event] = []
        self._pending: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    def start(self) -> Any:
        return None if torch.cuda.is_current_stream_capturing() else self._record()

    def stop(self, name: str, start: Any) -> None:
        if start is None or torch.cuda.is_current_stream_capturing():
            return
        self._pending.append((name, start, self._record()))
        if len(self._pending) >= MAX_PENDING:
            self._add_up()

    def read(self) -> dict[str, Timing]:
        self._add_up()
        return super().read()

    def _record(self) -> torch.cuda.Event:
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _add_up(self) -> None:
        pending, self._pending = self._pending, []
        for name, start, end in pending:
            if end.query():
                self._add(name, start.elapsed_time(end))
                self._spare += (start, end)
            else:
                self._pending.append((name, start, end))


class StepProfiler:
    """Traces the steps that the configuration names, once; outside them nothing is measured.

    Steps are counted from 1: step 200 is the one that brings the count from 199 to 200. A run that
    resumes amid the steps traces the rest of them.
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
        """Write the steps traced up to ``step``, if any; RuntimeError or OSError if it fails."""
        if self._running is None:
            return
        first, running = self._running
        self._running = None
        self._sections.annotated = False
        running.stop()
        if step >= first:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"trace-{first}-{step}.json"
            temporary = path.with_name(f".{uuid4().hex}-{path.name}")
            try:
                running.export_chrome_trace(str(temporary))
                temporary.replace(path)
            finally:
                with suppress(OSError):
                    temporary.unlink()


CHECKS = 20
"""how often the watchdog checks within its timeout, which it exceeds by one check at most"""
MAX_CHECK_SECONDS = 5.0

OnHang = Callable[[str, str], None]  # called with a sentence and the stacks of all threads


class Watchdog:
    """A thread that calls ``on_hang`` once after ``seconds`` without a sign.

    It counts its checks instead of the time, so that a process that was stopped and continues
    (SIGSTOP, a suspended machine) does not look as if it hung. A call that never lets go of the
    interpreter's lock stops the watchdog too; torch, numba, sleeping and waiting let go of it.
    """

    def __init__(self, sections: NamedSections, seconds: float, on_hang: OnHang) -> None:
        self._sections = sections
        self._seconds = seconds
        self._on_hang = on_hang
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; may be called from any thread, and again."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self) -> None:
        check = min(self._seconds / CHECKS, MAX_CHECK_SECONDS)
        signs, silent = self._sections.signs, 0.0
        while not self._closed.wait(check):
            if self._sections.signs != signs:
                signs, silent = self._sections.signs, 0.0
                continue
            silent += check
            if silent > self._seconds:
                self._on_hang(self._sentence(), stacks())
                return

    def _sentence(self) -> str:
        section = self._sections.section
        where = "outside all named sections" if section is None else f"in {section}"
        return (
            f"no sign of progress for {self._seconds:g} seconds, {where}; see the stacks in the "
            "job's log, or raise monitor.hang_timeout if a step may take so long"
        )


def stacks() -> str:
    """Return what every thread of this process is doing."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
