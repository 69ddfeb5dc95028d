"""What Optuna knows of a study beside its trials."""

from dataclasses import dataclass

from optuna.study import StudyDirection


@dataclass(frozen=True)
class Head:
    """A study in Optuna."""

    study_id: int
    name: str
    directions: tuple[StudyDirection, ...]
    metrics: tuple[str, ...]
    """names of the objectives"""
