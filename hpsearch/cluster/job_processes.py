"""The processes of jobs on this machine: found again by their ids, and killed."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from hpsearch.cluster.study_dir import JobDir

NAMING_SECONDS: Final = 1.0
"""for which a process may have no command line: while it starts, and while it ends"""


def process_of(job: JobDir, job_id: str) -> psutil.Process | None:
    """Return the first process of a job while it runs; its id may have passed to another one."""
    deadline = time.monotonic() + NAMING_SECONDS
    try:
        process = psutil.Process(int(job_id))
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        # Linux fills in the command line only after `Popen` has returned.
        while not (words := process.cmdline()) and time.monotonic() < deadline:
            time.sleep(0.001)
    except psutil.Error:  # gone, or another user's by now
        return None
    return process if any(Path(word) == job.root.absolute() for word in words) else None


def kill_tree(root: psutil.Process) -> None:
    """Kill a process and all that it has started, as far as they are there."""
    with suppress(psutil.NoSuchProcess):
        for process in (*root.children(recursive=True), root):
            with suppress(psutil.NoSuchProcess):
                process.kill()
