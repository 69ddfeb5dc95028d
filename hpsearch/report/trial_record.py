"""One trial as plain data, as `hpsearch trials --json` and the Python API give it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hpsearch.printable import interval_text
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView, trial_state
from hpsearch.terminal import print_line, to_html


@dataclass(frozen=True)
class TrialRecord:
    """What a trial has come to; its fields are published and stay."""

    trial: int
    """its number"""
    state: str
    """waiting, running, finished, pruned or failed"""
    value: float | None
    """of the first objective; None before it was measured at the end"""
    metrics: Mapping[str, Mapping[str, float]]
    """by name: value, the ends low and high of its 95 % interval, and games"""
    params: Mapping[str, Any]
    """what it changes in the study's configuration, by dotted path"""
    attempts: int
    failure: str | None
    """kind of the failure that ended it"""
    ended_by: str | None
    """key of `end` that ended it before its last step"""
    message: str
    """how it failed, or what ended it early"""
    losses: Sequence[Mapping[str, Any]]
    """attempts that did not finish it: attempt, kind, seconds and GPUs lost, end of the log"""
    retry_of: int | None
    origin: Mapping[str, Any] | None
    """of a trial of a population: its member, generation, parents, operator and interval"""
    config: Mapping[str, Any]
    """its complete configuration"""

    def _repr_html_(self) -> str:
        """Return what is most often looked for, without the configuration."""
        lines: list[str] = [f"trial {self.trial}: {self.state} {self.message}".rstrip()]
        lines += [f"{name} {interval_text(metric)}" for name, metric in self.metrics.items()]
        lines += [f"{path}: {value}" for path, value in self.params.items()]
        text = "\n".join(lines)
        return to_html(lambda console: print_line(console, text))


def trial_record(view: StudyView, trial: Trial) -> TrialRecord:
    return TrialRecord(
        trial=trial.number,
        state=trial_state(trial),
        value=trial.value,
        metrics=trial.metrics,
        params=view.settings(trial),
        attempts=trial.attempts,
        failure=trial.failure,
        ended_by=trial.ended_by,
        message=trial.message,
        losses=[asdict(loss) for loss in trial.losses],
        retry_of=trial.retry_of,
        origin=None if trial.origin is None else asdict(trial.origin),
        config=view.config(trial),
    )


def plain_record(record: TrialRecord) -> dict[str, Any]:
    """Return a record as JSON has it."""
    return dict(vars(record))
