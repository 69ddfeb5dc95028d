"""JobMonitor: everything that is observed of a job's training, behind a few calls. Axis: P members.

    monitor = JobMonitor(config.monitor, job, places, device, on_hang)
    with monitor.sections("rollout"): ...           # in the step
    steps = min(steps, monitor.steps_until_due(step))
    monitor.before_steps(step)
    ...                                             # train
    diverged = monitor.after_steps(step, steps_of_members, scalars, layers)
    monitor.watch(places)                           # these members train from now on

``step`` is the job's: it grows with every step, whichever members come and go.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from hpsearch.monitor.config import MonitorConfig
from hpsearch.monitor.resources import LayerTensors, Resources, layer_statistics
from hpsearch.monitor.sinks import Sinks, sink_makers, switching_off
from hpsearch.monitor.snapshot import (
    JobPlace,
    MemberPlace,
    MemberSnapshot,
    MemberTexts,
    MonitorSnapshot,
)
from hpsearch.monitor.timing import NO_SECTIONS, NamedSections, OnHang, StepProfiler, Watchdog


class JobMonitor:
    """Observes the population of one job; no failure of an observer stops the training."""

    def __init__(
        self,
        config: MonitorConfig,
        job: JobPlace,
        members: Sequence[MemberPlace],
        device: torch.device,
        on_hang: OnHang,
    ) -> None:
        """Switch on what ``config`` names, for members in the order of the population.

        ``on_hang`` is called once, from another thread; it should say so and end the process.
        """
        self._config = config
        self._members = list(members)
        self._named = NamedSections(device, timed=config.timings)
        is_told = config.timings or config.profiler is not None or config.hang_timeout is not None
        self.sections = self._named if is_told else NO_SECTIONS  # for the training loop
        self._sinks = Sinks(sink_makers(config, job))
        self._observes_layers = config.layer_statistics
        self._resources: Resources | None = None
        if config.resources:
            with switching_off("the use of resources"):
                self._resources = Resources(device)
        self._profiler: StepProfiler | None = None
        if config.profiler is not None:
            self._profiler = StepProfiler(config.profiler, job.traces, self._named, device)
        self._watchdog: Watchdog | None = None
        if config.hang_timeout is not None:
            self._watchdog = Watchdog(self._named, config.hang_timeout, on_hang)
        self.job_values: Callable[[], Mapping[str, float]] = dict  # more of them, by name
        self._last_time: tuple[float, int] | None = None
        self._step = members[0].step if members else 0

    def beat(self) -> None:
        """Give a sign of progress; every section and every call below gives one too."""
        self._named.beat()

    def steps_until_due(self, step: int) -> int:
        """Return after how many steps, at least 1, `after_steps` must be called.

        What happens at certain steps goes by ``step``, the job's.
        """
        due = self._config.interval - step % self._config.interval
        traced = None if self._profiler is None else self._profiler.steps_until_due(step)
        return due if traced is None else min(due, traced)

    def before_steps(self, step: int) -> None:
        """Prepare for the steps after ``step``, the job's."""
        self._named.beat()
        self._step = step
        if self._last_time is None:
            self._last_time = time.perf_counter(), step
        self._profile(lambda profiler: profiler.before_steps(step))

    def after_steps(
        self,
        step: int,
        steps: Sequence[int],
        scalars: Callable[[], Mapping[str, Tensor]],
        layers: Callable[[], LayerTensors],
    ) -> Mapping[int, str]:
        """Take a snapshot if one is due; return the diverged members by index, each with why.

        ``step`` is the job's, ``steps`` are the members'. ``scalars`` are numbers of training by
        name, each (P,): ``host/loss``, ``host/lr`` and so on, without what is not known yet; a NaN
        is a member's fault. ``layers`` are asked for only while layer statistics are on.
        """
        self._named.beat()
        self._step = step
        self._profile(lambda profiler: profiler.after_steps(step))
        is_observed = bool(self._sinks) or self._config.max_loss is not None
        if step % self._config.interval or not is_observed:
            return {}
        snapshot = self._snapshot(step, steps, scalars(), layers)
        self._sinks.write(snapshot)
        self._named.beat()
        max_loss = self._config.max_loss
        if max_loss is None:
            return {}
        sentences = (divergence(member.scalars, max_loss) for member in snapshot.members)
        return {index: sentence for index, sentence in enumerate(sentences) if sentence}

    def write_texts(self, texts: Callable[[], Sequence[MemberTexts]]) -> None:
        """Write texts of members where some are shown; else ``texts`` is not called."""
        if self._sinks.has_readers:
            self._sinks.write_texts(time.time(), texts())

    def watch(self, members: Sequence[MemberPlace]) -> None:
        self._members = list(members)

    def close(self) -> None:
        """Finish everything that was written and end the threads; the last call."""
        if self._watchdog is not None:
            self._watchdog.close()
        self._profile(lambda profiler: profiler.stop(self._step))
        self._sinks.close()

    def _snapshot(
        self,
        step: int,
        steps: Sequence[int],
        scalars: Mapping[str, Tensor],
        layers: Callable[[], LayerTensors],
    ) -> MonitorSnapshot:
        layer_names, statistics = self._layer_statistics(layers)
        columns = [values.detach().double().unsqueeze(1) for values in scalars.values()]
        columns += [statistics] if layer_names else []
        # Nothing else here waits for the device.
        rows = torch.cat(columns, dim=1).tolist() if columns else [[] for _ in self._members]
        members = tuple(
            MemberSnapshot(
                place,
                own,
                dict(zip(scalars, row[: len(scalars)], strict=True)),
                dict(zip(layer_names, row[len(scalars) :], strict=True)),
            )
            for place, own, row in zip(self._members, steps, rows, strict=True)
        )
        return MonitorSnapshot(time.time(), members, self._named.read(), self._job_values(step))

    def _layer_statistics(self, layers: Callable[[], LayerTensors]) -> tuple[list[str], Tensor]:
        if self._observes_layers:
            with switching_off("observing the layers"):
                return layer_statistics(layers())
            self._observes_layers = False  # it failed
        return [], torch.zeros(0, 0)

    def _job_values(self, step: int) -> dict[str, float]:
        now = time.perf_counter()
        values = dict(self.job_values())
        if self._last_time is not None:
            then, before = self._last_time
            values["steps_per_second"] = (step - before) / (now - then)
        self._last_time = now, step
        if self._resources is not None:
            with switching_off("the use of resources"):
                return values | self._resources.read()
            self._resources = None  # it failed
        return values

    def _profile(self, call: Callable[[StepProfiler], None]) -> None:
        if self._profiler is not None:
            with switching_off("the profiler"):
                call(self._profiler)
                return
            self._profiler = None  # it failed


def divergence(scalars: Mapping[str, float], max_loss: float) -> str | None:
    """Return a sentence if a loss of one member is above ``max_loss`` or no number, else None.

    Losses are the scalars named ``loss`` or ``<role>/loss``.
    """
    for name, value in scalars.items():
        if name.rpartition("/")[2] == "loss" and not value <= max_loss:  # true for NaN too
            return (
                f"the loss {name} is {value:g}, above max_loss {max_loss:g}; lower the learning "
                "rate, or raise monitor.max_loss"
            )
    return None
