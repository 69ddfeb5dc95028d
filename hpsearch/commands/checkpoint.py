"""hpsearch checkpoint: a checkpoint now, instead of at the next interval."""

import time
from pathlib import Path

from hpsearch.cluster.heartbeats import LONGEST_SECONDS
from hpsearch.cluster.records import Heartbeat
from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.errors import UsageError

SILENT_SECONDS = 3 * LONGEST_SECONDS
"""without a sign of life after which a job is taken to have ended"""


def request_checkpoint(folder: Path) -> int:
    """Ask the process that trains in ``folder``, a run's or a trial's, for a checkpoint now."""
    trial = TrialDir(folder)
    if not trial.config.exists():
        raise UsageError(
            f"{folder} is no folder of a run or a trial; they are RUNS/NAME after hpsearch train "
            "and RUNS/STUDY/trials/NUMBER in a study"
        )
    number = trial.newest_attempt()
    attempt, beat = trial.attempt(number), _last_sign(trial, number)
    is_late = beat is not None and time.time() - beat.at > SILENT_SECONDS
    silent = is_late and beat is not None and not beat.is_busy
    if attempt.read_result() is not None or silent:
        raise UsageError(
            f"no job trains in {folder} now; its checkpoints are in {trial.checkpoints}"
        )
    trial.request_save()
    print(f"asked for a checkpoint below {trial.checkpoints}; the job that trains there writes it")
    return 0


def _last_sign(trial: TrialDir, attempt: int) -> Heartbeat | None:
    """Return the last sign of life of an attempt, of a study's trial or a run of its own."""
    study = StudyDir(trial.root.absolute().parent.parent)
    if study.spec.exists() and trial.root.name.isdecimal():
        return study.heartbeat(int(trial.root.name), attempt)
    own = trial.heartbeat.read()
    beat = None if own is None else own.of(0, attempt)
    return trial.attempt(attempt).read_heartbeat() if beat is None else beat
