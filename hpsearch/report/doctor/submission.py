"""Whether sbatch would take the jobs of a study: it is asked, without submitting."""

from collections.abc import Sequence

from hpsearch.cluster.executor import SubmissionRefusedError
from hpsearch.cluster.sbatch import try_submission
from hpsearch.cluster.scheduler_calls import SchedulerCalls
from hpsearch.report.doctor.finding import Finding


def check_submission(calls: SchedulerCalls, options: Sequence[str], whose: str) -> Finding:
    """Ask sbatch whether it would take a job.

    Raises:
        SchedulerSilentError: if it gave no answer.
    """
    name = f"submission of {whose}"
    try:
        try_submission(calls, options)
    except SubmissionRefusedError as error:
        return Finding(name, "error", f"{error}; change the profile, or ask the site")
    return Finding(name, "ok", f"sbatch takes {' '.join(options)}")
