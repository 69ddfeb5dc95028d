"""Runs of Weights & Biases; WANDB_MODE=offline keeps them in files, for `wandb sync` later."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpsearch.errors import UsageError
from hpsearch.study.options import WandbTracker
from hpsearch.study.records import FAIL
from hpsearch.study.tracker_runs import RunStart, SentPoint

STEP = "step"  # the metric over which all others are drawn: evaluations and losses come in turn


class WandbRuns:
    """Implements `TrackerRuns`."""

    def __init__(self, options: WandbTracker, folder: Path) -> None:
        """Keep files of the runs in a folder; UsageError without the package."""
        try:
            import wandb
        except ImportError as error:
            raise UsageError(
                "track with wandb needs its package: pip install 'hpsearch[wandb]'"
            ) from error
        self._wandb = wandb
        self._options = options
        self._folder = folder
        self._runs: dict[str, wandb.Run] = {}

    def begin(self, start: RunStart, run: str | None) -> str:
        run = run or f"{start.study}-{hashlib.sha256(start.key.encode()).hexdigest()[:12]}"
        if run in self._runs:  # it failed meanwhile
            self._runs.pop(run).finish()
        settings: Any = {"silent": True, "console": "off", "x_disable_stats": True}
        self._folder.mkdir(parents=True, exist_ok=True)
        opened = self._wandb.init(
            project=self._options.project,
            entity=self._options.entity,
            id=run,
            name=start.name,
            group=start.study,
            config=dict(start.params),
            dir=str(self._folder),
            resume="allow",
            reinit="create_new",
            settings=self._wandb.Settings(**settings),
        )
        opened.define_metric(STEP)
        opened.define_metric("*", step_metric=STEP)
        self._runs[run] = opened
        return run

    def log(self, run: str, points: Sequence[SentPoint]) -> None:
        for point in points:
            self._runs[run].log({STEP: point.step, **point.values})

    def end(self, run: str, state: str, values: Mapping[str, float]) -> None:
        opened = self._runs[run]
        opened.summary.update({f"final/{name}": value for name, value in values.items()})
        opened.summary.update({"state": state})
        opened.finish(exit_code=int(state == FAIL))
        del self._runs[run]

    def close(self) -> None:
        """Finish sending; runs of trials that still train are gone on with later."""
        for opened in self._runs.values():
            opened.finish()
        self._runs = {}
