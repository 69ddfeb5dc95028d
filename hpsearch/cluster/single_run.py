"""`hpsearch train`: one trainer in a folder that looks like a trial's, without a study.

One process trains it at a time: it holds a lock, which ends with the process.
"""

import fcntl
import shutil
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from hpsearch import yaml_file
from hpsearch.cluster.failures import RankLostError, StopFlag
from hpsearch.cluster.heartbeats import SHORTEST_SECONDS, Heartbeats
from hpsearch.cluster.job_training import JobTraining, ProgressWatcher
from hpsearch.cluster.member import Member
from hpsearch.cluster.records import Assignment, AttemptResult, Control, Fresh, Lineage
from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError, HpsearchError
from hpsearch.files import write_text
from hpsearch.monitor.snapshot import JobPlace
from hpsearch.schema import to_plain
from hpsearch.trainers.config import TrainerConfig, training_differences


@contextmanager
def open_run(config: TrainerConfig, folder: Path) -> Iterator[Member]:
    """Give the run of a folder, a new one or one that was interrupted, to this process.

    Raises ConflictError if another process trains it, or it has another configuration.
    """
    if StudyDir(folder).spec.exists() or StudyDir(folder.parent.parent).spec.exists():
        raise ConflictError(
            f"{folder} is the folder of a study or of its trial; give the run another --name"
        )
    trial = TrialDir(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with trial.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConflictError(
                f"another process trains {folder}; stop it first, or give this run another --name"
            ) from error
        _check_same(trial, config)
        shutil.rmtree(trial.weights, ignore_errors=True)  # of an attempt that was killed
        number = trial.newest_attempt() + 1
        assignment = Assignment(trial=0, attempt=number, token=uuid4().hex)
        own, lineage = trial.attempt(assignment.attempt), Lineage(Fresh(), config.seed)
        control = Control(assignment.token, stop=None)
        trial.create(yaml_file.dump(to_plain(config)), lineage, control=control)
        yield Member(assignment, trial, own, config, folder.name, lineage, ())


def train_alone(
    member: Member, flag: StopFlag, watcher: ProgressWatcher, team: Team
) -> AttemptResult:
    """Train a run until its end or until ``flag`` is set; return how it ended.

    An error of the training itself is an end too, and told in full in a file of the folder. Raises
    HpsearchError if it cannot begin.
    """
    trial, name = member.trial, member.name
    place = JobPlace(study=name, job=name, textfile=trial.textfile, traces=trial.traces)
    heartbeats = Heartbeats(trial.heartbeat, SHORTEST_SECONDS)
    try:
        JobTraining([member], flag, place, heartbeats, trial.timeline, team, watcher=watcher).run()
    except Exception as error:
        is_failure = isinstance(error, RankLostError) and error.kind is not None
        if isinstance(error, HpsearchError) and not is_failure:  # a user's error
            raise
        write_text(trial.fault, "".join(traceback.format_exception(error)))
    result = member.attempt.read_result()
    assert result is not None, "a population writes how each member ended"
    return result


def _check_same(trial: TrialDir, config: TrainerConfig) -> None:
    began = trial.config.exists() and any(trial.checkpoints.glob("step-*"))
    if not began or config.checkpoint.resume == "never":
        return
    differing = training_differences(yaml_file.load(trial.config), to_plain(config))
    if differing:
        raise ConflictError(
            f"{trial.root} was begun with another configuration, which differs in "
            f"{', '.join(differing)}; give the run another --name, or begin it anew with "
            "--resume never"
        )
