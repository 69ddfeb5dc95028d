"""A job in the process of the test, as its executor would run it."""

from pathlib import Path

from hpsearch.cluster.failures import stop_flag
from hpsearch.cluster.study_dir import JobDir
from hpsearch.cluster.worker import run_job

RUN_JOB = "import sys; from hpsearch.cluster.job_entry import train; train(sys.argv[1])"
"""a script that does the job whose folder is its argument, in a process of its own"""


def work(job_folder: str) -> None:
    """Do a job; signals that ask to stop are heeded from here on."""
    with stop_flag() as flag:
        run_job(JobDir(Path(job_folder)), flag)
