"""Which waiting trials train together: a pure function of the state."""

from collections.abc import Callable, Hashable, Sequence

from hpsearch.study.records import Trial


def groups(
    waiting: Sequence[Trial], kin: Callable[[Trial], Hashable], members_per_job: int
) -> list[list[Trial]]:
    """Return the trials of each job to submit, those that have waited longest first.

    Trials of one job are of one kin: of one shape, and of one island where there are islands. Those
    that an interruption threw out of one job go on together, so that an interrupted study trains as
    an uninterrupted one does; one that took too much memory together with others goes on alone.
    """
    together: dict[Hashable, list[Trial]] = {}
    for trial in sorted(waiting, key=lambda trial: trial.number):
        alone = trial.number if trial.is_alone else None
        together.setdefault((trial.job, kin(trial), alone), []).append(trial)
    return sorted(
        (
            group[start : start + members_per_job]
            for group in together.values()
            for start in range(0, len(group), members_per_job)
        ),
        key=lambda group: group[0].number,
    )
