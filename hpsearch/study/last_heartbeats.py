"""The heartbeats of running jobs, and what they say of each attempt."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hpsearch.cluster.record_files import Stamp
from hpsearch.cluster.records import Heartbeat, JobHeartbeat
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.records import Job, Trial


class AgedHeartbeat(NamedTuple):
    heartbeat: Heartbeat
    age: float  # seconds, by the file system's clock


OfJobs = Mapping[str, tuple[JobHeartbeat, float] | None]
"""by job: its last heartbeat, and when that was written, by the file system's clock"""


class JobHeartbeats:
    """Reads the heartbeats of jobs; one that has not changed is not read again."""

    def __init__(self, folder: StudyDir) -> None:
        self._folder = folder
        self._known: dict[str, tuple[Stamp, JobHeartbeat | None]] = {}

    def read(self, names: Iterable[str]) -> OfJobs:
        known, self._known = self._known, {}
        of_jobs: dict[str, tuple[JobHeartbeat, float] | None] = {}
        for name in names:
            file, of_jobs[name] = self._folder.job(name).heartbeat, None
            stamp = file.stamp()
            if stamp is None:
                continue
            before = known.get(name)
            heartbeat = file.try_read() if before is None or before[0] != stamp else before[1]
            if heartbeat is not None:
                self._known[name] = stamp, heartbeat
                of_jobs[name] = heartbeat, stamp.written_at
        return of_jobs


def last_heartbeats(
    folder: StudyDir, attempts: Sequence[tuple[Trial, Job]], *, now: float
) -> dict[int, AgedHeartbeat]:
    """Return the last heartbeats of running attempts, by trial; a job's file is read once."""
    of_jobs = JobHeartbeats(folder).read({job.name for _, job in attempts})
    return heartbeats_of(folder, attempts, of_jobs, now=now)


def heartbeats_of(
    folder: StudyDir, attempts: Sequence[tuple[Trial, Job]], of_jobs: OfJobs, *, now: float
) -> dict[int, AgedHeartbeat]:
    newest = {}
    for trial, job in attempts:
        own = of_jobs[job.name]
        heartbeat: Heartbeat | None
        age: float | None
        if own is not None:
            heartbeat = own[0].of(trial.number, trial.attempts)
            age = max(0.0, now - own[1])
        else:  # a job of an older version, see `AttemptDir.heartbeat`
            file = folder.trial(trial.number).attempt(trial.attempts).heartbeat
            heartbeat, age = file.try_read(), file.age(now)
        if heartbeat is not None and age is not None:
            newest[trial.number] = AgedHeartbeat(heartbeat, age)
    return newest
