"""A job of another scheduler: python -m hpsearch.cluster.psij_job FOLDER.

Few schedulers send a signal by which a job could save its trials, so the driver asks by a file; and
what they send a job that is cancelled is the same that asks it to leave.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.cluster.job_entry import train_until
from hpsearch.cluster.study_dir import JobDir

LOOK_SECONDS: Final = 1.0  # between two looks for the file


class JobFlag(StopFlag):
    """Leaves a job that is cancelled at once; the scheduler ends what it has started."""

    def __init__(self, job: JobDir) -> None:
        super().__init__()
        self._job = job

    def set(self, signum: int, frame: FrameType | None) -> None:
        if self._job.is_cancelled.exists():
            os._exit(128 + signum)
        super().set(signum, frame)


def main(job: JobDir) -> None:
    with stop_flag(flag=JobFlag(job)) as flag:
        job.started.touch()
        threading.Thread(target=_pass_on, args=[job], daemon=True).start()
        train_until(flag, job)


def _pass_on(job: JobDir) -> None:
    """Send this process the signal by which a job leaves, once the file is there."""
    while not job.is_to_leave.exists():
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(JobDir(Path(sys.argv[1])))
