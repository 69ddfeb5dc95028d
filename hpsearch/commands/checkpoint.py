"""hpsearch checkpoint: a checkpoint now, instead of at the next interval."""

import time
from pathlib import Path

from hpsearch.cluster.trial_dir import TrialDir
from hpsearch.errors import UsageError

SILENT_SECONDS = 60.0
"""without a sign of life after which nobody is taken to train"""


def request_checkpoint(folder: Path) -> int:
    """Ask the process that trains in ``folder``, a run's or a trial's, for a checkpoint now."""
    trial = TrialDir(folder)
    if not trial.config.exists():
        raise UsageError(
            f"{folder} is no folder of a run or a trial; they are RUNS/NAME after hpsearch train "
            "and RUNS/STUDY/trials/NUMBER in a study"
        )
    attempt = trial.attempt(trial.newest_attempt())
    beat = attempt.read_heartbeat()
    silent = beat is not None and time.time() - beat.at > SILENT_SECONDS
    if attempt.read_result() is not None or silent:
        raise UsageError(
            f"nobody trains in {folder} now; its checkpoints are in {trial.checkpoints}"
        )
    trial.request_save()
    print(f"asked for a checkpoint below {trial.checkpoints}; whoever trains there writes it")
    return 0
