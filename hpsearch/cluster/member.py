"""One trial as its job sees it: the files it reads and writes."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from hpsearch import yaml_file
from hpsearch.cluster.failures import kind_of, message_of
from hpsearch.cluster.island import Island
from hpsearch.cluster.lineage import Lineage
from hpsearch.cluster.messages import Assignment, AttemptResult, Status, Stop
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.trial_dir import AttemptDir, TrialDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.evaluation import Evaluation, Metrics

FENCED: Final = "fenced"


@dataclass(frozen=True)
class Member:
    """A trial that this job trains as one member of its population."""

    assignment: Assignment
    trial: TrialDir
    attempt: AttemptDir
    config: TrainerConfig
    name: str
    """what a person calls it"""
    lineage: Lineage
    parents: tuple[Path, ...]
    """the checkpoints that the lineage names"""
    island: Island | None = None
    """how it breeds with those beside it, None if it does not"""

    @classmethod
    def open(cls, study: StudyDir, assignment: Assignment) -> "Member":
        """Read the trial's configuration and where it comes from.

        Raises:
            ConfigError: if it is not a complete trainer configuration.
            CorruptError: if it is not said where it comes from, or how it breeds is damaged.
        """
        trial = study.trial(assignment.trial)
        config = read_config(yaml_file.load(trial.config), source=str(trial.config))
        attempt = trial.attempt(assignment.attempt)
        lineage = trial.read_lineage()
        parents = tuple(study.checkpoint(one.checkpoint) for one in lineage.parents)
        return cls(
            assignment=assignment,
            trial=trial,
            attempt=attempt,
            config=config,
            name=f"trial {assignment.trial}",
            lineage=lineage,
            parents=parents,
            island=trial.read_island(),
        )

    def stop_reason(self) -> Stop | Literal["fenced"] | None:
        """Return why the driver wants this attempt to end, None to go on.

        An attempt whose token is no longer the valid one has been replaced: it is fenced. A file
        that cannot be read is no news: on a network file system it may be readable a moment later.
        """
        try:
            control = self.trial.read_control()
        except (CorruptError, DiskError):
            return None
        if control is None or control.token != self.assignment.token:
            return FENCED
        return control.stop

    def obey(self, step: int) -> bool:
        """End this attempt if the driver wants that; return whether it ends.

        Its result is written here, unless it is fenced: such a one writes nothing more.
        """
        reason = self.stop_reason()
        if reason is not None and reason != FENCED:
            self.end(reason, step)
        return reason is not None

    def report(self, step: int, found: Evaluation) -> None:
        """Add an evaluation to the learning curve, and its games beside it."""
        row = {"step": step, "attempt": self.assignment.attempt, "at": time.time()}
        games = {name: asdict(counted) for name, counted in found.games.items()}
        self.trial.append_games({**row, "games": games})
        metrics = plain_metrics(found.metrics)
        self.trial.append_metrics({**row, "metrics": metrics, "entropies": found.entropies})

    def fail(self, error: Exception, step: int) -> None:
        """Say that an error of the job ended the attempt."""
        self.end("failed", step, kind=kind_of(error), message=message_of(error))

    def end(
        self,
        status: Status,
        step: int,
        *,
        metrics: Metrics | None = None,
        kind: str | None = None,
        message: str = "",
    ) -> None:
        """Say how the attempt ended; the last thing that a member writes."""
        result = AttemptResult(
            token=self.assignment.token,
            status=status,
            step=step,
            kind=kind,
            message=message,
            metrics=plain_metrics(metrics or {}),
        )
        self.attempt.write_result(result)


def plain_metrics(metrics: Metrics) -> dict[str, dict[str, float]]:
    """Return metrics as JSON holds them."""
    return {name: asdict(value) for name, value in metrics.items()}
