"""A job of another scheduler: python -m hpsearch.cluster.psij_job FOLDER.

Few schedulers send a signal by which a job could save its trials, so the driver asks by a file.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from hpsearch.cluster.job_entry import train
from hpsearch.cluster.study_dir import JobDir

LOOK_SECONDS: Final = 1.0  # between two looks for the file


def main(job_folder: str) -> None:
    job = JobDir(Path(job_folder))
    job.started.touch()
    threading.Thread(target=_pass_on, args=[job], daemon=True).start()
    train(job_folder)


def _pass_on(job: JobDir) -> None:
    """Send this process the signal by which a job leaves, once the file is there."""
    while not job.is_to_leave.exists():
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1])
